"""
The leader's work besides deciding: before a tick, and between ticks.

All of it is found in the database. If something fails, the next look finds it again,
whichever scheduler leads then.
"""

from __future__ import annotations

import time as seconds
from collections.abc import Callable
from datetime import datetime, time

import sqlalchemy as sa
import structlog

from actions.leader import Leader, LeadershipLostError, record_tick
from actions.maintenance_action import ensure_maintenance
from actions.tick import TickReport
from dispatch.backfills.progress import Backfiller
from dispatch.dispatcher import Dispatcher
from dispatch.noticer import Noticer
from models.database.engine import writing
from models.errors import UnreachableError
from telemetry import LAST_TICK, TICK_SECONDS, TICKS, Event

log = structlog.get_logger()

#: Seconds between two looks for lost workers and messages; leases last a minute.
RESCUE_EVERY_S = 5.0

#: Seconds between two looks for backfills while there are none.
BACKFILL_EVERY_S = 5.0

#: Seconds from a tick to the look for failures to report: by then, most operations of
#: the tick have run.
NOTICE_AFTER_S = 10.0


class Upkeep:
    """
    The work between ticks, each kind at its own interval.

    Args:
        engine: The scheduler's engine.

        leader: Checked in every transaction.

        dispatcher: Sends waiting operations, and rescues lost ones.

        noticer: Reports failures.

        monotonic: Returns seconds that never jump.
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
        self.backfiller = Backfiller(engine, leader)
        self.noticer = noticer
        self._engine = engine
        self._leader = leader
        self._monotonic = monotonic
        self._rescue_at = float("-inf")
        self._backfill_at = float("-inf")
        self._notice_at = float("inf")
        self._maintained_as: int | None = None

    def note_tick(self, now: datetime, *, took_s: float) -> None:
        """
        Record that the tick of *now* (aware UTC) is done; look for failures soon.

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
        Send what waits; if it is time, rescue, report failures and go on backfilling.

        Raises:
            LeadershipLostError, UnreachableError: What was done before is kept.
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
        # last: what is not of a backfill has been sent by now, unless it cannot be
        if self._monotonic() >= self._backfill_at and not self.backfiller.look():
            self._backfill_at = self._monotonic() + BACKFILL_EVERY_S

    def keep_maintenance(self, *, at: time, timezone: str, enabled: bool) -> bool:
        """
        Bring the daily maintenance in line with the settings, once for each leadership.

        Args:
            at: As for ``ensure_maintenance``.

            timezone: As for ``ensure_maintenance``.

            enabled: As for ``ensure_maintenance``.

        Returns:
            False if the database is away, or this scheduler does not lead.
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


def log_tick(report: TickReport) -> None:
    """Log what a tick did."""
    log.info(
        Event.TICK_DONE,
        due=report.due,
        recorded=report.recorded,
        sent=report.sent,
        quarantined=len(report.quarantined),
    )
