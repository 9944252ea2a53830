"""
An operation that a worker has claimed, and what stops it.

A deleted or inactive action does, and a user who came back; ``find_obstacle`` checks
it. Most operations need no check: the claim itself shows that nothing can stop them.
That rule exists twice on purpose: in SQL, for the statement that claims and begins at
once, and in Python. A test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from models.back_off import LEASE
from models.database.tables import operations, users
from models.event import EventName
from models.operation_state import OperationState, Reason, Trigger

#: Key in the details of an operation that runs again only to send some mails: the state
#: to return to. Nothing stops these mails, because an operator asked for them.
RETURN_KEY = "return_to"

#: Key in the details of a run for which somebody chose some of the action's steps:
#: their names. The others are skipped.
STEPS_KEY = "steps"

#: Key in a step's memo, if the step runs again for some recipients only: who they are,
#: and its former result. See resolve_mails.py.
RESENT_KEY = "resent"


def can_nothing_stop(claim: Stoppable) -> bool:
    """Return whether *claim* may run all its steps without a look at the database."""
    return (
        bool(claim.action_active)
        and STEPS_KEY not in claim.details
        and not _waits_for_absence(claim.document)
    )


def nothing_can_stop(
    claimed: sa.FromClause, asked: sa.ColumnElement[Any]
) -> tuple[sa.ColumnElement[bool], ...]:
    """
    Return ``can_nothing_stop`` as SQL conditions, for PostgreSQL.

    Args:
        claimed: Has the columns ``action_active`` and ``details``.
        asked: The action's document, as JSONB.
    """
    return (
        claimed.c.action_active,
        sa.func.coalesce(
            ~sa.cast(claimed.c.details, JSONB).has_key(STEPS_KEY), sa.true()
        ),
        asked["when"]["after"].astext.is_distinct_from(EventName.USER_LAST_SEEN),
    )


@dataclass(frozen=True, slots=True)
class Stoppable:
    """
    An operation that is about to begin, such as a claimed one.

    Args:
        user_id: Whose event it follows, which happened at event_at.
        details: What was recorded with it.
        document: The action as it was when the operation was recorded.
        action_active: Whether the action is active now. None: it is deleted.
    """

    app: str
    trigger: str
    user_id: str | None
    event_at: datetime | None
    details: dict[str, Any]
    document: dict[str, Any]
    action_active: bool | None


def find_obstacle(
    connection: sa.Connection, claim: Stoppable
) -> tuple[OperationState, str] | None:
    """
    Find what stops *claim*, if anything does.

    Returns:
        The final state of the operation and the reason, or None if it may run.
    """
    if RETURN_KEY in claim.details:
        return None
    if claim.action_active is None:
        return OperationState.CANCELED, Reason.ACTION_DELETED
    if not claim.action_active and claim.trigger != Trigger.MANUAL:
        return OperationState.CANCELED, Reason.ACTION_INACTIVE
    if _waits_for_absence(claim.document) and _is_user_back(connection, claim):
        return (
            OperationState.SKIPPED,
            f"{Reason.NO_LONGER_TRUE}: the user was seen again",
        )
    return None


def _waits_for_absence(document: Mapping[str, Any]) -> bool:
    """Return whether the action is for users who have not been seen for a while."""
    when = document.get("when", {})
    return "after" in when and when["after"] == EventName.USER_LAST_SEEN


def _is_user_back(connection: sa.Connection, claim: Stoppable) -> bool:
    if claim.event_at is None or claim.user_id is None:  # run by hand
        return False
    seen_at = connection.execute(
        sa.select(users.c.last_seen_at).where(
            users.c.app == claim.app, users.c.id == claim.user_id
        )
    ).scalar_one_or_none()
    return seen_at is not None and seen_at > claim.event_at


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
