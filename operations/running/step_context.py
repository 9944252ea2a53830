"""What a step is told of its operation, and what it may do under its claim."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from pydantic import JsonValue

from models.database.engine import reading, writing
from models.operation_state import Trigger
from models.scheduled_action import ScheduledActionModel
from models.when import EventModel
from operations.claiming.claim import guard
from operations.claiming.claimed import Claim
from operations.fleet.installation import fetch_secret
from operations.foreign_tasks import make_token
from operations.mail.delivery_marks import DeliveryMarks
from operations.ports import Ports, StepContext
from operations.running.step_records import KeptStep, remember
from operations.telling import Progress, Say


def make_context(  # noqa: PLR0913 - all that a step is given
    engine: sa.Engine,
    claim: Claim,
    ports: Ports,
    action: ScheduledActionModel,
    step: KeptStep,
    memo: dict[str, JsonValue],
    *,
    say: Say,
    progress: Progress,
    write_log: Callable[[sa.Connection], None],
) -> StepContext:
    """
    Return what *step* is given.

    Args:
        engine: Of the worker.
        claim: Every write needs it.
        ports: What the step may use.
        action: As it was when the operation was recorded.
        step: As an earlier attempt left it.
        memo: What the step remembers, which it changes.
        say: Keeps a line of the log.
        progress: Notices a cancellation, too.
        write_log: Writes the lines that were kept.
    """

    def keep(key: str, value: JsonValue) -> None:
        memo[key] = value
        with writing(engine) as connection:
            guard(connection, claim)
            remember(connection, claim, step.name, memo)
            write_log(connection)

    def hold(connection: sa.Connection) -> None:
        guard(connection, claim)

    def sign() -> str:
        with reading(engine) as connection:
            secret = fetch_secret(connection)
        return make_token(secret, claim.operation_id, claim.attempt)

    event = action.when.event if isinstance(action.when, EventModel) else None
    return StepContext(
        operation_id=claim.operation_id,
        app=claim.app,
        action_uid=claim.action_uid,
        action_name=action.name,
        occurrence=None if claim.trigger == Trigger.MANUAL else claim.occurrence,
        scheduled_for=claim.occurrence,
        user_id=claim.user_id,
        trigger=Trigger(claim.trigger),
        triggered_by=claim.triggered_by,
        attempt=claim.attempt,
        now=claim.claimed_at,
        event=event,
        event_at=claim.event_at,
        recipients=action.recipients,
        memo=memo,
        remember=keep,
        progress=progress,
        say=say,
        guard=hold,
        deliveries=DeliveryMarks(
            engine, claim, step.name, keeps_content=ports.retention.mails
        ),
        ports=ports,
        make_token=sign,
        details=claim.details,
    )
