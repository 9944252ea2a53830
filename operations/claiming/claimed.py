"""An operation that a worker has claimed: what the worker knows, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from models.back_off import LEASE

#: Columns of the operation that a claim returns.
CLAIMED = (
    "attempt",
    "attempts_allowed",
    "action_uid",
    "action_revision",
    "app",
    "queue",
    "trigger",
    "triggered_by",
    "occurrence",
    "user_id",
    "event_at",
    "details",
)


@dataclass(frozen=True, slots=True)
class Claim:
    """
    An operation that is ours as long as the lease lasts.

    Args:
        document: The action as it was when the operation was recorded.
        action_active: Whether the action is active now. None: it is deleted.
        begun: How many steps were inserted together with the claim. 0: the worker must
            look for obstacles, and for steps of earlier attempts.
        claimed_at: Aware UTC, the database's clock.
        lease: How long the claim lasts after each renewal.
    """

    operation_id: UUID
    token: UUID
    attempt: int
    attempts_allowed: int
    action_uid: str
    action_revision: int
    app: str
    queue: str
    trigger: str
    triggered_by: str
    occurrence: datetime
    user_id: str | None
    event_at: datetime | None
    details: dict[str, Any]
    document: dict[str, Any]
    action_active: bool | None
    claimed_at: datetime
    lease: timedelta = LEASE
    begun: int = 0
