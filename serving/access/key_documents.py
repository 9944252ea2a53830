"""What people write to make a key, or to replace one. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from models.errors import InvalidDocumentError, Problem, RuleError
from models.fields.duration import Duration
from models.fields.field_types import Name, RuleText, Uid, parsed_by
from models.fields.strict_model import DocumentModel
from serving.access.roles import Role

#: How long a key that was rotated goes on beside its successor: a week has a working
#: day for everybody who must put the new one somewhere.
DEFAULT_OVERLAP = Duration.from_elapsed(timedelta(days=7))


def parse_lifetime(text: str) -> Duration:
    """
    Return how long a key lives.

    Raises:
        RuleError: *text* is not a duration, or is zero.
    """
    lifetime = Duration.parse(text)
    if lifetime.is_zero:
        msg = f"{text!r} is no time at all: the key would expire at once."
        raise RuleError(msg, "Write P30D for thirty days.")
    return lifetime


class NewKeyModel(DocumentModel):
    """A key to be made."""

    role: Role = Field(description="What it may do.", examples=["viewer"])
    app: Uid | None = Field(
        default=None,
        description="Uid of the one small app that it is for. Null: all apps, which"
        " must be said. With a key of one app it may be absent.",
        examples=["shop"],
    )
    name: Name | None = Field(default=None, description="What it is for.")
    expires: Annotated[RuleText, parsed_by(parse_lifetime)] | None = Field(
        default=None,
        description="Its life from now, an ISO 8601 duration. Absent: it does not end.",
        examples=["P30D"],
    )

    def demand_app(self) -> None:
        """
        Refuse a key for all small apps that nobody asked for in so many words.

        Raises:
            InvalidDocumentError: ``app`` is absent.
        """
        if "app" not in self.model_fields_set:
            hint = 'Write "app": "shop" for a key of that app, or "app": null for all.'
            raise InvalidDocumentError((Problem("/app", "'app' is missing.", hint),))

    @property
    def lifetime(self) -> Duration | None:
        """How long it lives. None: it does not end."""
        return None if self.expires is None else parse_lifetime(self.expires)


class RotationModel(DocumentModel):
    """How a key is replaced by its successor."""

    overlap: Annotated[RuleText, parsed_by(Duration.parse)] = Field(
        default=str(DEFAULT_OVERLAP),
        description="How long the old key goes on, an ISO 8601 duration.",
        examples=["PT0S"],
    )
