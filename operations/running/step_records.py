"""
The records of an operation's steps, written under its claim.

Call ``guard`` first in the same transaction, unless a function says otherwise.
"""

from __future__ import annotations

import json
import traceback
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from pydantic import JsonValue
from sqlalchemy.sql.dml import ReturningUpdate

from models.database.engine import db_now, execute_at_once, writing
from models.database.held_rows import find_held
from models.database.lists import select_given
from models.database.tables import (
    deliveries,
    operation_steps,
    operations,
    scheduled_actions,
)
from models.database.transaction import Transaction
from models.operation_state import OPEN_STEPS, MailState, OperationState, StepState
from operations import operation_log
from operations.claiming.claim import finish, finish_statement
from operations.claiming.claimed import RESENT_KEY, RETURN_KEY, STEPS_KEY, Claim
from operations.claiming.statements import begin_statement
from operations.following import IS_FOLLOWED, find_followers

_step = operation_steps.c

#: Where our own code is: frames of a trace that are elsewhere are left out.
_HOME = Path(__file__).resolve().parents[2]
_OURS = {"actions", "celery_app", "models", "operations"}

#: Our own frames that are shown of a trace, the innermost; and letters of its message.
_FRAMES_SHOWN = 8
_MESSAGE_SHOWN = 400


@dataclass(slots=True)
class SpokenLines:
    """
    The lines of one attempt.

    Args:
        attempt: Its number.
    """

    attempt: int
    _first: list[operation_log.LogLine] = field(default_factory=list)
    _last: deque[operation_log.LogLine] = field(
        default_factory=lambda: deque(maxlen=operation_log.LAST_KEPT)
    )
    _count: int = 0
    _has_written: bool = False

    def copy(self) -> SpokenLines:
        """Return them as they are now, to be written again if a commit fails."""
        return replace(self)

    def __bool__(self) -> bool:
        """Return whether there is something to write."""
        return self._count > 0

    @property
    def says_no_more_than_the_result(self) -> bool:
        """
        Whether this is the one line of a step that succeeded at once.

        Its result says the same, and it would cost as much to write as all the rest.
        """
        return (
            self._count == 1
            and not self._has_written
            and self.attempt == 1
            and self._first[0].level is operation_log.LogLevel.INFO
        )

    def add(
        self,
        text: str,
        *,
        at: datetime,
        step: str | None,
        level: operation_log.LogLevel,
    ) -> None:
        """Keep a line until ``write``, if it is among the first or the last."""
        self._count += 1
        line = operation_log.LogLine(
            self._count, at, self.attempt, step, level, operation_log.shorten(text)
        )
        if len(self._first) < operation_log.FIRST_KEPT:
            self._first.append(line)
        else:
            self._last.append(line)

    def write(self, connection: sa.Connection, operation_id: UUID) -> None:
        """Write what was said, if anything was; call ``guard`` first."""
        if self._count:
            operation_log.write_lines(
                connection, operation_id, [*self._first, *self._last]
            )
            self.forget()
            self._has_written = True

    def forget(self) -> None:
        """Drop what was said."""
        # new lists, for a copy has the old ones
        self._first, self._count = [], 0
        self._last = deque(maxlen=operation_log.LAST_KEPT)


def describe_crash(error: BaseException) -> str:
    """Return an error with the frames of its trace that are ours, innermost last."""
    message = f"{type(error).__name__}: {error}"
    if len(message) > _MESSAGE_SHOWN:
        message = f"{message[:_MESSAGE_SHOWN]} …"
    named = map(_name, traceback.extract_tb(error.__traceback__))
    frames = [f"  {each}" for each in named if each is not None]
    return "\n".join([message, *frames[-_FRAMES_SHOWN:]])


def _name(frame: traceback.FrameSummary) -> str | None:
    path = Path(frame.filename)
    if not path.is_relative_to(_HOME):
        return None
    path = path.relative_to(_HOME)
    if path.parts[0] not in _OURS:
        return None
    return f"{path}:{frame.lineno} in {frame.name}"


@dataclass(frozen=True, slots=True)
class KeptStep:
    """A step as an earlier attempt left it, if there was one."""

    name: str
    state: StepState = StepState.PENDING
    memo: dict[str, JsonValue] = field(default_factory=dict)


