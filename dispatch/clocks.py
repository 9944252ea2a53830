"""
What the leader does when clocks differ, are set back, or change their zone's rules.

Only the database's clock decides. The host's clock is compared with it, and differences
are reported. If the database's clock was set back, or the rules of a zone have changed,
due instants are computed again.
"""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
import structlog

from actions.adopting_zones import adopt_zones
from actions.due_rows import recompute_due
from actions.leader import Leader, get_last_tick_at, record_tick
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
    Compute all due instants again if *now* (aware UTC) lies before the last tick.

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
    Compute again the due instants of actions whose zones a new tz database has changed.

    Raises:
        LeadershipLostError, UnreachableError: Nothing was written.
    """
    with writing(engine) as connection:
        leader.check(connection)
        ticked_at = get_last_tick_at(connection) or read_clock(connection)
        adopted = adopt_zones(connection, after=ticked_at)
    for zone, actions in adopted.items():
        log.warning(Event.ZONE_CHANGED, zone=zone, actions=actions)
