"""
What the leader does when clocks differ, are set back, or change their zone's rules.

Only the database's clock decides. The host's clock is compared with it, and differences
are reported. If the database's clock was set back, or the rules of a zone have changed,
due instants are computed again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog

from actions.adopting_zones import (
    ChangedZones,
    adopt_part,
    begin_adoption,
    date_adoption_back,
)
from actions.clock_set_back import recompute_due
from actions.lease import (
    Leader,
    SetBack,
    get_last_tick_at,
    get_latest_tick_at,
    get_set_back,
    record_set_back,
    record_tick,
)
from models.database.engine import (
    TOLERATED_SKEW,
    Clock,
    compare_clocks,
    read_clock,
    reading,
    writing,
)
from operations.rescue import date_back
from telemetry import CLOCK_SKEW, Event

log = structlog.get_logger()

#: Actions or operations that follow a clock or zone in one transaction: a part of a
#: second.
FOLLOWED = 1_000


def read_compared_clock(engine: sa.Engine, host_clock: Clock) -> datetime:
    """
    Return the database's clock, aware UTC; report a host clock that differs from it.

    Raises:
        UnreachableError: The database is away.
    """
    with reading(engine) as connection:
        now, skew = compare_clocks(connection, host_clock)
    CLOCK_SKEW.set(skew.total_seconds())
    if abs(skew) > TOLERATED_SKEW:
        log.warning(Event.CLOCK_SKEWED, seconds=skew.total_seconds())
    return now


def notice_clock_set_back(engine: sa.Engine, leader: Leader, *, now: datetime) -> None:
    """
    If *now* (aware UTC) lies before the last tick, record it for the next function.

    Raises:
        LeadershipLostError, UnreachableError: Nothing was written.
    """
    with writing(engine) as connection:
        ticked_at = get_latest_tick_at(connection)
        if ticked_at is None or ticked_at <= now:
            return
        leader.check(connection)
        decided_until = get_last_tick_at(connection)
        is_left = decided_until is None or decided_until < now
        former = get_set_back(connection)
        was = ticked_at if former is None else max(ticked_at, former.was)
        record_set_back(connection, SetBack(was, now, recomputed_until=""))
        date_adoption_back(connection, now=now)
        record_tick(connection, now, is_cut=is_left)
    log.warning(Event.CLOCK_SET_BACK, last_tick_at=ticked_at)


def follow_clock_set_back(
    engine: sa.Engine, leader: Leader, *, lease: timedelta, at_most: int = FOLLOWED
) -> bool:
    """
    Date some operations back, or compute some due instants again, if any are left.

    Args:
        leader: Checked in the transaction.
        lease: Of the workers' claims.
        at_most: How many rows of a kind to change.

    Returns:
        Whether more is left to do.

    Raises:
        LeadershipLostError, UnreachableError: Nothing was written.
    """
    with reading(engine) as connection:
        set_back = get_set_back(connection)
    if set_back is None or set_back.recomputed_until is None:
        return False
    with writing(engine) as connection:
        leader.check(connection)
        after = set_back.recomputed_until
        if not after and date_back(connection, lease=lease, at_most=at_most) == at_most:
            return True
        until = recompute_due(connection, now=set_back.to, after=after, at_most=at_most)
        record_set_back(connection, replace(set_back, recomputed_until=until))
    return until is not None


@dataclass(slots=True)
class ZoneAdopter:
    """
    Has the leader adopt a time zone database that is another than the last leader's.

    Args:
        leader: Checked in every transaction.
    """

    engine: sa.Engine
    leader: Leader
    _changed: ChangedZones | None = None

    def begin(self) -> None:
        """
        Look for changed zones; to be called before the first tick of a leadership.

        Raises:
            LeadershipLostError, UnreachableError: Nothing was written.
        """
        with writing(self.engine) as connection:
            self.leader.check(connection)
            ticked_at = get_last_tick_at(connection) or read_clock(connection)
            self._changed = begin_adoption(connection, ticked_at=ticked_at)
        for zone in sorted(self._changed.names if self._changed else ()):
            log.warning(Event.ZONE_CHANGED, zone=zone)

    def do_part(self, at_most: int = FOLLOWED) -> bool:
        """
        Compute some due instants again; return whether more are left.

        Raises:
            LeadershipLostError, UnreachableError: Nothing was written.
        """
        if self._changed is None:
            return False
        with writing(self.engine) as connection:
            self.leader.check(connection)
            is_left = adopt_part(
                connection,
                self._changed,
                ticked_at=get_last_tick_at(connection) or read_clock(connection),
                at_most=at_most,
            )
        if not is_left:
            self._changed = None
        return is_left
