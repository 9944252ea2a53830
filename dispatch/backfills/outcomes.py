"""What became of each occurrence of a backfill."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import db_now
from models.database.tables import BACKFILL_WAITING, backfill_occurrences, backfills


class OccurrenceOutcome(StrEnum):
    """What the leader did about an occurrence, or why it did nothing."""

    RECORDED = "recorded"
    RETRIED = "retried"
    # left as it was, because
    CANCELED = "the backfill was canceled"
    DELETED = "the action was deleted"
    OF_EVENTS = "events drive the action now"
    RESTORED = "a backup was restored"


#: An operation runs, or ran, because of the backfill.
TAKEN = (OccurrenceOutcome.RECORDED, OccurrenceOutcome.RETRIED)

#: Begins the outcome of an occurrence that was left as it was; the reason follows.
LEFT = "left: "


def settle_waiting(connection: sa.Connection, backfill_id: UUID, outcome: str) -> int:
    """Give all occurrences that wait for their turn this outcome; return how many."""
    settled = connection.execute(
        sa.update(backfill_occurrences)
        .where(
            backfill_occurrences.c.backfill_id == backfill_id,
            BACKFILL_WAITING.of("backfill_occurrences"),
        )
        .values(outcome=outcome)
    )
    return settled.rowcount


def end_backfills(connection: sa.Connection, why: OccurrenceOutcome) -> int:
    """
    End all backfills at once; return how many there were.

    For a backup that was restored: what they would still record may have run since.
    """
    is_open = backfills.c.finished_at.is_(None)
    ids = connection.execute(sa.select(backfills.c.id).where(is_open)).scalars().all()
    for backfill_id in ids:
        settle_waiting(connection, backfill_id, f"{LEFT}{why}")
    connection.execute(sa.update(backfills).where(is_open).values(finished_at=db_now()))
    return len(ids)
