"""
Cancel or try again many operations, by the rules that hold for one.

In batches, each a transaction of its own: no lock is held for longer than one of
them takes, and what ends in between stays done. Who asks counts first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, assert_never
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import (
    Identifier,
    db_now,
    json_rows,
    make_rows_json,
    read_clock,
    reading,
    writing,
)
from models.database.tables import LIVE, leases, operations, scheduled_actions
from models.errors import ConflictError, UsageError
from models.operation_state import (
    LIVE_STATES,
    OperationState,
    Overlap,
    Queue,
    Reason,
)
from operations.cancel_and_retry import REOPENED, RETRIED_STATES, is_beside_live
from operations.record import QUEUE_LIMIT, count_live
from operations.running.step_records import skip_steps_of

#: Operations in one transaction: it is over within a tenth of a second.
BATCH = 500

#: Why one of many was left as it was, if not for the reason of a recorded one.
CHANGED = "changed meanwhile"


class Change(StrEnum):
    """What may be done to many operations."""

    CANCEL = "cancel"
    RETRY = "retry"


#: States that each change is for.
CHANGEABLE: Mapping[Change, frozenset[OperationState]] = MappingProxyType(
    {Change.CANCEL: LIVE_STATES, Change.RETRY: RETRIED_STATES}
)


@dataclass(frozen=True, slots=True)
class Selection:
    """
    Which operations are meant; None, or nothing, leaves a field open.

    Args:
        reason: What the reason begins with: free text may follow it.

        since: Compared with the occurrence, inclusive.

        until: Compared with the occurrence, exclusive.
    """

    app: str | None = None
    action_uid: str | None = None
    states: frozenset[OperationState] = frozenset()
    reason: Reason | None = None
    queue: Queue | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether it leaves out nothing."""
        return self == Selection()


@dataclass(frozen=True, slots=True)
class Counted:
    """
    What a selection holds at a moment.

    Args:
        at: Aware UTC; what is recorded later is not part of it.

        by_state: How many, by state; only those that the change is for.

        by_app: How many, by small app, the most first.
    """

    at: datetime
    by_state: Mapping[str, int]
    by_app: Mapping[str, int]

    @property
    def total(self) -> int:
        """How many in all."""
        return sum(self.by_state.values())


@dataclass(slots=True)
class Changed:
    """How many were changed, and how many were not, by the reason for it."""

    done: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def make_change_json(
    counted: Counted, changed: Changed | None, *, dry_run: bool
) -> dict[str, object]:
    """Return the documented object for a change of many; None: nothing was done."""
    return {
        "matched": counted.total,
        "by_state": counted.by_state,
        "by_app": counted.by_app,
        "changed": 0 if changed is None else changed.done,
        "refused": {} if changed is None else dict(changed.refused),
        "dry_run": dry_run,
    }


def refuse_unfit_states(selection: Selection, change: Change) -> None:
    """
    Refuse to look for states that *change* is not for.

    Raises:
        UsageError: The selection asks for some; names those that are.
    """
    fit = CHANGEABLE[change]
    if unfit := selection.states - fit:
        msg = (
            f"--state: none that is {' or '.join(sorted(unfit))} can be changed so;"
            f" {change} is for {', '.join(sorted(fit))}"
        )
        raise UsageError(msg)


def refuse_other_count(matched: int, expected: int | None) -> None:
    """
    Refuse to change another number than was seen before.

    Args:
        matched: What the filters match now.

        expected: What whoever asks has seen; None: they have not looked.

    Raises:
        ConflictError: The two differ.
    """
    if expected is not None and matched != expected:
        msg = (
            f"the filters match {matched:,} now, and {expected:,} were expected."
            " Look again, then ask with the number that you see."
        )
        raise ConflictError(msg)


def count_selected(
    connection: sa.Connection,
    selection: Selection,
    *,
    change: Change,
    expected_count: int | None = None,
) -> Counted:
    """
    Count what ``change_selected`` would look at.

    Args:
        connection: Any.

        selection: Which.

        change: What would be done.

        expected_count: How many there were when somebody looked. None: nobody has.

    Raises:
        ConflictError: There is another number of them than was expected.
    """
    at = read_clock(connection)
    rows = connection.execute(
        sa.select(operations.c.state, operations.c.app, sa.func.count())
        .where(*_match(selection, change, at))
        .group_by(operations.c.state, operations.c.app)
    ).all()
    by_state: Counter[str] = Counter()
    by_app: Counter[str] = Counter()
    for state, app, count in rows:
        by_state[state] += count
        by_app[app] += count
    refuse_other_count(by_state.total(), expected_count)
    return Counted(at, dict(sorted(by_state.items())), dict(by_app.most_common()))


def change_selected(
    engine: sa.Engine, selection: Selection, *, change: Change, at: datetime
) -> Changed:
    """
    Do *change* to what *selection* holds.

    Args:
        engine: Each batch is a transaction of its own.

        selection: Which.

        change: What is done.

        at: Of ``count_selected``: what was recorded later is left alone.
    """
    match change:
        case Change.CANCEL:
            return cancel_selected(engine, selection, at=at)
        case Change.RETRY:
            return retry_selected(engine, selection, at=at)
        case _:
            assert_never(change)


