"""API keys and invitations: as faces show them, and as people ask for them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import Field

from models.errors import InvalidDocumentError, Problem, RuleError
from models.fields.duration import Duration
from models.fields.field_types import Name, RuleText, Uid, parsed_by
from models.fields.strict_model import DocumentModel
from models.role import Role

KeyState = Literal["active", "expired", "revoked"]


@dataclass(frozen=True, slots=True)
class ShownKey:
    """
    An API key, without its secret.

    ``id`` is the part of it that may be shown, and ``prefix`` how it begins, so that
    its owner knows which it is. ``app`` is the small app that it is for; null: all.
    ``last_used_at`` is known to the minute; ``replaces`` is the key that it was rotated
    from.
    """

    id: str
    prefix: str
    app: str | None
    role: Role
    name: str | None
    state: KeyState
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None
    replaces: str | None


@dataclass(frozen=True, slots=True)
class NewKey(ShownKey):
    """An API key that was made now: its text is shown this once."""

    text: str = field(metadata={"serialization_alias": "key"})


def make_prefix(key_id: str) -> str:
    """Return how the key *key_id* begins."""
    return f"mh_{key_id}_"


#: How long a key that was rotated goes on beside its successor: a week has a working
#: day for everybody who must put the new one somewhere.
DEFAULT_OVERLAP = Duration.from_elapsed(timedelta(days=7))

#: How long a key lives that people make, unless they say something else.
DEFAULT_LIFETIME = Duration.from_elapsed(timedelta(days=90))

#: What they say for a key that does not end.
ENDLESS = "never"


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
        default=str(DEFAULT_LIFETIME),
        description="Its life from now, an ISO 8601 duration. Null: it does not end.",
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


#: How long an invitation lives, unless its maker says something else, and at most.
INVITED_FOR = Duration.from_elapsed(timedelta(days=7))
LONGEST_INVITED = timedelta(days=30)


class InvitationModel(DocumentModel):
    """A colleague to be invited."""

    role: Role = Field(description="What it lets them do.", examples=["viewer"])
    app: Uid = Field(description="Uid of the one small app.", examples=["shop"])
    name: Name = Field(description="Whom it is for.", examples=["zoe@example.com"])
    expires: Annotated[RuleText, parsed_by(parse_lifetime)] = Field(
        default=str(INVITED_FOR), description="Its life, an ISO 8601 duration."
    )


@dataclass(frozen=True, slots=True)
class Invitation:
    """A link that was made now for a colleague; ``text`` is its secret."""

    app: str
    role: Role
    name: str
    expires_at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class ShownInvitation:
    """
    An invitation that has not ended, without its secret.

    ``name`` is what the record of changes calls whom it is for, with who invited them;
    ``used_at`` is when they came in, null: not yet.
    """

    id: str
    app: str
    role: Role
    name: str
    expires_at: datetime
    used_at: datetime | None


class RotationModel(DocumentModel):
    """How a key is replaced by its successor."""

    overlap: Annotated[RuleText, parsed_by(Duration.parse)] = Field(
        default=str(DEFAULT_OVERLAP),
        description="How long the old key goes on, an ISO 8601 duration.",
        examples=["PT0S"],
    )
