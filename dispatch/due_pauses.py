"""End the pauses that are over, before a tick decides what is due."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
import structlog

from actions.leader import Leader
from actions.pausing.end_pauses import end_pauses, has_ended_pause
from actions.pausing.spread import WRITTEN_AT_ONCE, spread_part
from models.database.engine import reading, writing
from telemetry import Event

log = structlog.get_logger()


def end_due_pauses(engine: sa.Engine, leader: Leader, *, now: datetime) -> int:
    """
    Resume a part of what was paused until *now* (aware UTC) or before.

    If there is nothing, write a part of what somebody has paused or resumed.

    Returns:
        How many actions are affected; if there are any, others may follow.

    Raises:
        LeadershipLostError, UnreachableError: Nothing was written.
    """
    with reading(engine) as connection:
        if not has_ended_pause(connection, now=now):
            return 0
    with writing(engine) as connection:
        leader.check(connection)
        actions = end_pauses(connection, now=now)
        if not actions and spread_part(connection):
            return WRITTEN_AT_ONCE
    log.info(Event.PAUSE_ENDED, actions=actions)
    return actions