def _match(
    selection: Selection, change: Change, at: datetime
) -> list[sa.ColumnElement[bool]]:
    columns = operations.c
    states = CHANGEABLE[change]
    if selection.states:
        states &= selection.states
    found = [columns.state.in_(sorted(states)), columns.recorded_at <= at]
    if selection.app is not None:
        found.append(columns.app == selection.app)
    if selection.action_uid is not None:
        found.append(columns.action_uid == selection.action_uid)
    if selection.queue is not None:
        found.append(columns.queue == selection.queue)
    if selection.reason is not None:
        reason = selection.reason.value
        found.append(
            sa.or_(
                columns.reason == reason,
                columns.reason.startswith(f"{reason}: ", autoescape=True),
            )
        )
    if selection.since is not None:
        found.append(columns.occurrence >= selection.since)
    if selection.until is not None:
        found.append(columns.occurrence < selection.until)
    return found


def cancel_selected(
    engine: sa.Engine,
    selection: Selection,
    *,
    at: datetime,
    reason: str = Reason.CANCELED,
    batch: int = BATCH,
) -> Changed:
    """
    Cancel what *selection* holds and is not final, as ``cancel`` does one.

    Args:
        engine: Each batch is a transaction of its own.

        selection: Which.

        at: Of ``count_selected``: what was recorded later is left alone.

        reason: Kept with each.

        batch: How many at a time.
    """
    changed = Changed()
    for page in _turn_pages(engine, selection, Change.CANCEL, at, batch):
        ids = [row.id for row in page]
        with writing(engine) as connection:
            _keep_leader_out(connection)
            canceled = _update(
                connection,
                ids,
                LIVE.of(),
                state=OperationState.CANCELED,
                reason=reason,
                finished_at=db_now(),
            )
            skip_steps_of(connection, canceled)
        changed.done += len(canceled)
        changed.refused.update({CHANGED: len(ids) - len(canceled)})
    return _tidy(changed)


def retry_selected(
    engine: sa.Engine, selection: Selection, *, at: datetime, batch: int = BATCH
) -> Changed:
    """
    Make pending again what *selection* holds, as ``reopen`` does one.

    The latest come first, so that of several that must not overlap the latest runs,
    as in a tick. What ``overlap: queue`` has no more room for is refused.

    Args:
        engine: Each batch is a transaction of its own.

        selection: Which.

        at: Of ``count_selected``: what was recorded later is left alone.

        batch: How many at a time.
    """
    changed = Changed()
    for page in _turn_pages(engine, selection, Change.RETRY, at, batch):
        with writing(engine) as connection:
            _keep_leader_out(connection)
            _retry(connection, page, changed)
    return _tidy(changed)


def _retry(
    connection: sa.Connection, page: Sequence[sa.Row[Any]], changed: Changed
) -> None:
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
    may_be = operations.c.state.in_(sorted(RETRIED_STATES))
    # Only where it matters: PostgreSQL would compare all with all that is live.
    reopened = _update(connection, chosen, may_be, **REOPENED)
    reopened += _update(connection, alone, may_be, ~is_beside_live(), **REOPENED)
    changed.done += len(reopened)
    left = {*chosen, *alone} - set(reopened)
    if left:
        states = _fetch_states(connection, left)
        for state in states.values():
            refusal = Reason.OVERLAP if state in RETRIED_STATES else CHANGED
            changed.refused[refusal] += 1


def _tidy(changed: Changed) -> Changed:
    changed.refused = +changed.refused  # without those of which there is none
    return changed


def _turn_pages(
    engine: sa.Engine, selection: Selection, change: Change, at: datetime, batch: int
) -> Iterator[Sequence[Any]]:
    """Yield what is selected in batches, the latest first; each row once."""
    columns = operations.c
    key = sa.tuple_(columns.recorded_at, columns.id)
    query = (
        sa.select(
            columns.id,
            columns.action_uid,
            columns.user_id,
            columns.overlap,
            columns.recorded_at,
        )
        .where(*_match(selection, change, at))
        .order_by(columns.recorded_at.desc(), columns.id.desc())
        .limit(batch)
    )
    while True:
        with reading(engine) as connection:
            page = connection.execute(query).all()
        if page:
            yield page
        if len(page) < batch:
            return
        last = page[-1]
        following = sa.tuple_(
            sa.literal(last.recorded_at, columns.recorded_at.type),
            sa.literal(last.id, Identifier),
        )
        query = query.where(key < following)


def _keep_leader_out(connection: sa.Connection) -> None:
    """
    Wait for what the leader writes, and let it wait until the commit.

    Each of its transactions holds the lease first, and it writes many rows in an
    order of its own: without this, each might wait for the other.
    """
    connection.execute(sa.select(leases.c.name).with_for_update())


def _lock_actions(connection: sa.Connection, uids: set[str]) -> None:
    """Hold the actions as those do who record: what is live cannot change."""
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
    """Return how many more of each action and user may wait in turn."""
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
    """Write *values* into those of *ids* that match; return which."""
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


def _fetch_states(connection: sa.Connection, ids: set[UUID]) -> dict[UUID, str]:
    given = _given(connection.dialect.name)
    rows = connection.execute(
        sa.select(operations.c.id, operations.c.state).where(
            operations.c.id.in_(sa.select(given.c.id))
        ),
        {"given": make_rows_json([{"id": each} for each in ids])},
    )
    return {row.id: row.state for row in rows}
