"""
The scheduler: a single thread that wakes every minute and decides what is due.

It takes the lease, so that of many schedulers one leads. On each wall-clock
minute it looks for the occurrences that became due, records one operation for
each, and hands them to Celery. In between, once a second, it keeps its lease,
sends what could not be sent before, and brings back what was lost. It never does
the work itself: that is what the Celery workers are for.

    python scheduler_server.py            run until stopped
    python scheduler_server.py --help
"""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from types import FrameType
from typing import TypeVar

import sqlalchemy as sa
import structlog

from actions.due_rows import recompute_due
from actions.leader import (
    Leader,
    LeadershipLostError,
    get_holder,
    get_last_tick_at,
    record_tick,
)
from actions.maintenance_action import ensure_maintenance
from actions.pausing.pause_and_resume import end_pauses, has_ended_pause
from actions.tick import TickReport, run_tick
from actions.zone_changes import adopt_zones
from celery_app.app import make_app
from celery_app.logs import log_crashes
from celery_app.presence import Presence, make_process
from celery_app.redis_cluster import refuse_cluster
from celery_app.sender import CelerySender
from celery_app.starting import refuse_memory_broker
from dispatch.dispatcher import Dispatcher, Sender
from dispatch.noticer import Noticer
from migrations.revisions import check_schema
from models.database.engine import (
    TOLERATED_SKEW,
    Clock,
    make_engine,
    read_clock,
    read_host_clock,
    reading,
    writing,
)
from models.errors import ConflictError, MinutehandError, UnreachableError
from operations.fleet.installation import fetch_installation
from operations.fleet.processes import RENEW_EVERY, Role
from overview.metrics import giving_metrics
from settings import Settings, read_settings
from telemetry import (
    CLOCK_SKEW,
    IS_LEADER,
    LAST_TICK,
    TICK_SECONDS,
    TICKS,
    Event,
    configure_logging,
    is_json,
    serve_metrics,
)

log = structlog.get_logger()

T = TypeVar("T")

MINUTE = timedelta(minutes=1)

#: Between two looks at the lease and the outbox.
PAUSE_S = 1.0

#: Lost workers and messages are looked for this often: their leases last a minute.
RESCUE_EVERY_S = 5.0

#: From a tick to the look for failures that somebody is told of: most of what the tick
#: made has run by then.
NOTICE_AFTER_S = 10.0


