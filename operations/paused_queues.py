"""
Which queues are paused: of these nothing is sent, and nothing is claimed.

A pause is looked up by the statements that send and claim, in a table of three rows at
most. So it costs nothing where nothing is paused, holds from its commit on, whoever
leads or crashes, and ends by the clock alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import sqlalchemy as sa

from models.database.engine import db_now
from models.database.tables import queue_pauses
from models.operation_state import Queue

_kept = queue_pauses.c

IS_IN_FORCE = sa.or_(_kept.paused_until.is_(None), _kept.paused_until > db_now())

#: Selects the queues that are paused now.
PAUSED = sa.select(_kept.queue).where(IS_IN_FORCE)


class Rest(NamedTuple):
    """Since and until when (None: it is resumed by hand) a queue rests, and why."""

    since: datetime
    until: datetime | None
    note: str | None


def fetch_resting(connection: sa.Connection) -> dict[Queue, Rest]:
    """Return the queues that are paused now."""
    rows = connection.execute(
        sa.select(
            _kept.queue, _kept.paused_at, _kept.paused_until, _kept.pause_note
        ).where(IS_IN_FORCE)
    )
    return {Queue(queue): Rest(*rest) for queue, *rest in rows}
