"""
How operations end that sent a task of the user's own: by its answer, or too late.

An operation that waits for its task is pending until the deadline, and says so in its
reason. Its answer ends it: the token in it names the operation and the attempt, and
nothing was written for it before. Whoever ends one does so by a condition, so any
number of schedulers may: what is canceled, ended, or sent anew stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from pydantic import JsonValue

import tracing
from models.database.engine import db_now, reading, writing
from models.database.held_rows import find_held
from models.database.tables import (
    AWAITING,
    IS_REVISION,
    NOT_AWAITING,
    operations,
    scheduled_action_revisions,
)
from models.database.transaction import AtOnce
from models.operation import RUN_TASK, order_steps
from models.operation_state import OperationState
from models.run_task import RunTaskModel
from operations import task_marks
from operations.fleet.processes import fetch_secret
from operations.following import record_following
from operations.foreign_tasks import ForeignTask, TaskAnswer, name_task, read_token
from operations.operation_log import LONGEST_ERROR, shorten
from operations.running.step_records import find_held_ends

_run = operations.c
_revision = scheduled_action_revisions.c


def _is_answered(given: sa.FromClause) -> sa.ColumnElement[bool]:
    """Match what an answer may end: what waits for it, or has yet to say so."""
    return sa.or_(
        sa.and_(
            _run.attempt == given.c.attempt,
            sa.or_(AWAITING.of(), _run.state == OperationState.RUNNING),
        ),
        # Sent, and its mark is still on its way, or was lost in a crash: or the worker
        # that had sent it gave its attempt back.
        sa.and_(
            _run.attempt == given.c.attempt - 1,
            sa.or_(
                sa.and_(_run.state == OperationState.PENDING, NOT_AWAITING.of()),
                _run.state == OperationState.QUEUED,
            ),
        ),
    )


def _is_overdue(given: sa.FromClause) -> sa.ColumnElement[bool]:
    """Match what waits for an answer for longer than it may."""
    return sa.and_(
        _run.attempt == given.c.attempt, AWAITING.of(), _run.send_at <= db_now()
    )


# -- what waits ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Awaited:
    """
    An operation that sent a task.

    Args:
        attempt: In which it sent the task, from 1.
        position: Of the step, from 0.
        late: Since the deadline; negative before it.
        remark: Why perhaps nobody will answer. None: nothing is known to be wrong.
    """

    operation_id: UUID
    attempt: int
    task: ForeignTask
    position: int
    within: str
    late: timedelta
    remark: str | None

    def end(self, error: str | None = None, **told: JsonValue) -> task_marks.TaskMark:
        """Return the mark with which it ends, with *told* in its step's result."""
        if error is not None:
            error = shorten(f"{error} (task id {self.task.id})", LONGEST_ERROR)
        result = {**self.task.describe(), **told}
        whose = self.operation_id, self.attempt
        return task_marks.make_end(*whose, error, position=self.position, result=result)


def _select_awaited(attempt: sa.ColumnElement[int]) -> sa.Select[Any]:
    columns = _run.send_at, _run.error, _revision.document, db_now()
    return sa.select(_run.id, attempt, *columns).join(
        scheduled_action_revisions, IS_REVISION
    )


def _read(row: Sequence[Any]) -> Awaited:
    id_, attempt, deadline, remark, document, now = row
    asked = RunTaskModel.model_validate(document["operations"][RUN_TASK])
    return Awaited(
        id_,
        attempt,
        name_task(id_, asked),
        order_steps(document["operations"]).index(RUN_TASK),
        asked.within or "PT1H",
        now - deadline,
        remark,
    )


# -- answers -------------------------------------------------------------------


def record_answers(
    engine: sa.Engine,
    answers: Sequence[TaskAnswer],
    fetch_failure: Callable[[str | None, str], str | None] = lambda *_place: None,
) -> tuple[int, dict[UUID, str]]:
    """
    End the operations whose tasks *answers* tell of; wait for none that is locked.

    Args:
        engine: In transactions of its own.
        answers: Whoever they are from.
        fetch_failure: Returns why a task failed: given its connection and its id.

    Returns:
        How many of them ended an operation, and which operations are locked, with the
        token of the answer to each. The others are forged, or late.
    """
    with reading(engine) as connection:
        secret = fetch_secret(connection)
        told: dict[tuple[UUID, int], TaskAnswer] = {}
        for answer in answers:
            whose = read_token(secret, answer.token)
            if whose is not None:
                told.setdefault(whose, answer)  # the first to a token counts
        if not told:
            return 0, {}
        asked = [task_marks.make_end(*whose) for whose in told]
        given = task_marks.given_marks(connection.dialect.name)
        statement = _select_awaited(given.c.attempt).join(
            given, sa.and_(given.c.operation_id == _run.id, _is_answered(given))
        )
        found = map(
            _read, connection.execute(statement, task_marks.make_values(asked)).all()
        )
    ends = [_judge(each, told, fetch_failure) for each in found]
    count, held = _end(engine, ends, _is_answered)
    left = [(end.operation_id, end.attempt) for end in ends if end.operation_id in held]
    return count, {whose[0]: told[whose].token for whose in left}


