"""
Record operations: one row for each occurrence, however often it is decided.

The primary key, which is derived from the occurrence, refuses duplicates: nobody checks
first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any, assert_never
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import Insert, insert

from models.database.engine import db_now, json_rows, make_rows_json
from models.database.lists import select_given
from models.database.tables import LIVE, PINGING_ACTIONS, operations, scheduled_actions
from models.database.transaction import Transaction
from models.decision import NewOperation
from models.expectations import expect_at
from models.operation_state import (
    FINAL_STATES,
    TRANSITIONS,
    OperationState,
    Overlap,
    Queue,
    Reason,
    Trigger,
)

_run = operations.c

#: How many live operations of one action and user ``overlap: queue`` allows; further
#: ones are skipped.
QUEUE_LIMIT = 100

_COLUMNS = {name: _run[name].type for name in NewOperation._fields}


def make_operation(action: sa.Row[Any], **given: Any) -> NewOperation:
    """Return a run of *action*, as its row says; *given* is what that does not."""
    return NewOperation(
        action_uid=action.uid,
        action_revision=action.revision,
        app=action.app,
        queue=Queue(action.queue),
        overlap=Overlap(action.overlap),
        attempts_allowed=action.attempts_allowed,
        expected_at=expect_at(given["occurrence"], action.expected_after_s),
        **given,
    )


def record(
    connection: sa.Connection, new: Sequence[NewOperation], *, fence: int | None = None
) -> dict[UUID, OperationState]:
    """
    Insert operations; existing ones stay as they are.

    Runs in the caller's transaction, which has locked the rows of the actions: the
    operations that ``overlap`` finds live cannot change before the commit.

    Args:
        connection: In that transaction.
        new: In order of occurrence within each action.
        fence: The fence of the leadership that decided them. None: somebody asked for
            the run.

    Returns:
        The state of each operation that was inserted, by id.
    """
    if not new:
        return {}
    statement = _insert_statement(connection.dialect.name)
    values = _prepare(connection, new, fence)
    inserted = statement.returning(_run.id, _run.state)
    return {id_: _STATES[state] for id_, state in connection.execute(inserted, values)}


def ask_record(
    transaction: Transaction, new: Sequence[NewOperation], *, fence: int | None = None
) -> Callable[[], Counter[OperationState]]:
    """
    Do as ``record``, and only count: a flight has no room for large answers.

    Returns:
        Returns how many operations of each state were inserted, when *transaction* is
        over.
    """
    if not new:
        return Counter
    connection = transaction.connection
    values = _prepare(connection, new, fence)
    answer = transaction.ask(_count_statement(connection.dialect.name), values)

    def count() -> Counter[OperationState]:
        inserted: Counter[OperationState] = Counter()
        for state, number in answer.rows:
            inserted[_STATES[state]] += number
        return inserted

    return count


#: States by their stored value; calling the enum takes ten times as long.
_STATES = {state.value: state for state in OperationState}


def _prepare(
    connection: sa.Connection, new: Sequence[NewOperation], fence: int | None
) -> dict[str, object]:
    """Return the values for the statements below."""
    decided = _decide_overlap(connection, new)
    return {"rows": make_rows_json([row._asdict() for row in decided]), "fence": fence}


@cache
def _insert_statement(dialect: str) -> Insert:
    rows = json_rows(dialect, _COLUMNS)
    # not a list for IN, which a flight cannot render
    final = sa.or_(
        *(rows.c.state == each for each in sorted(FINAL_STATES & TRANSITIONS[None]))
    )
    # Looked up for each, and no EXISTS: for that PostgreSQL would read all that ping,
    # which may be a hundred thousand.
    pings = (
        sa.select(scheduled_actions.c.pings)
        .where(
            scheduled_actions.c.uid == rows.c.action_uid,
            PINGING_ACTIONS.of("scheduled_actions"),
        )
        .scalar_subquery()
    )
    # A backfill repeats the past, of which a monitor has heard, or has not.
    is_heard_of = sa.and_(~final, rows.c.trigger != Trigger.BACKFILL, pings)
    selected = sa.select(
        *rows.c,
        db_now(),
        db_now(),
        sa.case((final, db_now())),
        sa.case((is_heard_of, 0)),
        sa.bindparam("fence", type_=sa.BigInteger),
        # SQLite reads ON CONFLICT after SELECT as a join unless a WHERE is between
    ).where(sa.true())
    dates = ("recorded_at", "send_at", "finished_at")
    names = [*_COLUMNS, *dates, "pinged", "fence"]
    return (
        insert(operations)
        .from_select(names, selected)
        .on_conflict_do_nothing(index_elements=["id"])
    )


@cache
def _count_statement(dialect: str) -> sa.Executable:
    statement = _insert_statement(dialect)
    if dialect == "sqlite":  # which can count no rows of an INSERT
        return statement.returning(_run.state, sa.literal_column("1"))
    inserted = statement.returning(_run.state).cte("inserted")
    return sa.select(inserted.c.state, sa.func.count()).group_by(inserted.c.state)


def _decide_overlap(
    connection: sa.Connection, new: Sequence[NewOperation]
) -> list[NewOperation]:
    """Mark as ``skipped`` what may not run beside a live or another new operation."""
    judged = [row for row in new if _may_be_skipped(row)]
    if not judged:
        return list(new)
    live = count_live(connection, {row.action_uid for row in judged})
    # Operations that are already recorded are not inserted again, and must not keep
    # others from running.
    known = _find_known(connection, [row.id for row in judged])
    waiting: Counter[tuple[str, str | None]] = Counter(
        (row.action_uid, row.user_id) for row in judged if row.id not in known
    )
    decided = []
    for row in new:
        reason = None
        if _may_be_skipped(row) and row.id not in known:
            key = (row.action_uid, row.user_id)
            waiting[key] -= 1
            match row.overlap:
                case Overlap.QUEUE:
                    reason = Reason.QUEUE_FULL if live[key] >= QUEUE_LIMIT else None
                    live[key] += 1
                case Overlap.SKIP:
                    # of several occurrences in one tick, the latest runs
                    is_alone = live[key] <= 0 and waiting[key] <= 0
                    reason = None if is_alone else Reason.OVERLAP
                case Overlap.ALLOW:
                    pass  # it is not judged
                case other:
                    assert_never(other)
        decided.append(row if reason is None else _skip(row, reason))
    return decided


def _skip(row: NewOperation, reason: Reason) -> NewOperation:
    return row._replace(state=OperationState.SKIPPED, reason=reason)


def _may_be_skipped(row: NewOperation) -> bool:
    return row.state is OperationState.PENDING and row.overlap is not Overlap.ALLOW


def _find_known(connection: sa.Connection, ids: Sequence[UUID]) -> set[UUID]:
    given = select_given(connection, ids)
    found = sa.select(_run.id).where(_run.id.in_(given))
    return set(connection.scalars(found))


def count_live(
    connection: sa.Connection, action_uids: Collection[str]
) -> Counter[tuple[str, str | None]]:
    """Return the number of live operations of each action and user."""
    key = _run.action_uid, _run.user_id
    uids = select_given(connection, action_uids, sa.Text())
    found = connection.execute(
        sa.select(*key, sa.func.count())
        .where(LIVE.of(), key[0].in_(uids))
        .group_by(*key)
    )
    return Counter({(uid, user): count for uid, user, count in found})
