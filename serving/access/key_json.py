"""API keys as faces show them: never with what would let anybody ask."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from serving.access.roles import Role

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
