"""API keys as faces show them: never with what would let anybody ask."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from typing_extensions import TypedDict

from serving.access.roles import Role

KeyState = Literal["active", "expired", "revoked"]


class KeyJson(TypedDict):
    """An API key, without its secret."""

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


class NewKeyJson(KeyJson):
    """An API key that was made now: its text is shown this once."""

    key: str


@dataclass(frozen=True, slots=True)
class ShownKey:
    """
    A key, as all who manage keys may see it.

    Args:
        id: The part of the key that may be shown.
        app: Uid of the small app that it is for. None: the installation.
        last_used_at: To the minute. None: never.
        replaces: Id of the key that it was rotated from. None: it was not.
        has_expired: By the clock of the database.
    """

    id: str
    app: str | None
    role: Role
    name: str | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None
    replaces: str | None
    has_expired: bool

    @property
    def state(self) -> KeyState:
        """Whether it is taken, and why not."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.has_expired else "active"

    @property
    def prefix(self) -> str:
        """How the key begins, so that its owner knows which it is."""
        return f"mh_{self.id}_"

    def as_json(self) -> KeyJson:
        """Return the documented object; keys are only added."""
        return {
            "id": self.id,
            "prefix": self.prefix,
            "app": self.app,
            "role": self.role,
            "name": self.name,
            "state": self.state,
            "created_at": self.created_at,
            "created_by": self.created_by,
            "expires_at": self.expires_at,
            "last_used_at": self.last_used_at,
            "revoked_at": self.revoked_at,
            "revoked_by": self.revoked_by,
            "replaces": self.replaces,
        }


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was made now, with its *text*, which is kept nowhere."""

    shown: ShownKey
    text: str

    def as_json(self) -> NewKeyJson:
        """Return the documented object; keys are only added."""
        return {**self.shown.as_json(), "key": self.text}