class Scheduler:
    """
    One scheduler among any number; ``wake`` does all there is to do at a moment.

    Args:
        engine: Its own.

        leader: Its part in the election.

        sender: To the broker.

        settings: Read once at the start.

        monotonic: Seconds that never jump; only measures pauses.

        host_clock: Only compared with the database's, and reported.
    """

    def __init__(
        self,
        engine: sa.Engine,
        leader: Leader,
        sender: Sender,
        settings: Settings,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        host_clock: Clock = read_host_clock,
    ) -> None:
        """Do nothing yet; the first ``wake`` may lead."""
        self.engine = engine
        self.leader = leader
        self.dispatcher = Dispatcher(
            engine, leader, sender, settings.chunk, monotonic, settings.app_share
        )
        self.noticer = Noticer(
            engine,
            leader,
            mail=settings.notice_mail,
            webhook=settings.notice_webhook,
            zone=settings.timezone,
        )
        self.settings = settings
        self._monotonic = monotonic
        self._host_clock = host_clock
        self.on_tick: list[Callable[[TickReport], None]] = [_log_tick]
        self._next_tick_at: datetime | None = None
        self._rescued_at = float("-inf")
        self._notice_at = float("inf")
        self._was_leading = False

    def wake(self) -> float:
        """
        Lead if possible; tick if a minute has begun; send and rescue what waits.

        Returns:
            Seconds to sleep: until the next look, or the next minute if sooner.
        """
        try:
            if not self._lead():
                return PAUSE_S
            now = self._read_clock()
            if self._is_tick_due(now):
                self.tick(now)
                now = self._read_clock()
            else:
                self._look_after()
        except LeadershipLostError:
            self._note_leading(leading=False)
            return PAUSE_S
        except UnreachableError as error:
            # Nothing is lost: what is due stays due, what is recorded stays recorded.
            log.warning(Event.DATABASE_UNREACHABLE, error=str(error))
            return PAUSE_S
        assert self._next_tick_at is not None  # a first tick has set it
        return min(PAUSE_S, max(0.0, (self._next_tick_at - now).total_seconds()))

    def tick(self, now: datetime) -> TickReport:
        """
        Decide, record and send everything due by *now* (aware UTC).

        Raises:
            LeadershipLostError, UnreachableError: The next tick makes up for it.
        """
        started = self._monotonic()
        self._notice_clock_set_back(now)
        self._next_tick_at = now.replace(second=0, microsecond=0) + MINUTE
        try:
            self.end_pauses(now)
            report = run_tick(
                now,
                engine=self.engine,
                dispatch=self.dispatcher.dispatch,
                lookback=self.settings.lookback,
                chunk=self.settings.chunk,
            )
        except MinutehandError:
            TICKS.labels("failed").inc()
            self._next_tick_at = now
            raise
        with writing(self.engine) as connection:
            self.leader.check(connection)
            record_tick(connection, now)
        TICKS.labels("done").inc()
        TICK_SECONDS.observe(self._monotonic() - started)
        LAST_TICK.set(now.timestamp())
        self._notice_at = self._monotonic() + NOTICE_AFTER_S
        for listener in self.on_tick:
            listener(report)
        return report

    def end_pauses(self, now: datetime) -> None:
        """
        Let go on what was paused until *now* or before.

        Raises:
            LeadershipLostError, UnreachableError: The next tick makes up for it.
        """
        with reading(self.engine) as connection:
            if not has_ended_pause(connection, now=now):
                return
        with writing(self.engine) as connection:
            self.leader.check(connection)
            actions = end_pauses(connection, now=now)
        log.info(Event.PAUSE_ENDED, actions=actions)

    def ensure(self) -> bool:
        """
        Make the daily maintenance what the settings say: the leader's, not a standby's.

        Returns:
            False if it could not be looked at now.
        """
        try:
            ensure_maintenance(
                self.engine,
                at=self.settings.maintenance_at,
                timezone=self.settings.timezone,
                enabled=self.settings.maintenance_enabled,
                check=self.leader.check,
            )
        except LeadershipLostError:
            return False
        except UnreachableError as error:
            log.warning(Event.DATABASE_UNREACHABLE, error=str(error))
            return False
        return True

    def stop(self) -> None:
        """Let a standby lead at once, if we lead."""
        led = self.leader.fence is not None
        try:
            self.leader.release()
        except UnreachableError as error:
            log.warning(Event.LEASE_LOST, error=str(error))
        else:
            if led:
                log.info(Event.LEASE_RELEASED)
        IS_LEADER.set(0)

    def _is_tick_due(self, now: datetime) -> bool:
        if self._next_tick_at is None or now >= self._next_tick_at:
            return True
        # The next minute is never further away than this, unless the clock was set
        # back: then the tick must not wait until it has caught up.
        return self._next_tick_at - now > MINUTE

    def _lead(self) -> bool:
        leading = self.leader.hold()
        self._note_leading(leading=leading)
        return leading

    def _note_leading(self, *, leading: bool) -> None:
        if leading == self._was_leading:
            return
        if leading:
            # What was due while nobody led is found by a tick at once.
            self._next_tick_at = None
            self._adopt_zones()
            log.info(Event.LEASE_ACQUIRED, fence=self.leader.fence)
        else:
            log.warning(Event.LEASE_LOST)
        # last, so that what failed above is done at the next look
        self._was_leading = leading
        IS_LEADER.set(int(leading))

    def _adopt_zones(self) -> None:
        """Look again at actions whose clocks a new tz database has moved."""
        with writing(self.engine) as connection:
            self.leader.check(connection)
            ticked_at = get_last_tick_at(connection) or read_clock(connection)
            adopted = adopt_zones(connection, after=ticked_at)
        for zone, actions in adopted.items():
            log.warning(Event.ZONE_CHANGED, zone=zone, actions=actions)

    def _look_after(self) -> None:
        self.dispatcher.send_waiting()
        if self._monotonic() - self._rescued_at >= RESCUE_EVERY_S:
            self._rescued_at = self._monotonic()
            self.dispatcher.rescue()
        if self._monotonic() >= self._notice_at:
            self._notice_at = float("inf")  # until the next tick
            self.noticer.look()
            if self.noticer.is_behind:
                self._notice_at = self._monotonic()

    def _read_clock(self) -> datetime:
        with reading(self.engine) as connection:
            now = read_clock(connection)
        skew = self._host_clock() - now
        CLOCK_SKEW.set(skew.total_seconds())
        if abs(skew) > TOLERATED_SKEW:
            log.warning(Event.CLOCK_SKEWED, seconds=skew.total_seconds())
        return now

    def _notice_clock_set_back(self, now: datetime) -> None:
        with writing(self.engine) as connection:
            last_tick_at = get_last_tick_at(connection)
            if last_tick_at is None or last_tick_at <= now:
                return
            self.leader.check(connection)
            moved = recompute_due(connection, now=now)
            record_tick(connection, now)
        log.warning(Event.CLOCK_SET_BACK, last_tick_at=last_tick_at, moved=moved)


