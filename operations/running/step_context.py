"""What a step is told of its operation, and what it may do under its claim."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa
from pydantic import JsonValue

import tracing
from models.database.engine import reading
from models.errors import AwaitedError, PostponedError, StepSkippedError
from models.operation_state import Trigger
from models.scheduled_action import ScheduledActionModel
from models.when import EventModel
from operations.claiming.claim import guard
from operations.domains import Reached
from operations.fleet.processes import fetch_secret
from operations.foreign_tasks import make_token
from operations.mail.delivery_marks import DeliveryMarks
from operations.ports import StepContext, StepFunction, StepResult
from operations.running.pace import Pace, describe_part
from operations.running.step_records import record_progress, remember

if TYPE_CHECKING:
    from operations.running.attempt import Attempt


def make_context(
    attempt: Attempt,
    action: ScheduledActionModel,
    step: str,
    memo: dict[str, JsonValue],
    now: datetime,
) -> StepContext:
    """
    Return what *step* is given.

    Args:
        action: As it was when the operation was recorded.
        memo: What the step remembers, which it changes.
        now: Aware UTC; when the step begins.
    """
    engine, claim, ports = attempt.engine, attempt.claim, attempt.ports

    def keep(key: str, value: JsonValue) -> None:
        memo[key] = value
        with attempt.holding() as connection:
            remember(connection, claim, step, memo)

    def hold(connection: sa.Connection) -> None:
        guard(connection, claim)

    def sign() -> str:
        with reading(engine) as connection:
            secret = fetch_secret(connection)
        return make_token(secret, claim.operation_id, claim.attempt)

    event = action.when.event if isinstance(action.when, EventModel) else None
    return StepContext(
        **{name: getattr(claim, name) for name in _OF_CLAIM},
        action_name=action.name,
        occurrence=None if claim.trigger == Trigger.MANUAL else claim.occurrence,
        scheduled_for=claim.occurrence,
        trigger=Trigger(claim.trigger),
        now=now,
        event=event,
        recipients=action.recipients,
        memo=memo,
        remember=keep,
        progress=ProgressPoints(attempt, step),
        say=attempt.say,
        guard=hold,
        deliveries=DeliveryMarks(
            engine, claim, step, keeps_content=ports.retention.mails
        ),
        ports=ports,
        make_token=sign,
    )


#: What a step is told of its claim as it is.
_OF_CLAIM = (
    *("operation_id", "app", "action_uid", "user_id", "triggered_by", "attempt"),
    *("event_at", "details"),
)


#: Errors with which a step ends that did not fail.
_CALM = (PostponedError, AwaitedError, StepSkippedError)


def call_step(
    call: StepFunction, name: str, context: StepContext, arguments: object
) -> StepResult:
    """Do what a step does, in a span of its own."""
    with tracing.begin(f"step {name}", calm=_CALM):
        return call(context, arguments)


#: Seconds between two writes of progress, which also notice a cancellation.
PROGRESS_EVERY_S = 1.0


class ProgressPoints:
    """Those of one step in one attempt; see ports.Progress."""

    def __init__(self, attempt: Attempt, step: str) -> None:
        """Write nothing yet."""
        self._attempt = attempt
        self._step = step
        self._written_at = float("-inf")
        self._pace = Pace()

    def __call__(
        self, done: int, total: int, note: str = "", part: Reached | None = None
    ) -> None:
        """Note a point; write it if the last one was written long enough ago."""
        self._attempt.check_time()
        now = self._attempt.monotonic()
        progress: dict[str, JsonValue] = {"done": done, "total": total, "note": note}
        if part is not None:
            measured = self._pace.measure(note, part, at=now)
            progress["note"] = describe_part(note, part, measured)
            progress["part"] = measured
        if now - self._written_at < PROGRESS_EVERY_S and done < total:
            return
        self._written_at = now
        with self._attempt.holding() as connection:
            record_progress(connection, self._attempt.claim, self._step, progress)
