"""
What becomes of operations that have a task of the user's own, and how it is written.

A mark is written by a condition: an operation that is canceled, ended or sent anew
meanwhile stays as it is. Its step ends with it, if the mark ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa
from pydantic import JsonValue
from sqlalchemy.dialects.postgresql import insert

from models.database.engine import (
    Identifier,
    Json,
    UtcDateTime,
    db_now,
    json_rows,
    make_rows_json,
)
from models.database.plain_json import make_plain
from models.database.tables import NO_CLAIM, operation_steps, operations
from models.database.transaction import Transaction
from models.operation import RUN_TASK
from models.operation_state import FINAL_STATES, OperationState, Reason

_run = operations.c


class TaskMark(NamedTuple):
    """
    How an operation goes on.

    Args:
        attempt: Of the operation, after it.
        error: Of the operation; why is its step's.
        spends: 1: an attempt has begun, and counts.
        sent: 1: the broker has the task.
        send_at: As it was found. None: that does not matter.
        delay_s: From the mark to the deadline, or to the next attempt. None: it is
            final, or both stay.
        position: Of its step, if that ends with it. None: it has none, or has not
            begun.
        result: Of the step, as plain JSON.
    """

    operation_id: UUID
    attempt: int
    state: OperationState
    reason: str | None = None
    error: str | None = None
    spends: int = 0
    sent: int = 0
    send_at: datetime | None = None
    delay_s: float | None = None
    position: int | None = None
    why: str | None = None
    result: object = None


def make_end(
    operation_id: UUID,
    attempt: int,
    error: str | None = None,
    *,
    position: int = 0,
    result: Mapping[str, JsonValue] | None = None,
) -> TaskMark:
    """
    Return the mark with which an operation ends, and its step with it.

    Args:
        attempt: That ends, from 1.
        error: For people. None: it succeeded.
        position: Of the step, from 0.
        result: Of the step.
    """
    failed = error is not None
    return TaskMark(
        operation_id,
        attempt,
        OperationState.FAILED if failed else OperationState.SUCCEEDED,
        f"{Reason.STEP_FAILED}: {RUN_TASK}" if failed else None,
        f"{RUN_TASK}: {error}" if failed else None,
        spends=1,
        position=position,
        why=error,
        result=None if result is None else make_plain(result),
    )


_COLUMNS: dict[str, sa.types.TypeEngine[Any]] = {
    "operation_id": Identifier,
    "attempt": sa.Integer(),
    "state": sa.Text(),
    "reason": sa.Text(),
    "error": sa.Text(),
    "spends": sa.Integer(),
    "sent": sa.Integer(),
    "send_at": UtcDateTime,
    "delay_s": sa.Float(),
    "ago_s": sa.Float(),
    "position": sa.Integer(),
    "why": sa.Text(),
    "result": Json,
}

Condition = Callable[[sa.FromClause], sa.ColumnElement[bool]]


@cache
def given_marks(dialect: str) -> sa.FromClause:
    """Return a table of the marks that ``make_values`` gives."""
    return json_rows(dialect, _COLUMNS, "given")


def make_values(
    marks: Sequence[TaskMark], ago_s: Iterable[float] = repeat(0.0)
) -> dict[str, object]:
    """Return the parameter with *marks*; see ``write_marks``."""
    rows = [
        {**mark._asdict(), "ago_s": seconds}
        for mark, seconds in zip(marks, ago_s, strict=False)
    ]
    return {"given": make_rows_json(rows)}


def write_marks(
    transaction: Transaction, marks: Sequence[TaskMark], ago_s: Iterable[float]
) -> None:
    """
    Write what became of tasks.

    Args:
        marks: At least one. What is no longer as it was found stays as it is.
        ago_s: Seconds since each happened.
    """
    dialect, values = transaction.connection.dialect.name, make_values(marks, ago_s)
    transaction.ask(mark_statement(dialect, _is_as_found), values)
    if any(mark.position is not None for mark in marks):
        transaction.ask(step_statement(dialect), values)


def _is_as_found(given: sa.FromClause) -> sa.ColumnElement[bool]:
    """Match what waits to be sent: no answer has come before, and nobody canceled."""
    return sa.and_(
        _run.attempt == given.c.attempt - given.c.spends,
        _run.state == OperationState.PENDING,
        sa.or_(given.c.send_at.is_(None), _run.send_at == given.c.send_at),
    )


@cache
def mark_statement(dialect: str, condition: Condition) -> sa.Update:
    """Write the marks of those operations that *condition* matches."""
    given = given_marks(dialect)
    happened = db_now(-given.c.ago_s)
    final = sa.or_(*(given.c.state == state for state in sorted(FINAL_STATES)))
    return (
        sa.update(operations)
        .where(_run.id == given.c.operation_id, condition(given))
        .values(
            **NO_CLAIM,
            state=given.c.state,
            reason=given.c.reason,
            error=given.c.error,
            attempt=given.c.attempt,
            send_at=sa.case(
                (given.c.delay_s.is_not(None), db_now(given.c.delay_s - given.c.ago_s)),
                else_=_run.send_at,
            ),
            sends=_run.sends + given.c.sent,
            sent_at=sa.case((given.c.sent == 1, happened), else_=_run.sent_at),
            started_at=sa.case(
                (given.c.spends == 1, sa.func.coalesce(_run.started_at, happened)),
                else_=_run.started_at,
            ),
            finished_at=sa.case((final, happened)),
        )
    )


@cache
def step_statement(dialect: str) -> sa.Executable:
    """Write the steps of the *given* operations that have ended so."""
    given = given_marks(dialect)
    final = (_run.state == state for state in sorted(FINAL_STATES))
    names = ("state", "attempt", "finished_at", "result", "error")
    statement = insert(operation_steps).from_select(
        ["operation_id", "position", "name", "started_at", *names],
        sa.select(
            given.c.operation_id,
            given.c.position,
            sa.literal(RUN_TASK, sa.Text),
            _run.started_at,
            given.c.state,
            given.c.attempt,
            _run.finished_at,
            given.c.result,
            given.c.why,
        )
        .join_from(given, operations, _run.id == given.c.operation_id)
        .where(
            given.c.position.is_not(None),
            _run.attempt == given.c.attempt,
            _run.state == given.c.state,
            sa.or_(*final),
        ),
    )
    return statement.on_conflict_do_update(
        index_elements=["operation_id", "position"],
        set_={name: statement.excluded[name] for name in names},
    )