def prepare_steps(
    connection: sa.Connection, claim: Claim, names: Sequence[str]
) -> list[KeptStep]:
    """
    Insert the steps, or find what an earlier attempt left, and start the first one.

    Returns:
        The steps that are left to run, as they were before this attempt.
    """
    whose, insert = {"claimed_id": claim.operation_id}, begin_statement(tuple(names))
    if claim.attempt == 1:
        inserted = connection.execute(insert, whose).all()
        if len(inserted) == len(names) and STEPS_KEY not in claim.details:
            return [KeptStep(name) for name in names]
        # an attempt that was given back does not count, but its steps exist
    steps = _fetch_kept(connection, claim)
    if not steps:  # a worker died right after its claim
        connection.execute(insert, whose)
        steps = [KeptStep(name) for name in names]
    left = [step for step in steps if step.state is not StepState.SUCCEEDED]
    if STEPS_KEY in claim.details:
        left = _leave_out(connection, claim, left)
    if RETURN_KEY in claim.details:  # the other steps stay as they are
        left = [step for step in left if RESENT_KEY in step.memo]
    if left:
        start_step(connection, claim, left[0].name)
    return left


def _leave_out(
    connection: sa.Connection, claim: Claim, steps: Sequence[KeptStep]
) -> list[KeptStep]:
    """Skip those of *steps* that were not chosen; return the others."""
    chosen = claim.details[STEPS_KEY]
    for step in steps:
        if step.name not in chosen and step.state is not StepState.SKIPPED:
            # As if it had never begun: inserting the steps starts the first of them.
            values = {"state": StepState.SKIPPED, "attempt": 0, "started_at": None}
            _write_step(connection, claim, step.name, "finished_at", **values)
    return [step for step in steps if step.name in chosen]


def _fetch_kept(connection: sa.Connection, claim: Claim) -> list[KeptStep]:
    rows = connection.execute(
        sa.select(operation_steps)
        .where(_step.operation_id == claim.operation_id)
        .order_by(_step.position)
    )
    return [KeptStep(r.name, StepState(r.state), r.memo or {}) for r in rows]


def start_step(connection: sa.Connection, claim: Claim, name: str) -> None:
    """Mark a step running; call ``guard`` first in the same transaction."""
    begun = {"state": StepState.RUNNING, "attempt": claim.attempt}
    undone = {"finished_at": None, "error": None}
    _write_step(connection, claim, name, "started_at", **begun, **undone)


def finish_step(
    connection: sa.Connection,
    claim: Claim,
    name: str,
    state: StepState,
    *,
    result: JsonValue = None,
    error: str | None = None,
) -> None:
    """Mark a step final; call ``guard`` first in the same transaction."""
    _write_step(
        connection, claim, name, "finished_at", state=state, result=result, error=error
    )


def suspend_step(
    connection: sa.Connection,
    claim: Claim,
    name: str,
    error: str | None = None,
    *,
    result: JsonValue = None,
) -> None:
    """Mark a step as waiting to run again; call ``guard`` first."""
    _write_step(
        connection, claim, name, state=StepState.PENDING, error=error, result=result
    )


def finish_last_step(
    engine: sa.Engine, claim: Claim, name: str, result: JsonValue, spoken: SpokenLines
) -> bool:
    """
    Mark a step and its operation as succeeded, together, and write what was said.

    Returns:
        False if the operation is no longer ours; then nothing has changed.
    """
    if not spoken and engine.dialect.name == "postgresql":
        values = {
            "claimed_id": claim.operation_id,
            "claimed_token": claim.token,
            "step": name,
            "new_result": None if result is None else json.dumps(result),
        }
        if execute_at_once(engine, _last_step_statement(), values) is not None:
            return True
    # It takes more than that statement, or it is no longer ours.
    with writing(engine) as connection:
        if not finish(connection, claim, OperationState.SUCCEEDED):
            return False
        finish_step(connection, claim, name, StepState.SUCCEEDED, result=result)
        spoken.write(connection, claim.operation_id)
    return True


@cache
def _last_step_statement() -> ReturningUpdate[Any]:
    """Return one statement that does what takes two on SQLite, if nobody follows."""
    succeeded = {"state": OperationState.SUCCEEDED, "reason": None, "error": None}
    alone = finish_statement().where(~IS_FOLLOWED).values(succeeded)
    ended = alone.returning(operations.c.id).cte("ended")
    return (
        _step_statement("finished_at", ("result",))
        .values(state=StepState.SUCCEEDED, error=None)
        .where(_step.operation_id == sa.select(ended.c.id).scalar_subquery())
        .returning(_step.operation_id)
    )


def has_succeeded(connection: sa.Connection, claim: Claim, name: str) -> bool:
    """Tell whether a step is recorded as succeeded in this attempt."""
    query = sa.select(_step.state).where(
        _step.operation_id == claim.operation_id,
        _step.name == name,
        _step.attempt == claim.attempt,
    )
    return connection.scalar(query) == StepState.SUCCEEDED