def _log_tick(report: TickReport) -> None:
    log.info(
        Event.TICK_DONE,
        due=report.due,
        recorded=report.recorded,
        sent=report.sent,
        quarantined=len(report.quarantined),
    )


def make_scheduler(settings: Settings) -> Scheduler:
    """
    Return a scheduler for *settings*, its database checked.

    Raises:
        UsageError: The database has another schema.

        UnreachableError: The database is away.
    """
    engine = make_engine(settings.database_url, timeout=settings.database_timeout)
    check_schema(engine)
    leader = Leader(engine, ttl=settings.lease_ttl, heartbeat=settings.lease_heartbeat)
    sender = CelerySender(
        make_app(settings),
        timeout=settings.broker_timeout,
        read_installation=partial(_read_installation, engine),
    )
    # What is loaded by now stays. A large tick makes many objects and drops none for
    # a moment; without this each collection would look through everything again.
    gc.collect()
    gc.freeze()
    return Scheduler(engine, leader, sender, settings)


def _read_installation(engine: sa.Engine) -> str | None:
    with reading(engine) as connection:
        return fetch_installation(connection)


def run(
    scheduler: Scheduler, stop: threading.Event, *, wait_for_lease: bool = True
) -> None:
    """
    Wake until *stop* is set, then give the lease away.

    Raises:
        ConflictError: *wait_for_lease* is False and another scheduler leads.
    """
    log.info(Event.SCHEDULER_STARTED)
    presence = Presence(
        make_process(scheduler.settings, Role.SCHEDULER),
        partial(writing, scheduler.engine),
    )
    told_at = float("-inf")
    standing_by_for: int | None = None
    ensured_as: int | None = None
    try:
        with giving_metrics(
            scheduler.settings, leads=lambda: scheduler.leader.fence is not None
        ):
            while not stop.is_set():
                pause_s = scheduler.wake()
                if time.monotonic() - told_at >= RENEW_EVERY.total_seconds():
                    presence.renew()
                    told_at = time.monotonic()
                fence = scheduler.leader.fence
                if fence is None:
                    if not wait_for_lease:
                        raise ConflictError(describe_holder(scheduler.engine))
                    standing_by_for = _tell_holder(scheduler.engine, standing_by_for)
                elif fence != ensured_as and scheduler.ensure():
                    ensured_as = fence
                stop.wait(pause_s)
    finally:
        scheduler.stop()
        presence.end()
        log.info(Event.SCHEDULER_STOPPED)


def _tell_holder(engine: sa.Engine, told: int | None) -> int | None:
    """
    Log who leads, unless that is the leadership that was *told* of; a standby asks.

    Returns:
        The fence of the leadership that has been told of by now.
    """
    with suppress(UnreachableError):  # which the look before this one has logged
        holder = get_holder(engine)
        if holder is None or holder.is_stale or holder.fence == told:
            return told
        log.info(
            Event.STANDING_BY,
            leader=holder.hostname,
            pid=holder.pid,
            since=holder.acquired_at,
            fence=holder.fence,
        )
        return holder.fence
    return told


def keep_trying(call: Callable[[], T], stop: threading.Event) -> T | None:
    """
    Return what *call* returns once the database serves; None if *stop* is set first.

    A scheduler is started with the machine, maybe before its database, or while that
    changes over; whoever looks at the log sees what it waits for.
    """
    while True:
        try:
            return call()
        except UnreachableError as error:
            log.warning(Event.DATABASE_UNREACHABLE, error=str(error))
            if stop.wait(PAUSE_S):
                return None


def describe_holder(engine: sa.Engine) -> str:
    """Say who leads, for a scheduler that will not wait."""
    holder = get_holder(engine)
    if holder is None:
        return "no scheduler leads now, but the lease could not be taken"
    return (
        f"{holder.hostname} (pid {holder.pid}) leads since {holder.acquired_at:%F %T}Z"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a scheduler until SIGTERM or SIGINT; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="scheduler_server.py",
        description="Decide each minute what is due, and hand it to Celery.",
    )
    parser.add_argument(
        "--no-wait",
        action="store_true",
        help="exit with code 5 if another scheduler leads, instead of standing by",
    )
    options = parser.parse_args(arguments)
    stop = threading.Event()

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    try:
        settings = read_settings()
        refuse_memory_broker(settings)
        refuse_cluster(settings)
        configure_logging(level=settings.log_level, log_format=settings.log_format)
        if is_json(settings.log_format, on_terminal=sys.stderr.isatty()):
            log_crashes()
        if settings.metrics_port is not None:
            serve_metrics(settings.metrics_address, settings.metrics_port)
        scheduler = keep_trying(lambda: make_scheduler(settings), stop)
        if scheduler is not None:
            run(scheduler, stop, wait_for_lease=not options.no_wait)
    except MinutehandError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