def _judge(
    awaited: Awaited,
    told: Mapping[tuple[UUID, int], TaskAnswer],
    fetch_failure: Callable[[str | None, str], str | None],
) -> task_marks.TaskMark:
    answer, task = told[awaited.operation_id, awaited.attempt], awaited.task
    if not answer.succeeded:
        why = answer.note or fetch_failure(task.connection, task.id)
        return awaited.end(
            f"{task.name} failed: {why or 'the log of its worker says why'}"
        )
    note = {} if answer.note is None else {"note": answer.note}
    return awaited.end(None, returned=answer.returned, **note)


def _end(
    engine: sa.Engine,
    ends: Sequence[task_marks.TaskMark],
    condition: task_marks.Condition,
) -> tuple[int, set[UUID]]:
    """End those that *condition* matches; return how many, and which are locked."""
    if not ends:
        return 0, set()
    with writing(engine) as connection:
        # No two transactions may wait for each other: what is locked is left for later.
        ids, transaction = {each.operation_id for each in ends}, AtOnce(connection)
        held = find_held(transaction, _run.id, ids)
        held |= find_held_ends(transaction, ids - held)
        mine = [end for end in ends if end.operation_id not in held]
        ended = _write(connection, mine, condition)
    for each in ended[: tracing.MOST]:
        _trace(each)
    return len(ended), held


def _trace(end: task_marks.TaskMark) -> None:
    tracing.begin(
        "task ended",
        at=tracing.find_operation(end.operation_id),
        kind="CONSUMER",
        task_id=str(end.operation_id),
        attempt=end.attempt,
        state=end.state,
    ).end(end.error)


def _write(
    connection: sa.Connection,
    ends: Sequence[task_marks.TaskMark],
    condition: task_marks.Condition,
) -> list[task_marks.TaskMark]:
    dialect = connection.dialect.name
    statement = task_marks.mark_statement(dialect, condition).returning(_run.id)
    ended = set(connection.execute(statement, task_marks.make_values(ends)).scalars())
    mine = [end for end in ends if end.operation_id in ended]
    if mine:
        connection.execute(
            task_marks.step_statement(dialect), task_marks.make_values(mine)
        )
        record_following(connection, ended)
    return mine


# -- deadlines -----------------------------------------------------------------


def fetch_listened(connection: sa.Connection) -> list[str | None]:
    """Return the connections from which answers may come; None is our own broker."""
    revisions = (
        sa.select(_run.action_uid, _run.action_revision)
        .where(AWAITING.of())
        .distinct()
        .subquery()
    )
    named = _revision.document["operations"][RUN_TASK]["connection"].as_string()
    found = connection.execute(
        sa.select(named)
        .join(
            revisions,
            sa.and_(
                _revision.uid == revisions.c.action_uid,
                _revision.revision == revisions.c.action_revision,
            ),
        )
        .distinct()
    )
    return sorted(found.scalars(), key=lambda name: name or "")


def fetch_overdue(connection: sa.Connection, *, limit: int) -> list[Awaited]:
    """Return what has waited for longer than it may, the longest first."""
    return _fetch_awaited(connection, _run.send_at <= db_now(), limit=limit)


def fetch_silent(
    connection: sa.Connection, *, older_than: timedelta, limit: int
) -> list[Awaited]:
    """Return what was sent *older_than* ago: *limit* of each, without remark first."""
    has_remark = _run.error.is_not(None)
    is_silent = sa.and_(_run.send_at > db_now(), _run.sent_at <= db_now(-older_than))
    return [
        each
        for one in (sa.not_(has_remark), has_remark)
        for each in _fetch_awaited(connection, sa.and_(is_silent, one), limit=limit)
    ]


def _fetch_awaited(
    connection: sa.Connection, condition: sa.ColumnElement[bool], *, limit: int
) -> list[Awaited]:
    found = connection.execute(
        _select_awaited(_run.attempt)
        .where(AWAITING.of(), condition)
        .order_by(_run.send_at)
        .limit(limit)
    )
    return [_read(row) for row in found]


def end_overdue(
    engine: sa.Engine, overdue: Sequence[tuple[Awaited, str | None]]
) -> int:
    """
    Fail operations of whose task nothing was told in time; return how many.

    What is locked is left for the next look.

    Args:
        engine: In transactions of its own.
        overdue: Each with why nobody told, as far as it is known.
    """
    ends = []
    for each, known in overdue:
        why = known or (
            f"look at the log of the workers that take {each.task.place}: it may still"
            " run, have died, expired or been revoked, or be unknown or refused there"
        )
        text = f"nothing told of the end of {each.task.name} within {each.within}"
        ends.append(each.end(f"{text}; {why}"))
    return _end(engine, ends, _is_overdue)[0]


def note_remark(
    connection: sa.Connection, operation_ids: Sequence[UUID], remark: str | None
) -> None:
    """Say of operations that wait why nobody may ever answer; None: no longer."""
    connection.execute(
        sa.update(operations)
        .where(_run.id.in_(operation_ids), AWAITING.of())
        .values(error=remark)
    )
