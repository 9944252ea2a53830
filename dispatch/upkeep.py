"""
What a leader keeps in order besides deciding: before a tick, and between two.

Everything is found in the database, so whatever fails is found again at the next look,
by whoever leads then.
"""

from __future__ import annotations

import time as seconds
from collections.abc import Callable
from datetime import datetime, time

import sqlalchemy as sa
import structlog

from actions.leader import Leader, LeadershipLostError, record_tick
from actions.maintenance_action import ensure_maintenance
from actions.pausing.pause_and_resume import end_pauses, has_ended_pause
from actions.tick import TickReport
from dispatch.dispatcher import Dispatcher
from dispatch.noticer import Noticer
from models.database.engine import reading, writing
from models.errors import UnreachableError
from telemetry import LAST_TICK, TICK_SECONDS, TICKS, Event

log = structlog.get_logger()

#: Lost workers and messages are looked for this often: their leases last a minute.
RESCUE_EVERY_S = 5.0

#: From a tick to the look for failures that somebody is told of: most of what the tick
#: made has run by then.
NOTICE_AFTER_S = 10.0


class Upkeep:
    """
    What is done between ticks, each in its time.

    Args:
        engine: Of the scheduler.

        leader: Checked in every transaction.

        dispatcher: Sends what waits, and brings back what was lost.

        noticer: Looks for failures that somebody is told of.

        monotonic: Seconds that never jump.
    """

    def __init__(
        self,
        engine: sa.Engine,
        leader: Leader,
        dispatcher: Dispatcher,
        noticer: Noticer,
        *,
        monotonic: Callable[[], float] = seconds.monotonic,
    ) -> None:
        """Rescue at the first look; notice after the first tick."""
        self.dispatcher = dispatcher
        self.noticer = noticer
        self._engine = engine
        self._leader = leader
        self._monotonic = monotonic
        self._rescue_at = float("-inf")
        self._notice_at = float("inf")
        self._maintained_as: int | None = None

    def note_tick(self, now: datetime, *, took_s: float) -> None:
        """
        Write down that the tick of *now* (aware UTC) is done; look for failures soon.

        Raises:
            LeadershipLostError, UnreachableError: Nothing was written.
        """
        with writing(self._engine) as connection:
            self._leader.check(connection)
            record_tick(connection, now)
        TICKS.labels("done").inc()
        TICK_SECONDS.observe(took_s)
        LAST_TICK.set(now.timestamp())
        self._notice_at = self._monotonic() + NOTICE_AFTER_S

    def look(self) -> None:
        """
        Send what waits; rescue what was lost, and notice what failed, if it is time.

        Raises:
            LeadershipLostError, UnreachableError: What was done before stays.
        """
        self.dispatcher.send_waiting()
        if self._monotonic() >= self._rescue_at:
            self._rescue_at = self._monotonic() + RESCUE_EVERY_S
            self.dispatcher.rescue()
        if self._monotonic() >= self._notice_at:
            self._notice_at = float("inf")  # until the next tick
            self.noticer.look()
            if self.noticer.is_behind:
                self._notice_at = self._monotonic()

    def keep_maintenance(self, *, at: time, timezone: str, enabled: bool) -> bool:
        """
        Make the daily maintenance as the settings say, once for each leadership.

        Args:
            at: As for ``ensure_maintenance``; the next two as well.

            timezone: The same.

            enabled: The same.

        Returns:
            False if it could not be looked at now, or is left to the one that leads.
        """
        fence = self._leader.fence
        if fence is None or fence == self._maintained_as:
            return fence is not None
        try:
            ensure_maintenance(
                self._engine,
                at=at,
                timezone=timezone,
                enabled=enabled,
                check=self._leader.check,
            )
        except LeadershipLostError:
            return False
        except UnreachableError as error:
            log.warning(Event.DATABASE_UNREACHABLE, error=str(error))
            return False
        self._maintained_as = fence
        return True


def end_due_pauses(engine: sa.Engine, leader: Leader, *, now: datetime) -> None:
    """
    Let go on what was paused until *now* (aware UTC) or before.

    Raises:
        LeadershipLostError, UnreachableError: Nothing was written.
    """
    with reading(engine) as connection:
        if not has_ended_pause(connection, now=now):
            return
    with writing(engine) as connection:
        leader.check(connection)
        actions = end_pauses(connection, now=now)
    log.info(Event.PAUSE_ENDED, actions=actions)


def log_tick(report: TickReport) -> None:
    """Log what a tick did."""
    log.info(
        Event.TICK_DONE,
        due=report.due,
        recorded=report.recorded,
        sent=report.sent,
        quarantined=len(report.quarantined),
    )
