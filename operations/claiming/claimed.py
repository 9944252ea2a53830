"""An operation that a worker has claimed: what it is told, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

#: How long an operation stays claimed without a sign of life; renewed each 10 s.
LEASE = timedelta(seconds=60)

#: Columns of the operation that a claim returns.
CLAIMED = (
    "attempt",
    "attempts_allowed",
    "action_uid",
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
    An operation that is ours while the lease holds.

    Args:
        document: The action as it was when the occurrence was recorded.

        action_active: Whether the action is still there and switched on. None: deleted.

        begun: How many steps were written down with the claim, for the first time.
            0: find out what stops the operation, or what an earlier attempt left.

        claimed_at: Aware UTC, the database's clock.

        lease: How long a sign of life keeps it ours.
    """

    operation_id: UUID
    token: UUID
    attempt: int
    attempts_allowed: int
    action_uid: str
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
