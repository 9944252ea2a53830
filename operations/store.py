"""
Record operations and read them back.

Duplicates are refused by the primary key, which is derived from the occurrence:
nobody checks first. What a worker does to an operation is in claim.py, how it
gets to the broker in outbox.py.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from models.database import (
    Identifier,
    Json,
    UtcDateTime,
    db_now,
    json_rows,
    make_rows_json,
)
from models.decision import NewOperation
from models.operation_state import (
    LIVE_STATES,
    OperationState,
    Overlap,
    Reason,
)
from models.tables import operation_steps, operations, scheduled_actions
from operations.step_records import skip_open_steps

#: How many operations of one action and user ``overlap: queue`` holds (design: 100).
QUEUE_LIMIT = 100

#: Attempts of an operation in all, and again after each ``operations retry``.
ATTEMPTS = 3

#: What a retry reopens.
RETRIED_STATES = frozenset({OperationState.FAILED, OperationState.CANCELED})

#: What is written into an operation that is to run again.
REOPENED: Mapping[str, Any] = MappingProxyType(
    {
        "state": OperationState.PENDING,
        "reason": None,
        "error": None,
        "finished_at": None,
        "send_at": db_now(),
        # Its first copy may still be on its way, ahead of what was sent since: it is
        # no witness that others were lost (rescue.py).
        "sends": sa.case((operations.c.sends > 0, 1), else_=0),
        "kills": 0,
        "attempts_allowed": operations.c.attempt + ATTEMPTS,
    }
)

_COLUMNS: dict[str, sa.types.TypeEngine[Any]] = {
    "id": Identifier,
    "action_uid": sa.Text(),
    "action_revision": sa.Integer(),
    "app": sa.Text(),
    "trigger": sa.Text(),
    "triggered_by": sa.Text(),
    "occurrence": UtcDateTime,
    "user_id": sa.Text(),
    "event_at": UtcDateTime,
    "queue": sa.Text(),
    "overlap": sa.Text(),
    "state": sa.Text(),
    "reason": sa.Text(),
    "details": Json,
}


def record(
    connection: sa.Connection,
    new: Sequence[NewOperation],
    *,
    fence: int | None = None,
) -> dict[UUID, OperationState]:
    """
    Insert operations; those already there stay as they are.

    Runs in the caller's transaction, which holds the rows of the actions
    concerned: what ``overlap`` finds live cannot change before the commit.

    Args:
        connection: In that transaction.

        new: In order of occurrence within each action.

        fence: Of the leadership that decided them; None: recorded by hand.

    Returns:
        The ids that were inserted, in no particular order, and the state of each.
    """
    if not new:
        return {}
    decided = _decide_overlap(connection, new)
    rows = make_rows_json(
        [dict(zip(_COLUMNS, _read(row), strict=True)) for row in decided]
    )
    statement = _insert_statement(connection.dialect.name)
    result = connection.execute(statement, {"rows": rows, "fence": fence})
    return {id_: _STATES[state] for id_, state in result.all()}


_read = attrgetter(*_COLUMNS)

#: By what is stored; calling an enum costs ten times as much.
_STATES = {state.value: state for state in OperationState}


@cache
def _insert_statement(dialect: str) -> sa.Executable:
    rows = json_rows(dialect, _COLUMNS)
    final = rows.c.state.in_([OperationState.SKIPPED, OperationState.MISSED])
    selected = sa.select(
        *rows.c,
        db_now(),
        db_now(),
        sa.case((final, db_now())),
        sa.bindparam("fence", type_=sa.BigInteger),
        # SQLite reads ON CONFLICT after SELECT as a join unless WHERE stands between
    ).where(sa.true())
    names = [*_COLUMNS, "recorded_at", "send_at", "finished_at", "fence"]
    return (
        insert(operations)
        .from_select(names, selected)
        .on_conflict_do_nothing(index_elements=["id"])
        .returning(operations.c.id, operations.c.state)
    )


def _decide_overlap(
    connection: sa.Connection, new: Sequence[NewOperation]
) -> list[NewOperation]:
    """Turn into ``skipped`` what may not run beside what is live, or beside another."""
    exclusive = {
        row.action_uid
        for row in new
        if row.state is OperationState.PENDING and row.overlap is not Overlap.ALLOW
    }
    if not exclusive:
        return list(new)
    live = _count_live(connection, exclusive)
    judged = [
        row
        for row in new
        if row.state is OperationState.PENDING and row.overlap is not Overlap.ALLOW
    ]
    # What was recorded before is not inserted again, and must not keep others out.
    known = _find_known(connection, [row.id for row in judged])
    waiting: Counter[tuple[str, str | None]] = Counter(
        (row.action_uid, row.user_id) for row in judged if row.id not in known
    )
    decided = []
    for row in new:
        if (
            row.state is not OperationState.PENDING
            or row.overlap is Overlap.ALLOW
            or row.id in known
        ):
            decided.append(row)
            continue
        key = (row.action_uid, row.user_id)
        waiting[key] -= 1
        if row.overlap is Overlap.QUEUE:
            refused = live[key] >= QUEUE_LIMIT
            live[key] += 1
        else:
            # of several in one tick the latest runs
            refused = live[key] > 0 or waiting[key] > 0
        decided.append(_skip(row) if refused else row)
    return decided


def _find_known(connection: sa.Connection, ids: Sequence[UUID]) -> set[UUID]:
    given = json_rows(connection.dialect.name, {"id": Identifier}, "given")
    found = connection.execute(
        sa.select(operations.c.id).where(operations.c.id.in_(sa.select(given.c.id))),
        {"given": make_rows_json([{"id": each} for each in ids])},
    )
    return set(found.scalars())


def _skip(row: NewOperation) -> NewOperation:
    full = row.overlap is Overlap.QUEUE
    reason = Reason.QUEUE_FULL if full else Reason.OVERLAP
    return replace(row, state=OperationState.SKIPPED, reason=reason)


def _count_live(
    connection: sa.Connection, action_uids: Collection[str]
) -> Counter[tuple[str, str | None]]:
    uids = json_rows(connection.dialect.name, {"uid": sa.Text()}, "uids")
    found = connection.execute(
        sa.select(operations.c.action_uid, operations.c.user_id, sa.func.count())
        .where(
            # word for word as in the index, or SQLite would not use it
            sa.text("operations.state IN ('pending', 'queued', 'running')"),
            operations.c.action_uid.in_(sa.select(uids.c.uid)),
        )
        .group_by(operations.c.action_uid, operations.c.user_id),
        {"uids": make_rows_json([{"uid": uid} for uid in action_uids])},
    )
    return Counter({(uid, user): count for uid, user, count in found})


@dataclass(frozen=True, slots=True)
class OperationFilter:
    """What ``operations list`` asks for; None leaves a field open."""

    app: str | None = None
    action_uid: str | None = None
    state: OperationState | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 50


def fetch_operation(
    connection: sa.Connection, operation_id: UUID
) -> sa.Row[Any] | None:
    """Return the row of *operation_id*, or None if there is none."""
    return connection.execute(
        sa.select(operations).where(operations.c.id == operation_id)
    ).one_or_none()


def fetch_operations(
    connection: sa.Connection, wanted: OperationFilter
) -> list[sa.Row[Any]]:
    """
    Return operations, the latest first.

    ``since`` (inclusive) and ``until`` (exclusive) are compared with the occurrence.
    """
    query = sa.select(operations)
    if wanted.app is not None:
        query = query.where(operations.c.app == wanted.app)
    if wanted.action_uid is not None:
        query = query.where(operations.c.action_uid == wanted.action_uid)
    if wanted.state is not None:
        query = query.where(operations.c.state == wanted.state)
    if wanted.since is not None:
        query = query.where(operations.c.occurrence >= wanted.since)
    if wanted.until is not None:
        query = query.where(operations.c.occurrence < wanted.until)
    query = query.order_by(
        operations.c.recorded_at.desc(), operations.c.occurrence.desc()
    )
    return list(connection.execute(query.limit(wanted.limit)))


def fetch_stuck(
    connection: sa.Connection, *, older_than: timedelta
) -> list[tuple[str, int, datetime]]:
    """Return queue, count and oldest sending of what nobody claims for so long."""
    rows = connection.execute(
        sa.select(
            operations.c.queue, sa.func.count(), sa.func.min(operations.c.sent_at)
        )
        .where(
            operations.c.state == OperationState.QUEUED,
            operations.c.sent_at <= db_now(-older_than),
        )
        .group_by(operations.c.queue)
        .order_by(operations.c.queue)
    )
    return [(queue, count, oldest) for queue, count, oldest in rows]


def fetch_steps(
    connection: sa.Connection, operation_ids: Collection[UUID]
) -> dict[UUID, list[sa.Row[Any]]]:
    """Return the steps of each operation in the order they run; none before a claim."""
    found: dict[UUID, list[sa.Row[Any]]] = defaultdict(list)
    query = (
        sa.select(operation_steps)
        .where(operation_steps.c.operation_id.in_(operation_ids))
        .order_by(operation_steps.c.operation_id, operation_steps.c.position)
    )
    for row in connection.execute(query):
        found[row.operation_id].append(row)
    return found


def count_backlog(connection: sa.Connection) -> dict[tuple[str, str], int]:
    """Return how many operations are not final, by (queue, state)."""
    rows = connection.execute(
        sa.select(
            operations.c.queue, operations.c.state, sa.func.count().label("waiting")
        )
        .where(operations.c.state.in_(sorted(LIVE_STATES)))
        .group_by(operations.c.queue, operations.c.state)
    )
    return {(row.queue, row.state): row.waiting for row in rows}


def cancel(connection: sa.Connection, operation_id: UUID, *, reason: str) -> bool:
    """
    Cancel an operation that is not final; one that runs stops at its next progress.

    Its worker keeps the claim until it has stopped: see ``claim.let_go``.

    Returns:
        False if it is final already, or unknown.
    """
    canceled = connection.execute(
        sa.update(operations)
        .where(operations.c.id == operation_id, operations.c.state.in_(LIVE_STATES))
        .values(
            state=OperationState.CANCELED,
            reason=reason,
            finished_at=db_now(),
        )
    )
    if canceled.rowcount == 0:
        return False
    skip_open_steps(connection, operation_id)
    return True


def reopen(connection: sa.Connection, operation_id: UUID) -> bool:
    """
    Make a failed or canceled operation pending again: same row, same id.

    It goes on at the first step that has not succeeded, with three more attempts;
    delivery marks stay, so nobody gets a mail twice. If a worker has not yet noticed
    that it was canceled, it waits for that.

    Holds the row of the action until the commit, as do those who record: what
    ``overlap`` finds live cannot change before.

    Returns:
        False if it is in another state, or unknown, or ``get_live_beside`` is not None.
    """
    action_uid = sa.select(operations.c.action_uid).where(
        operations.c.id == operation_id
    )
    connection.execute(
        sa.select(scheduled_actions.c.uid)
        .where(scheduled_actions.c.uid == action_uid.scalar_subquery())
        .with_for_update()
    )
    reopened = connection.execute(
        sa.update(operations)
        .where(
            operations.c.id == operation_id,
            operations.c.state.in_(sorted(RETRIED_STATES)),
            ~is_beside_live(),
        )
        .values(**REOPENED)
    )
    return reopened.rowcount == 1


def get_live_beside(connection: sa.Connection, operation_id: UUID) -> UUID | None:
    """Return what is not final, if ``overlap: skip`` lets nothing run beside it."""
    return connection.execute(
        _select_live_beside().where(operations.c.id == operation_id).limit(1)
    ).scalar_one_or_none()


def is_beside_live() -> sa.Exists:
    """Match an operation beside which, by ``overlap: skip``, another is live."""
    return _select_live_beside().exists()


def _select_live_beside() -> sa.Select[UUID]:
    """Select what is live of the same action and user, if an operation is to skip."""
    other = operations.alias("other")
    return sa.select(other.c.id).where(
        operations.c.overlap == Overlap.SKIP,
        other.c.id != operations.c.id,
        other.c.action_uid == operations.c.action_uid,
        other.c.user_id.is_not_distinct_from(operations.c.user_id),
        # word for word as in the index, or SQLite would not use it
        sa.text("other.state IN ('pending', 'queued', 'running')"),
    )


def make_pause(first: timedelta, *, left: int) -> timedelta:
    """Return how long the first of *left* attempts waits: *first*, or twice as long."""
    pause: timedelta = first * 2 ** (ATTEMPTS - 1 - left)
    return pause
