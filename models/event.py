"""What can happen to a user: events, as actions name and admins post them. Pure."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from models.errors import RuleError
from models.fields.field_types import Instant, Name, UserName
from models.fields.strict_model import DocumentModel, find_near, show


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
    at: Instant | None = Field(default=None, examples=["2026-12-01T09:00:00+01:00"])
    key: Name | None = Field(default=None, examples=["import-2026-12-01-17"])
