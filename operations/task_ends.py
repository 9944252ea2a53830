"""
How operations end that sent a task of the user's own, or that could not.

An operation that waits for its task is pending until the deadline, and says so in its
reason. Its answer ends it: the token in it names the operation and the attempt, and
nothing was written for it before. Whoever ends one does so by a condition, so any
number of schedulers may: what is canceled, ended, or sent anew stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from pydantic import JsonValue
from sqlalchemy.dialects.postgresql import insert

from models.database.engine import (
    Identifier,
    Json,
    db_now,
    json_rows,
    make_rows_json,
    reading,
    writing,
)
from models.database.plain_json import make_plain
from models.database.tables import (
    AWAITING,
    IS_REVISION,
    NO_CLAIM,
    NOT_AWAITING,
    operation_steps,
    operations,
    scheduled_action_revisions,
)
from models.operation import RUN_TASK, order_steps
from models.operation_state import FINAL_STATES, OperationState, Reason
from models.run_task import RunTaskModel
from operations.fleet.installation import fetch_secret
from operations.following import record_following
from operations.foreign_tasks import ForeignTask, TaskAnswer, name_task, read_token
from operations.operation_log import LONGEST_ERROR, shorten

_kept = operations.c
_revision = scheduled_action_revisions.c


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


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """
    How an operation ends, and its step with it.

    Args:
        attempt: That ends, from 1.
        error: For people. None: it succeeded.
        result: Of the step.
    """

    operation_id: UUID
    attempt: int
    position: int
    error: str | None = None
    result: Mapping[str, JsonValue] | None = None

    @property
    def state(self) -> OperationState:
        """The state of both."""
        return OperationState.SUCCEEDED if self.error is None else OperationState.FAILED

    def as_row(self) -> dict[str, object]:
        """Return the values for ``json_rows``."""
        failed = self.error is not None
        return {
            # Not by ``asdict``, which copies each result deep down.
            "operation_id": self.operation_id,
            "attempt": self.attempt,
            "position": self.position,
            "error": self.error,
            "state": self.state,
            "reason": f"{Reason.STEP_FAILED}: {RUN_TASK}" if failed else None,
            "told": f"{RUN_TASK}: {self.error}" if failed else None,
            "result": None if self.result is None else make_plain(self.result),
        }


_COLUMNS: dict[str, sa.types.TypeEngine[Any]] = {
    "operation_id": Identifier,
    "attempt": sa.Integer(),
    "position": sa.Integer(),
    "state": sa.Text(),
    "reason": sa.Text(),
    "told": sa.Text(),
    "error": sa.Text(),
    "result": Json,
}


@cache
def _given(dialect: str) -> sa.FromClause:
    return json_rows(dialect, _COLUMNS, "given")


def _make_values(ends: Iterable[TaskEnd]) -> dict[str, object]:
    return {"given": make_rows_json([end.as_row() for end in ends])}


def _is_answered(given: sa.FromClause) -> sa.ColumnElement[bool]:
    """Match what an answer may end: what waits for it, or has yet to say so."""
    return sa.or_(
        sa.and_(
            _kept.attempt == given.c.attempt,
            sa.or_(AWAITING.of(), _kept.state == OperationState.RUNNING),
        ),
        # Sent, and its mark is still on its way, or was lost in a crash: or the worker
        # that had sent it gave its attempt back.
        sa.and_(
            _kept.attempt == given.c.attempt - 1,
            sa.or_(
                sa.and_(_kept.state == OperationState.PENDING, NOT_AWAITING.of()),
                _kept.state == OperationState.QUEUED,
            ),
        ),
    )


def _is_overdue(given: sa.FromClause) -> sa.ColumnElement[bool]:
    """Match what waits for an answer for longer than it may."""
    return sa.and_(
        _kept.attempt == given.c.attempt, AWAITING.of(), _kept.send_at <= db_now()
    )


Condition = Callable[[sa.FromClause], sa.ColumnElement[bool]]


@cache
def _select_awaited(dialect: str, condition: Condition | None) -> sa.Select[Any]:
    late = _kept.send_at
    found = sa.select(
        _kept.id, _kept.attempt, late, _kept.error, _revision.document, db_now()
    ).join(scheduled_action_revisions, IS_REVISION)
    if condition is None:
        return found
    given = _given(dialect)
    return found.with_only_columns(
        *(_kept.id, given.c.attempt, late, _kept.error, _revision.document, db_now())
    ).join(given, sa.and_(given.c.operation_id == _kept.id, condition(given)))


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
) -> int:
    """
    End the operations whose tasks *answers* tell of.

    Args:
        engine: In transactions of its own.
        answers: Whoever they are from.
        fetch_failure: Returns why a task failed: given its connection and its id.

    Returns:
        How many of them ended an operation; the others are forged, or late.
    """
    with reading(engine) as connection:
        secret = fetch_secret(connection)
        told: dict[tuple[UUID, int], TaskAnswer] = {}
        for answer in answers:
            whose = read_token(secret, answer.token)
            if whose is not None:
                told.setdefault(whose, answer)  # the first to a token counts
        if not told:
            return 0
        asked = [TaskEnd(id_, attempt, 0) for id_, attempt in told]
        statement = _select_awaited(connection.dialect.name, _is_answered)
        found = map(_read, connection.execute(statement, _make_values(asked)).all())
    ends = [_judge(each, told, fetch_failure) for each in found]
    return _end(engine, ends, _is_answered)


def _judge(
    awaited: Awaited,
    told: Mapping[tuple[UUID, int], TaskAnswer],
    fetch_failure: Callable[[str | None, str], str | None],
) -> TaskEnd:
    answer, task = told[awaited.operation_id, awaited.attempt], awaited.task
    whose = awaited.operation_id, awaited.attempt, awaited.position
    if not answer.succeeded:
        why = answer.note or fetch_failure(task.connection, task.id)
        why = why or "the log of its worker says why"
        error = shorten(f"{task.name} failed: {why} (task id {task.id})", LONGEST_ERROR)
        return TaskEnd(*whose, error, task.describe())
    note = {} if answer.note is None else {"note": answer.note}
    result = {**task.describe(), "returned": answer.returned, **note}
    return TaskEnd(*whose, result=result)


def _end(engine: sa.Engine, ends: Sequence[TaskEnd], condition: Condition) -> int:
    """End those of *ends* that *condition* matches; return how many."""
    if not ends:
        return 0
    with writing(engine) as connection:
        # No two transactions may wait for each other: what is locked is left for later.
        locked = _lock(connection, ends, skip_locked=True)
        mine = [end for end in ends if end.operation_id in locked]
        count = _write(connection, mine, condition)
    for each in ends:
        if each.operation_id not in locked:
            with writing(engine) as connection:
                count += _write(connection, [each], condition)
    return count


def _lock(
    connection: sa.Connection, ends: Sequence[TaskEnd], *, skip_locked: bool
) -> set[UUID]:
    given = _given(connection.dialect.name)
    found = connection.execute(
        sa.select(_kept.id)
        .where(_kept.id.in_(sa.select(given.c.operation_id)))
        .order_by(_kept.id)
        .with_for_update(of=operations, skip_locked=skip_locked),
        _make_values(ends),
    )
    return set(found.scalars())


def _write(
    connection: sa.Connection, ends: Sequence[TaskEnd], condition: Condition
) -> int:
    dialect = connection.dialect.name
    ended = set(
        connection.execute(
            _end_statement(dialect, condition), _make_values(ends)
        ).scalars()
    )
    if ended:
        connection.execute(
            step_statement(dialect),
            _make_values(end for end in ends if end.operation_id in ended),
        )
        record_following(connection, ended)
    return len(ended)


@cache
def _end_statement(dialect: str, condition: Condition) -> sa.Executable:
    given = _given(dialect)
    return (
        sa.update(operations)
        .where(_kept.id == given.c.operation_id, condition(given))
        .values(
            **NO_CLAIM,
            state=given.c.state,
            reason=given.c.reason,
            error=given.c.told,
            attempt=given.c.attempt,
            started_at=sa.func.coalesce(_kept.started_at, db_now()),
            finished_at=db_now(),
        )
        .returning(_kept.id)
    )


@cache
def step_statement(dialect: str) -> sa.Executable:
    """Write the steps of the *given* operations, each of which has ended so."""
    given = _given(dialect)
    final = (_kept.state == state for state in sorted(FINAL_STATES))
    names = ("state", "attempt", "finished_at", "result", "error")
    statement = insert(operation_steps).from_select(
        ["operation_id", "position", "name", "started_at", *names],
        sa.select(
            given.c.operation_id,
            given.c.position,
            sa.literal(RUN_TASK, sa.Text),
            _kept.started_at,
            given.c.state,
            given.c.attempt,
            _kept.finished_at,
            given.c.result,
            given.c.error,
        )
        .join_from(given, operations, _kept.id == given.c.operation_id)
        .where(
            _kept.attempt == given.c.attempt,
            _kept.state == given.c.state,
            sa.or_(*final),
        ),
    )
    return statement.on_conflict_do_update(
        index_elements=["operation_id", "position"],
        set_={name: statement.excluded[name] for name in names},
    )


# -- deadlines -----------------------------------------------------------------


def fetch_listened(connection: sa.Connection) -> list[str | None]:
    """Return the connections from which answers may come; None is our own broker."""
    revisions = (
        sa.select(_kept.action_uid, _kept.action_revision)
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
    statement = (
        _select_awaited(connection.dialect.name, None)
        .where(AWAITING.of(), _kept.send_at <= db_now())
        .order_by(_kept.send_at)
        .limit(limit)
    )
    return [_read(row) for row in connection.execute(statement)]


def end_overdue(
    engine: sa.Engine, overdue: Sequence[tuple[Awaited, str | None]]
) -> int:
    """
    Fail operations of whose task nothing was told in time; return how many.

    Args:
        engine: In transactions of its own.
        overdue: Each with why nobody told, as far as it is known.
    """
    ends = []
    for each, known in overdue:
        why = known or (
            f"look at the log of the workers that take {each.task.place}: it may still"
            " run, have expired, have been revoked, or be unknown to them"
        )
        text = f"nothing told of the end of {each.task.name} within {each.within}"
        error = shorten(f"{text}; {why} (task id {each.task.id})", LONGEST_ERROR)
        whose = each.operation_id, each.attempt, each.position
        ends.append(TaskEnd(*whose, error, each.task.describe()))
    return _end(engine, ends, _is_overdue)


def fetch_silent(
    connection: sa.Connection, *, older_than: timedelta, limit: int
) -> list[Awaited]:
    """Return what was sent *older_than* ago, and of which nothing is known."""
    statement = (
        _select_awaited(connection.dialect.name, None)
        .where(
            AWAITING.of(),
            _kept.send_at > db_now(),
            _kept.sent_at <= db_now(-older_than),
            _kept.error.is_(None),
        )
        .order_by(_kept.send_at)
        .limit(limit)
    )
    return [_read(row) for row in connection.execute(statement)]


def note_remark(
    connection: sa.Connection, operation_ids: Sequence[UUID], remark: str
) -> None:
    """Keep why perhaps nobody will answer, until it ends."""
    connection.execute(
        sa.update(operations)
        .where(_kept.id.in_(operation_ids), AWAITING.of())
        .values(error=remark)
    )
