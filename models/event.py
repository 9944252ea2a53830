"""What can happen to a user: events, as actions name and admins post them. Pure."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, model_validator

from models.errors import RuleError
from models.fields.field_types import Instant, Name, UserName
from models.fields.strict_model import DocumentModel, find_near, optional, show


class EventName(StrEnum):
    """The events that every small app has; ``app.<name>`` are its own."""

    USER_CREATED = "instance.user.created"
    USER_ACTIVATED = "instance.user.activated"
    USER_LAST_SEEN = "instance.user.last_seen"


#: Events that admins post themselves start with this.
APP_EVENT_PREFIX = "app."

_APP_EVENT = re.compile(r"app\.[a-z0-9_.-]{1,100}", re.ASCII)


def check_event(text: str) -> str:
    """
    Return *text* if it names an event.

    Raises:
        RuleError: If it is neither an ``EventName`` nor ``app.`` plus a name.
    """
    if text in set(EventName) or _APP_EVENT.fullmatch(text):
        return text

    if text.startswith(APP_EVENT_PREFIX):
        msg = f"{show(text)} is not a valid name for an app's own event."
        hint = (
            "After 'app.' write 1 to 100 small letters, digits, '.', '_' or '-', "
            "such as 'app.invoice_sent'."
        )
        raise RuleError(msg, hint)

    known = ", ".join(EventName)
    near = find_near(text, EventName)
    meant = "" if near is None else f"Did you mean '{near}'? "
    msg = f"{show(text)} is not an event."
    raise RuleError(msg, f"{meant}Write one of {known}, or app.<name> for your own.")


#: How the CloudEvents specification allows others to name attributes of their own.
_EXTENSION = re.compile(r"[a-z0-9]{1,100}", re.ASCII)

EventText = Annotated[str, Field(max_length=500), AfterValidator(check_event)]


class UserEventModel(DocumentModel):
    """
    Something that happened to a user, as ``events send`` takes it.

    Args:
        user: Id of a user of the small app.
        at: When it happened; None: when it is recorded.
        key: Idempotency key: sending an event again with the same key changes nothing.
    """

    event: EventText = Field(examples=["instance.user.last_seen"])
    user: UserName = Field(examples=["toco@tou.can"])
    at: Instant | None = optional("2026-12-01T09:00:00+01:00")
    key: Name | None = optional("import-2026-12-01-17")


class ReplayModel(DocumentModel):
    """
    A replay of an event.

    Args:
        key: Idempotency key: to ask again with the same key changes nothing. None: each
            request is a replay of its own.
    """

    key: Name | None = optional("after-the-fix")


#: An id is only compared. Two of this length, and a uid, fit into one index entry.
_Opaque = Annotated[str, Field(min_length=1, max_length=200)]

#: Sources that begin with this are ours: nobody else can send such an event.
OUR_SOURCES = "minutehand:"

#: The source of an event that replays another one; the id of that follows.
REPLAY_SOURCE = f"{OUR_SOURCES}replay:"


def find_replayed(source: str | None) -> UUID | None:
    """
    Return the id of the event that one of *source* replays; None: it replays none.

    >>> find_replayed("minutehand:replay:c2a1d7b4-9e1b-4e0e-8a6e-3d7f6b2c4e03")
    UUID('c2a1d7b4-9e1b-4e0e-8a6e-3d7f6b2c4e03')
    """
    if source is None or not source.startswith(REPLAY_SOURCE):
        return None
    return UUID(source.removeprefix(REPLAY_SOURCE))


def _refuse_ours(source: str) -> str:
    if source.startswith(OUR_SOURCES):
        msg = f"{show(source)} is a source of Minutehand itself."
        raise RuleError(msg, "Write the address of the program that sends the event.")
    return source


class CloudEventModel(DocumentModel):
    """
    Something that happened to a user, as a CloudEvent (version 1.0).

    Args:
        id: With *source*, what makes it the same event when it is sent again.
        type: The name of the event, as actions name it.
        subject: Id of a user of the small app.
        time: When it happened; None: when it is recorded.
        data: Accepted and not kept, as all other attributes.
    """

    model_config = ConfigDict(json_schema_extra={"additionalProperties": True})

    specversion: Literal["1.0"] = Field(examples=["1.0"])
    id: _Opaque = Field(examples=["A234-1234-1234"])
    source: Annotated[_Opaque, AfterValidator(_refuse_ours)] = Field(
        examples=["https://shop.example.com/users"]
    )
    type: EventText = Field(examples=["instance.user.last_seen"])
    subject: UserName = Field(examples=["toco@tou.can"])
    time: Instant | None = optional("2026-12-01T09:00:00+01:00")
    datacontenttype: str | None = None
    dataschema: str | None = None
    data: JsonValue = None
    data_base64: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _drop_extensions(cls, event: Any) -> Any:
        """Leave out the attributes of others; refuse one that means our *time*."""
        if not isinstance(event, dict):
            return event
        theirs = {
            key
            for key in event
            if key not in cls.model_fields and _EXTENSION.fullmatch(str(key))
        }
        for key in theirs:
            # All else that is misspelled is missing, and reported for that.
            if "time" not in event and find_near(key, ("time",)):
                msg = f"{show(key)} is not an attribute of a CloudEvent."
                raise RuleError(msg, "Did you mean 'time'?")
        return {key: value for key, value in event.items() if key not in theirs}
