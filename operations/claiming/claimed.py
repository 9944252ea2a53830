"""An operation that a worker has claimed: what the worker knows, and for how long."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from uuid import UUID

from models.back_off import LEASE
from models.database.tables import operations
from operations.claiming.obstacles import Stoppable


@dataclass(frozen=True, slots=True)
class Claim(Stoppable):
    """
    An operation that is ours as long as the lease lasts.

    Args:
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
    queue: str
    triggered_by: str
    occurrence: datetime
    claimed_at: datetime
    lease: timedelta = LEASE
    begun: int = 0


#: Columns of the operation that a claim returns.
CLAIMED = tuple(each.name for each in fields(Claim) if each.name in operations.c)