def end_resend(connection: sa.Connection, claim: Claim) -> None:
    """
    Return steps and operation to the state before mails were sent again.

    Call ``guard`` first in the same transaction.
    """
    former = claim.details[RETURN_KEY]
    here = _step.operation_id == claim.operation_id
    for row in connection.execute(sa.select(operation_steps).where(here)).all():
        memo = dict(row.memo or {})
        kept = memo.pop(RESENT_KEY, None)
        if kept is not None:
            connection.execute(
                sa.update(operation_steps)
                .where(here, _step.name == row.name)
                .values(state=kept["state"], error=kept["error"], memo=memo)
            )
    details = {key: each for key, each in claim.details.items() if key != RETURN_KEY}
    ours = sa.update(operations).where(operations.c.id == claim.operation_id)
    connection.execute(ours.values(details=details or None))
    state, why = OperationState(former["state"]), (former["reason"], former["error"])
    finish(connection, claim, state, reason=why[0], error=why[1], is_end=False)


def record_progress(
    connection: sa.Connection, claim: Claim, name: str, progress: dict[str, JsonValue]
) -> None:
    """Record how far a step is; call ``guard`` first in the same transaction."""
    _write_step(connection, claim, name, progress=progress)
    connection.execute(
        sa.update(operations)
        .where(operations.c.id == claim.operation_id)
        .values(progress={"step": name, **progress})
    )


def remember(
    connection: sa.Connection, claim: Claim, name: str, memo: dict[str, JsonValue]
) -> None:
    """Keep *memo* for the next attempt; call ``guard`` first."""
    _write_step(connection, claim, name, memo=memo)


def _write_step(
    connection: sa.Connection,
    claim: Claim,
    name: str,
    clock_column: str | None = None,
    **values: object,
) -> None:
    """Write *values*, and the database's clock into *clock_column*."""
    connection.execute(
        _step_statement(clock_column, tuple(values)),
        {
            "claimed_id": claim.operation_id,
            "step": name,
            **{f"new_{column}": value for column, value in values.items()},
        },
    )


@cache
def _step_statement(clock_column: str | None, columns: tuple[str, ...]) -> sa.Update:
    statement = (
        sa.update(operation_steps)
        .where(
            _step.operation_id == sa.bindparam("claimed_id"),
            _step.name == sa.bindparam("step"),
        )
        .values({column: sa.bindparam(f"new_{column}") for column in columns})
    )
    if clock_column is None:
        return statement
    return statement.values({clock_column: db_now()})


_IS_SENDING = deliveries.c.state == MailState.SENDING


def skip_open_steps(connection: sa.Connection, operation_ids: Sequence[UUID]) -> None:
    """Close the steps that will not run any more; lock their operations first."""
    ids = select_given(connection, operation_ids)
    connection.execute(
        sa.update(operation_steps)
        .where(_step.operation_id.in_(ids), _step.state.in_(sorted(OPEN_STEPS)))
        .values(state=StepState.SKIPPED, finished_at=db_now())
    )
    # A worker that was sending a mail can no longer record whether it left.
    connection.execute(
        sa.update(deliveries)
        .where(deliveries.c.operation_id.in_(ids), _IS_SENDING)
        .values(state=MailState.UNCERTAIN, updated_at=db_now())
    )


def find_held_ends(
    transaction: Transaction,
    operation_ids: Collection[UUID],
    find: Callable[..., set[Any]] = find_held,
) -> set[UUID]:
    """
    Return which of *operation_ids* cannot end without a wait for another session.

    It has locked a step, a mail under way, or an action that follows; *find* locks what
    is free.
    """
    if not operation_ids:
        return set()
    held = find(transaction, _step.operation_id, operation_ids)
    held |= find(transaction, deliveries.c.operation_id, operation_ids, _IS_SENDING)
    followers = find_followers(transaction.connection, operation_ids)
    uids = {each.uid for each in followers}
    late = find(transaction, scheduled_actions.c.uid, uids)
    return held | {each.ended_id for each in followers if each.uid in late}


def reset_steps(
    connection: sa.Connection, operation_id: UUID, names: Sequence[str]
) -> None:
    """Forget what the steps *names* did; lock the operation first."""
    connection.execute(
        sa.update(operation_steps)
        .where(_step.operation_id == operation_id, _step.name.in_(names))
        .values(
            state=StepState.PENDING,
            attempt=0,
            **dict.fromkeys(("started_at", "finished_at", "progress")),
            **dict.fromkeys(("memo", "result", "error")),
        )
    )


def abandon_steps(
    connection: sa.Connection, operation_ids: Sequence[UUID], *, error: str
) -> None:
    """Mark the steps that lost workers left running as failed, and skip the rest."""
    if not operation_ids:
        return
    connection.execute(
        sa.update(operation_steps)
        .where(
            _step.operation_id.in_(select_given(connection, operation_ids)),
            _step.state == StepState.RUNNING,
        )
        .values(state=StepState.FAILED, finished_at=db_now(), error=error)
    )
    skip_open_steps(connection, operation_ids)
