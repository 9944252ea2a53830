"""
The leader's work besides deciding: before a tick, and between ticks.

All of it is found in the database. If something fails, the next look finds it again,
whichever scheduler leads then.

The tick comes first. So each kind of work is done in parts of less than a second, each
in transactions of its own; the kinds take turns; and when the next minute begins, all
of them wait. A part is a function that returns whether more is left to do.
"""

from __future__ import annotations

import time as seconds
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

import sqlalchemy as sa
import structlog

from actions.lease import Leader, LeadershipLostError, record_tick
from actions.own_actions import MaintenancePlan, ensure_maintenance
from actions.tick import TickReport
from dispatch.backfills.progress import Backfiller
from dispatch.clocks import ZoneAdopter, follow_clock_set_back
from dispatch.dispatcher import Dispatcher
from dispatch.due_pauses import end_due_pauses
from dispatch.noticer import Noticer
from dispatch.watching import LateLook, Rester
from models.database.engine import writing
from models.errors import LockedError, UnreachableError
from telemetry import LAST_TICK, TICK_SECONDS, TICKS, Event

log = structlog.get_logger()

#: Seconds between two looks for lost workers and messages (leases last a minute), and
#: for what somebody has paused or resumed.
RESCUE_EVERY_S = 5.0

#: Seconds until a kind of work is tried again that waited in vain for a lock.
LOCKED_AGAIN_S = 5.0

#: Seconds between two looks at what tasks are due within a minute.
LEARN_EVERY_S = 15.0

#: Of work that something else makes due.
NEVER = float("inf")

#: Seconds from a tick to the look for failures to report: by then, most operations of
#: the tick have run.
NOTICE_AFTER_S = 10.0


@dataclass(slots=True)
class _Work:
    """
    One kind of work.

    Args:
        do_part: Does a part of it; returns how much it did, or whether more is left:
            if that is true, it is called again.
        every_s: Seconds from the last part until it is looked at again.
        at: Of the monotonic clock: when it is looked at next.
    """

    do_part: Callable[[], int]
    every_s: float = 0
    at: float = float("-inf")

    def go_on(self, monotonic: Callable[[], float]) -> bool:
        """Do a part, if it is time; return whether more is left."""
        if monotonic() < self.at:
            return False
        pause_s = self.every_s
        try:
            is_left = bool(self.do_part())
        except LockedError as error:  # which holds up no other kind
            log.warning(Event.LOCK_HELD, error=str(error))
            is_left, pause_s = False, LOCKED_AGAIN_S
        if not is_left:
            self.at = monotonic() + pause_s
        return is_left


def do_all(do_part: Callable[[], int]) -> int:
    """Do all parts of some work, whatever begins meanwhile; return how much it did."""
    return sum(iter(do_part, 0))


class Upkeep:
    """
    The work between ticks, each kind at its own interval.

    Args:
        leader: Checked in every transaction.
        dispatcher: Sends waiting operations, and rescues lost ones.
        noticer: Reports failures.
        zones: Adopts a new time zone database.
        lease: How long the claims of workers last.
        monotonic: Returns seconds that never jump.
    """

    def __init__(  # noqa: PLR0913 - what it does between ticks
        self,
        engine: sa.Engine,
        leader: Leader,
        dispatcher: Dispatcher,
        noticer: Noticer,
        zones: ZoneAdopter,
        *,
        lease: timedelta,
        monotonic: Callable[[], float] = seconds.monotonic,
    ) -> None:
        """Rescue at the first look; notice after the first tick."""
        self._engine = engine
        self._leader = leader
        self._locked = dispatcher.locked
        self._monotonic = monotonic
        self._noticer = noticer
        self._notices = _Work(self._notice, every_s=NEVER, at=NEVER)
        self._pauses = _Work(self._end_pauses, every_s=RESCUE_EVERY_S)
        self._works = deque(
            (
                _Work(dispatcher.send_waiting),
                _Work(partial(follow_clock_set_back, engine, leader, lease=lease)),
                _Work(zones.do_part),
                _Work(dispatcher.rescue, every_s=RESCUE_EVERY_S),
                self._pauses,
                _Work(Rester(engine, leader, noticer).look, every_s=RESCUE_EVERY_S),
                _Work(LateLook(engine, leader, noticer).look, every_s=RESCUE_EVERY_S),
                self._notices,
                _Work(Backfiller(engine, leader).look),
                _Work(dispatcher.outbox.tasks.learn_ahead, every_s=LEARN_EVERY_S),
            )
        )
        self._begun_at = datetime.min.replace(tzinfo=UTC)
        self._maintained_as: int | None = None

    def end_pauses(self, now: datetime) -> None:
        """
        End a part of the pauses that are over at *now* (aware UTC), before its tick.

        Whoever pauses an action until seven wants its run of seven. If there are more
        than a part, the look ends the others, and the next tick decides about them; so
        it is if somebody keeps one of them locked.

        Raises:
            LeadershipLostError, UnreachableError: Nothing was written.
        """
        self._begun_at, self._pauses.at = now, self._monotonic()
        self._pauses.go_on(self._monotonic)

    def _end_pauses(self) -> int:
        return end_due_pauses(
            self._engine, self._leader, self._locked, now=self._begun_at
        )

    def note_tick(self, report: TickReport, *, took_s: float) -> None:
        """
        Record a tick, and whether it decided all that was due; look for failures soon.

        Raises:
            LeadershipLostError, UnreachableError: Nothing was written.
        """
        since, is_cut = report.now - report.lookback, report.is_cut
        with writing(self._engine) as connection:
            self._leader.check(connection)
            record_tick(connection, report.now, since=since, is_cut=is_cut)
        if not is_cut:
            LAST_TICK.set(report.now.timestamp())
        TICKS.labels("cut" if report.is_cut else "done").inc()
        TICK_SECONDS.observe(took_s)
        self._notices.at = self._monotonic() + NOTICE_AFTER_S

    def look(self, *, until: float) -> None:
        """
        Do what there is to do, a part of each kind in turn, until nothing is left.

        Args:
            until: Of the monotonic clock: no part begins then or later. The next look
                goes on with the kind whose turn it is.

        Raises:
            LeadershipLostError, UnreachableError: What was done before is kept.
        """
        idle = 0
        while idle < len(self._works) and self._monotonic() < until:
            work = self._works[0]
            self._works.rotate(-1)  # first, or what fails would be tried for ever
            idle = 0 if work.go_on(self._monotonic) else idle + 1

    def _notice(self) -> bool:
        self._noticer.look()
        return self._noticer.is_behind

    def keep_maintenance(self, plan: MaintenancePlan) -> bool:
        """
        Bring the daily maintenance in line with the settings, once for each leadership.

        Returns:
            False if the database is away, or this scheduler does not lead.
        """
        fence = self._leader.fence
        if fence is None or fence == self._maintained_as:
            return fence is not None
        try:
            ensure_maintenance(self._engine, plan, check=self._leader.check)
        except LeadershipLostError:
            return False
        except UnreachableError as error:
            log.warning(Event.DATABASE_UNREACHABLE, error=str(error))
            return False
        self._maintained_as = fence
        return True


def log_tick(report: TickReport) -> None:
    """Log what a tick did."""
    names = ("due", "recorded", "sent", "locked")
    told = {name: getattr(report, name) for name in names}
    quarantined = len(report.quarantined)
    log.info(Event.TICK_DONE, **told, quarantined=quarantined, is_cut=report.is_cut)
