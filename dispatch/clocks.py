"""
Clocks that are not what they were, or should be: what the leader does about them.

The database's clock is the only one that decides. The host's is compared with it, and
reported; one that was set back, and zones that changed, move what is due.
"""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
import structlog

from actions.due_rows import recompute_due
from actions.leader import Leader, get_last_tick_at, record_tick
from actions.zone_changes import adopt_zones
from models.database.engine import (
    TOLERATED_SKEW,
    Clock,
    read_clock,
    reading,
    writing,
)
from telemetry import CLOCK_SKEW, Event

log = structlog.get_logger()


def read_compared_clock(engine: sa.Engine, host_clock: Clock) -> datetime:
    """
    Return the database's clock, aware UTC; report a host clock that differs from it.

    Raises:
        UnreachableError: The database is away.
    """
    with reading(engine) as connection:
        now = read_clock(connection)
    skew = host_clock() - now
    CLOCK_SKEW.set(skew.total_seconds())
    if abs(skew) > TOLERATED_SKEW:
        log.warning(Event.CLOCK_SKEWED, seconds=skew.total_seconds())
    return now


def follow_clock_set_back(engine: sa.Engine, leader: Leader, *, now: datetime) -> None:
    """
    Look again at all actions if *now* (aware UTC) lies before the last tick.

    Raises:
        LeadershipLostError, UnreachableError: Nothing was written.
    """
    with writing(engine) as connection:
        last_tick_at = get_last_tick_at(connection)
        if last_tick_at is None or last_tick_at <= now:
            return
        leader.check(connection)
        moved = recompute_due(connection, now=now)
        record_tick(connection, now)
    log.warning(Event.CLOCK_SET_BACK, last_tick_at=last_tick_at, moved=moved)


def adopt_changed_zones(engine: sa.Engine, leader: Leader) -> None:
    """
    Look again at actions whose clocks a new tz database has moved.

    Raises:
        LeadershipLostError, UnreachableError: Nothing was written.
    """
    with writing(engine) as connection:
        leader.check(connection)
        ticked_at = get_last_tick_at(connection) or read_clock(connection)
        adopted = adopt_zones(connection, after=ticked_at)
    for zone, actions in adopted.items():
        log.warning(Event.ZONE_CHANGED, zone=zone, actions=actions)
