"""What a task of the user's own is told of its operation: placeholders and headers."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from pydantic import JsonValue

from models.run_task import OUR_HEADERS
from operations.ports import StepContext

#: Names that need a look into the directory; no header has them.
_OF_APP = "app.name"
_OF_USER = ("user.email", "user.name", "user.locale")


def make_values(context: StepContext, names: Collection[str]) -> dict[str, JsonValue]:
    """
    Return what placeholders stand for in this operation, the same in each attempt.

    Args:
        context: Of the step.

        names: Those in use; what is looked up is left out unless it is among them.
    """
    values: dict[str, JsonValue] = {
        "occurrence": _write(context.occurrence),
        "scheduled_for": _write(context.scheduled_for),
        "operation.id": str(context.operation_id),
        "operation.trigger": str(context.trigger),
        "action.uid": context.action_uid,
        "action.name": context.action_name,
        "app.uid": context.app,
        "user.id": context.user_id,
        "event.name": context.event,
        "event.at": _write(context.event_at),
    }
    directory = context.ports.directory
    if _OF_APP in names:
        app = directory.get_app(context.app)
        values[_OF_APP] = None if app is None else app.name
    if not set(_OF_USER).isdisjoint(names):
        who = context.user_id
        user = None if who is None else directory.get_user(context.app, who)
        for name in _OF_USER:
            found = getattr(user, name.removeprefix("user."), None)
            values[name] = found or None
    return values


def make_headers(context: StepContext) -> dict[str, JsonValue]:
    """Return our headers of a task's message: ``minutehand-operation-id`` and so on."""
    return {
        OUR_HEADERS + name.replace(".", "-").replace("_", "-"): value
        for name, value in make_values(context, ()).items()
        if value is not None
    }


def _write(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat()
