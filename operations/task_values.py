"""What a task of the user's own is told of its operation. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from pydantic import JsonValue

from models.errors import RuleError, StepError
from models.fields.elapsed import parse_elapsed
from models.fields.placeholders import fill
from models.occurrence import str_to_uuid
from models.run_task import OUR_HEADERS, RunTaskModel
from models.scheduled_action import ScheduledActionModel
from operations.foreign_tasks import ForeignTask


@dataclass(frozen=True, slots=True)
class TaskOccasion:
    """
    Which operation sends a task, and for whom.

    Args:
        occurrence: The due instant, aware UTC. None: somebody asked for it.
        scheduled_for: The same, or when it was asked for.
        now: Aware UTC, by the database's clock.
        event: Name of the event that it follows. None: none.
        looked_up: Values of the placeholders that need a look into the directory; those
            that nothing asks for may be missing.
    """

    operation_id: UUID
    app: str
    action_uid: str
    action_name: str
    occurrence: datetime | None
    scheduled_for: datetime
    trigger: str
    user_id: str | None
    event: str | None
    event_at: datetime | None
    now: datetime
    looked_up: Mapping[str, JsonValue]


def make_task_id(operation_id: UUID) -> UUID:
    """Return the id of the user's task, which is the same in every attempt."""
    return str_to_uuid(f"{operation_id} | run_task")


def make_values(occasion: TaskOccasion) -> dict[str, JsonValue]:
    """Return what placeholders stand for, the same in each attempt."""
    return {
        "occurrence": _write(occasion.occurrence),
        "scheduled_for": _write(occasion.scheduled_for),
        "operation.id": str(occasion.operation_id),
        "operation.trigger": str(occasion.trigger),
        "action.uid": occasion.action_uid,
        "action.name": occasion.action_name,
        "app.uid": occasion.app,
        "user.id": occasion.user_id,
        "event.name": occasion.event,
        "event.at": _write(occasion.event_at),
    }


#: Our headers of a task's message: ``minutehand-operation-id`` and so on.
_HEADERS: dict[str, str] = {}


def _name_header(name: str) -> str:
    if name not in _HEADERS:
        _HEADERS[name] = OUR_HEADERS + name.replace(".", "-").replace("_", "-")
    return _HEADERS[name]


def name_task(operation_id: UUID, asked: RunTaskModel) -> ForeignTask:
    """Return the task that *asked* means, without what it is given."""
    return ForeignTask(
        name=asked.name,
        id=str(make_task_id(operation_id)),
        queue=asked.queue,
        exchange=asked.exchange,
        routing_key=asked.routing_key,
        connection=asked.connection,
    )


def make_task(
    occasion: TaskOccasion, asked: RunTaskModel, *, token: str | None = None
) -> ForeignTask:
    """
    Return the task that *asked* means on this *occasion*.

    Args:
        occasion: When, and for whom.
        asked: By the action.
        token: For its answer. None: nobody waits for one.

    Raises:
        StepError: Permanent: a text has a placeholder that has no value.
    """
    own = make_values(occasion)
    values = {**own, **occasion.looked_up}
    try:
        args = [fill(each, values) for each in asked.args]
        kwargs = {key: fill(each, values) for key, each in asked.kwargs.items()}
        headers = {key: fill(each, values) for key, each in asked.headers.items()}
    except RuleError as error:
        raise StepError(str(error), permanent=True) from None
    headers.update((_name_header(name), value) for name, value in own.items())
    return ForeignTask(
        name=asked.name,
        id=str(make_task_id(occasion.operation_id)),
        args=args,
        kwargs=kwargs,
        queue=asked.queue,
        exchange=asked.exchange,
        routing_key=asked.routing_key,
        connection=asked.connection,
        priority=asked.priority,
        expires_at=None
        if asked.expires is None
        else occasion.now + parse_elapsed(asked.expires),
        headers={key: value for key, value in headers.items() if value is not None},
        token=token,
        with_value=asked.returned,
    )


def find_event(action: ScheduledActionModel) -> str | None:
    """Return the event that *action* follows, if any."""
    return getattr(action.when, "event", None)


def _write(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat()
