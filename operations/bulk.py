"""
Cancel or retry many operations, by the rules for a single one.

This is done in batches. Each is a transaction of its own, so no lock lasts longer than
a batch, and finished batches stay done. Callers count the operations first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, assert_never
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import (
    Author,
    Identifier,
    db_now,
    json_rows,
    make_rows_json,
    reading,
    writing,
)
from models.database.leader_lock import keep_leader_out
from models.database.tables import LIVE, operations, scheduled_actions
from models.operation_state import (
    OperationState,
    Overlap,
    Reason,
)
from operations.cancel_and_retry import (
    REOPENED,
    RETRIED_STATES,
    is_beside_live,
    note_change_of_state,
)
from operations.record import QUEUE_LIMIT, count_live
from operations.running.step_records import skip_steps_of
from operations.selecting import (
    Change,
    Counted,
    Selection,
    fetch_page,
)

#: Operations in one transaction, which takes less than a tenth of a second.
BATCH = 500

#: Why an operation was left as it was, unless a ``Reason`` says it.
CHANGED = "changed meanwhile"


@dataclass(slots=True)
class Changed:
    """How many operations were changed, and how many were not, by reason."""

    done: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Changed) -> Changed:
        """Return both together."""
        return Changed(self.done + other.done, self.refused + other.refused)


def make_change_json(
    counted: Counted, changed: Changed | None, *, dry_run: bool
) -> dict[str, object]:
    """Return the documented object; *changed* is None if nothing was done."""
    return {
        "matched": counted.total,
        "by_state": counted.by_state,
        "by_app": counted.by_app,
        "changed": 0 if changed is None else changed.done,
        "refused": {} if changed is None else dict(changed.refused),
        "dry_run": dry_run,
    }


def change_selected(
    engine: sa.Engine,
    selection: Selection,
    *,
    change: Change,
    at: datetime,
    author: Author | None = None,
) -> Changed:
    """
    Apply *change* to the operations of *selection*.

    Args:
        engine: Each batch is a transaction of its own.
        change: What is done.
        at: From ``count_selected``: operations recorded later stay as they are.
        author: Who does it, for the record of changes.
    """
    match change:
        case Change.CANCEL:
            return cancel_selected(engine, selection, at=at, author=author)
        case Change.RETRY:
            return retry_selected(engine, selection, at=at, author=author)
        case _:
            assert_never(change)


def cancel_selected(
    engine: sa.Engine,
    selection: Selection,
    *,
    at: datetime,
    author: Author | None = None,
    batch: int = BATCH,
) -> Changed:
    """
    Cancel the operations of *selection* that are not final, as ``cancel`` does.

    Args:
        engine: Each batch is a transaction of its own.
        at: From ``count_selected``: operations recorded later stay as they are.
        author: Who does it, for the record of changes.
        batch: Operations in one transaction.
    """
    changed = Changed()
    for page in _turn_pages(engine, selection, Change.CANCEL, at, batch):
        with writing(engine, author=author) as connection:
            keep_leader_out(connection)
            changed += _cancel(connection, page)
    return changed


def _cancel(connection: sa.Connection, page: Sequence[sa.Row[Any]]) -> Changed:
    ids = [row.id for row in page]
    former = _lock(connection, ids)
    canceled = _update(
        connection,
        ids,
        LIVE.of(),
        state=OperationState.CANCELED,
        reason=Reason.CANCELED,
        finished_at=db_now(),
    )
    skip_steps_of(connection, canceled)
    for each in canceled:
        note_change_of_state(
            connection, former[each], "canceled", to=OperationState.CANCELED
        )
    refused = Counter({CHANGED: len(ids) - len(canceled)})
    return Changed(len(canceled), +refused)


def retry_selected(
    engine: sa.Engine,
    selection: Selection,
    *,
    at: datetime,
    author: Author | None = None,
    batch: int = BATCH,
) -> Changed:
    """
    Make the operations of *selection* pending again, as ``reopen`` does.

    The latest come first: if several must not overlap, the latest runs, as in a tick.
    Operations for which ``overlap: queue`` has no more room are refused.

    Args:
        engine: Each batch is a transaction of its own.
        at: From ``count_selected``: operations recorded later stay as they are.
        author: Who does it, for the record of changes.
        batch: Operations in one transaction.
    """
    changed = Changed()
    for page in _turn_pages(engine, selection, Change.RETRY, at, batch):
        with writing(engine, author=author) as connection:
            keep_leader_out(connection)
            changed += _retry(connection, page)
    return changed


def change_page(
    connection: sa.Connection, page: Sequence[sa.Row[Any]], change: Change
) -> Changed:
    """
    Apply *change* to the operations of a page.

    Args:
        connection: In a transaction that has called ``keep_leader_out``.
        page: From ``fetch_page``.
        change: What is done.
    """
    match change:
        case Change.CANCEL:
            return _cancel(connection, page)
        case Change.RETRY:
            return _retry(connection, page)
    assert_never(change)


def _retry(connection: sa.Connection, page: Sequence[sa.Row[Any]]) -> Changed:
    changed = Changed()
    exclusive = [row for row in page if row.overlap != Overlap.ALLOW]
    if exclusive:
        _lock_actions(connection, {row.action_uid for row in exclusive})
    room = _find_room(connection, [r for r in page if r.overlap == Overlap.QUEUE])
    chosen: list[UUID] = []
    alone: list[UUID] = []
    taken: set[tuple[str, str | None]] = set()
    for row in page:
        key = (row.action_uid, row.user_id)
        if row.overlap == Overlap.SKIP and key in taken:
            changed.refused[Reason.OVERLAP] += 1
        elif row.overlap == Overlap.QUEUE and room[key] <= 0:
            changed.refused[Reason.QUEUE_FULL] += 1
        else:
            taken.add(key)
            room[key] -= 1
            (alone if row.overlap == Overlap.SKIP else chosen).append(row.id)
    former = _lock(connection, [*chosen, *alone])
    may_be = operations.c.state.in_(sorted(RETRIED_STATES))
    # Only where it matters: PostgreSQL would compare all of them with all live ones.
    reopened = _update(connection, chosen, may_be, **REOPENED)
    reopened += _update(connection, alone, may_be, ~is_beside_live(), **REOPENED)
    changed.done += len(reopened)
    for each in reopened:
        note_change_of_state(
            connection, former[each], "retried", to=OperationState.PENDING
        )
    for each in former.keys() - set(reopened):
        is_fit = former[each].state in RETRIED_STATES
        changed.refused[Reason.OVERLAP if is_fit else CHANGED] += 1
    return changed


def _turn_pages(
    engine: sa.Engine, selection: Selection, change: Change, at: datetime, batch: int
) -> Iterator[Sequence[Any]]:
    """Yield the selected rows in batches, the latest first, each row once."""
    after = None
    while True:
        with reading(engine) as connection:
            page = fetch_page(
                connection, selection, change, at=at, after=after, limit=batch
            )
        if page:
            yield page
        if len(page) < batch:
            return
        after = (page[-1].recorded_at, page[-1].id)


def _lock_actions(connection: sa.Connection, uids: set[str]) -> None:
    """Lock the actions, as ``record`` expects: no live operations can be added."""
    given = json_rows(connection.dialect.name, {"uid": sa.Text()}, "given")
    connection.execute(
        sa.select(scheduled_actions.c.uid)
        .where(scheduled_actions.c.uid.in_(sa.select(given.c.uid)))
        .order_by(scheduled_actions.c.uid)
        .with_for_update(of=scheduled_actions),
        {"given": make_rows_json([{"uid": uid} for uid in sorted(uids)])},
    )


def _find_room(
    connection: sa.Connection, queued: Sequence[sa.Row[Any]]
) -> Counter[tuple[str, str | None]]:
    """Return how many more operations of each action and user may be queued."""
    room: Counter[tuple[str, str | None]] = Counter()
    if not queued:
        return room
    for row in queued:
        room[row.action_uid, row.user_id] = QUEUE_LIMIT
    room.subtract(count_live(connection, {row.action_uid for row in queued}))
    return room


@cache
def _given(dialect: str) -> sa.FromClause:
    return json_rows(dialect, {"id": Identifier}, "given")


def _update(
    connection: sa.Connection,
    ids: Sequence[UUID],
    *where: sa.ColumnElement[bool] | sa.TextClause,
    **values: Any,
) -> list[UUID]:
    """Write *values* into those of *ids* that match; return their ids."""
    if not ids:
        return []
    given = _given(connection.dialect.name)
    changed = connection.execute(
        sa.update(operations)
        .where(operations.c.id.in_(sa.select(given.c.id)), *where)
        .values(**values)
        .returning(operations.c.id),
        {"given": make_rows_json([{"id": each} for each in ids])},
    )
    return list(changed.scalars())


def _lock(connection: sa.Connection, ids: Sequence[UUID]) -> dict[UUID, sa.Row[Any]]:
    """Lock operations, and return what each is now: id, app, state."""
    given = _given(connection.dialect.name)
    rows: Any = connection.execute(
        sa.select(operations.c.id, operations.c.app, operations.c.state)
        .where(operations.c.id.in_(sa.select(given.c.id)))
        .order_by(operations.c.id)
        .with_for_update(of=operations),
        {"given": make_rows_json([{"id": each} for each in ids])},
    )
    return {row.id: row for row in rows}
