"""
The scheduler: a single thread that wakes every minute and decides what is due.

It never does the work itself: the Celery workers do. Of several schedulers, one leads.
These are the steps of a wake, what can go wrong at each, and who repairs it:

1. Lead, or stand by. If a leader dies or freezes, its lease runs out and a standby
   takes it; the higher fence rejects whatever the old leader still writes.
2. Read the database's clock. A host clock that differs is only reported.
   Between two minutes only step 7 follows; but where a task is due at a second of its
   own, a look does steps 4 to 6 for such tasks alone, the minute's tick for the rest.
3. Handle changes of time: a clock that was set back, pauses that have ended.
   If this step or one of the next three fails, the next wake does it again.
4. Decide (``run_tick``) each occurrence since the last decision: a minute during which
   nobody led is not lost. An action that cannot be read is put into quarantine.
5. Record, under the fence, the runs and how far was decided: all or nothing. If the
   same occurrence is decided again, its id already exists, and nothing is added.
6. Commit, then send to Celery. If we die in between, or the broker is away, the
   recorded operations wait, and step 7 of any leader sends them under the same ids.
7. Until the next minute begins: send what waits, rescue operations that lost their
   worker or their message, have failures reported. In parts, for the tick comes first.

Beside it, a thread reads what tasks of users' own answer (celery_app/answer_reader.py);
it decides nothing, and a broker of somebody's that hangs holds up nobody else. So do
threads that tell outside monitors of runs, and of ticks (celery_app/pinger.py).

While the database is away, nothing happens and nothing is lost: what is due stays due.

    python scheduler_server.py            run until stopped
    python scheduler_server.py --help
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog

import tracing
from actions.due_rows import fetch_next_look
from actions.lease import LeadershipLostError, fetch_lookback
from actions.tick import TickReport, run_look, run_tick
from celery_app.answer_reader import reading_answers
from celery_app.assembly import SchedulerParts, make_presence, prepare_scheduler
from celery_app.pinger import pinging
from celery_app.worker_start import keep_trying, refuse_memory_broker
from dispatch.clocks import notice_clock_set_back
from migrations.schema_revisions import explaining_schema
from models.database.engine import reading
from models.errors import MinutehandError, UnreachableError
from overview.installation.metrics import giving_metrics
from settings import Settings, find_collector, read_notify_socket, read_settings
from telemetry import TICKS, Event

log = structlog.get_logger()

MINUTE = timedelta(minutes=1)

#: Seconds of each minute that a tick leaves for the upkeep, however much is due: nobody
#: else rescues what was lost.
LEFT_S = 10.0

#: From a tick that left out what another session kept locked to the next one. Long
#: enough for all that is done between ticks.
LOCKED_AGAIN = timedelta(seconds=20)

#: Seconds between two looks at the lease and at what waits to be sent.
PAUSE_S = 1.0

#: Seconds that a look between ticks leaves for the upkeep before the next look.
SHARE_S = 0.1


class Scheduler(SchedulerParts):
    """One scheduler among any number; ``wake`` does all that is to be done now."""

    #: When the next tick is due. None: at the next wake.
    next_tick_at: datetime | None = None
    #: When something is due before it, at its second. None: nothing is.
    next_look_at: datetime | None = None
    #: When the last tick was; a look leaves what was due by then to the next one.
    _ticked_at: datetime | None = None

    def wake(self) -> float:
        """
        Lead if possible; tick if a minute has begun; then do the upkeep until the next.

        Returns:
            Seconds to sleep: until the next look, or until the next minute if sooner.

        Raises:
            UsageError: The schema has become one with which this version does not work.
        """
        try:
            with explaining_schema(self.engine):
                return self._wake()
        except LeadershipLostError:
            self._lose()
        except UnreachableError as error:
            log.warning(Event.DATABASE_UNREACHABLE, error=str(error))
            if self.leader.fence is None:  # its lease is not trusted any more
                self._lose()
        return PAUSE_S

    def _lose(self) -> None:
        self.leading.lose()
        self.next_tick_at = None  # if we lead again, the first wake ticks

    def _wake(self) -> float:
        if not self.leading.hold():  # step 1
            self._lose()
            return PAUSE_S
        now, read_at = self.read_clock(), self.monotonic()  # step 2
        share_s = 0.0
        if self._is_tick_due(now):
            self.tick(now)
        elif self.next_look_at is not None and now >= self.next_look_at:
            self.look(now)
            share_s = SHARE_S
        # Not for longer: a heartbeat may be due by then, or we may have to stop.
        until = min(self.monotonic() + PAUSE_S, self._find_end(now, read_at))
        if self.next_look_at is not None:
            look_at = read_at + (self.next_look_at - now).total_seconds()
            until = min(until, max(look_at, self.monotonic() + share_s))
        self.upkeep.look(until=until)  # step 7
        return max(0.0, until - self.monotonic())

    def tick(self, now: datetime) -> TickReport:
        """
        Decide, record and send everything due by *now* (aware UTC).

        Raises:
            LeadershipLostError, UnreachableError: The next tick decides what is left.
        """
        with tracing.begin("tick") as span:
            report = self._tick(now)
            span.note(due=report.due, recorded=report.recorded, sent=report.sent)
        return report

    def _tick(self, now: datetime) -> TickReport:
        started = self.monotonic()
        notice_clock_set_back(self.engine, self.leader, now=now)  # step 3
        self.next_tick_at = now.replace(second=0, microsecond=0) + MINUTE
        self._ticked_at = now
        gives_way_at = self._find_end(now, started) - LEFT_S
        try:
            self.upkeep.end_pauses(now)
            with reading(self.engine) as connection:
                lookback = fetch_lookback(connection, self.settings.lookback, now=now)
            report = run_tick(  # step 4
                now,
                engine=self.engine,
                dispatcher=self.dispatcher,  # steps 5 and 6
                lookback=lookback,
                chunk=self.settings.chunk,
                is_over=lambda: self.monotonic() >= gives_way_at,
            )
            self._plan(report)
        except MinutehandError:
            self.dispatcher.drop()
            TICKS.labels("failed").inc()
            self.next_tick_at = now
            raise
        self.upkeep.note_tick(report, took_s=self.monotonic() - started)
        for listener in self.on_tick:
            listener(report)
        return report

    def look(self, now: datetime) -> TickReport:
        """
        Do as ``tick`` between two of them, for tasks that are due at their second.

        Raises:
            LeadershipLostError, UnreachableError: The next wake looks again.
        """
        assert self._ticked_at is not None  # a first tick has planned this
        try:
            report = run_look(
                now,
                since=self._ticked_at,
                engine=self.engine,
                dispatcher=self.dispatcher,
                lookback=self.settings.lookback,
                chunk=self.settings.chunk,
            )
            self._plan(report)
        except MinutehandError:
            self.dispatcher.drop()
            raise
        return report

    def _plan(self, report: TickReport) -> None:
        """Find when the next look is; what is locked is for a tick that comes soon."""
        assert self._ticked_at is not None  # a first tick has set both
        assert self.next_tick_at is not None
        if report.locked:
            self._ticked_at = report.now
            self.next_tick_at = min(self.next_tick_at, report.now + LOCKED_AGAIN)
        with reading(self.engine) as connection:
            self.next_look_at = fetch_next_look(
                connection, since=self._ticked_at, until=self.next_tick_at
            )

    def stop(self) -> None:
        """Let a standby lead at once, if we lead."""
        self.leading.end()

    def _find_end(self, now: datetime, read_at: float) -> float:
        """Return when the minute ends, by the clock that said *read_at* at *now*."""
        assert self.next_tick_at is not None  # a first tick has set it
        return read_at + (self.next_tick_at - now).total_seconds()

    def _is_tick_due(self, now: datetime) -> bool:
        if self.next_tick_at is None or now >= self.next_tick_at:
            return True
        # The next minute is never further away than this, unless the clock was set
        # back: then the tick must not wait until the clock has caught up.
        return self.next_tick_at - now > MINUTE


def run(
    scheduler: Scheduler, stop: threading.Event, *, wait_for_lease: bool = True
) -> None:
    """
    Wake until *stop* is set, then release the lease.

    Raises:
        ConflictError: Another scheduler leads, and *wait_for_lease* is False.
    """
    log.info(Event.SCHEDULER_STARTED)
    leader, leading = scheduler.leader, scheduler.leading
    presence = make_presence(scheduler.settings, scheduler.engine)
    # Around all: a collector that hangs must not keep the lease from a standby.
    with giving_metrics(scheduler.settings, leads=lambda: leader.fence is not None):
        try:
            with (
                reading_answers(scheduler.settings),
                pinging(
                    scheduler.settings,
                    leads=lambda: leader.fence is not None,
                    on_tick=scheduler.on_tick,
                ),
            ):
                while not stop.is_set():
                    pause_s = scheduler.wake()
                    presence.keep()
                    tell_systemd("WATCHDOG=1")
                    if leader.fence is None:
                        leading.stand_by(wait=wait_for_lease)
                    else:
                        scheduler.keep_maintenance()
                    stop.wait(pause_s)
        finally:
            tell_systemd("STOPPING=1")
            scheduler.stop()
            presence.end()
            log.info(Event.SCHEDULER_STOPPED)


def _try_to_make(settings: Settings) -> Scheduler:
    tell_systemd("WATCHDOG=1")
    return Scheduler.make(settings)


def tell_systemd(state: str) -> None:
    """Tell systemd *state*, if it started us as a service of ``Type=notify``."""
    address = read_notify_socket()
    if address is None:
        return
    if address.startswith("@"):  # a name of Linux that is no file
        address = f"\0{address[1:]}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.settimeout(PAUSE_S)
        try:
            notified.sendto(state.encode(), address)
        except OSError as error:
            log.warning(Event.SYSTEMD_UNREACHABLE, error=str(error))


def serve(settings: Settings, *, wait_for_lease: bool) -> None:
    """
    Run a scheduler until SIGTERM or SIGINT.

    Raises:
        MinutehandError: It cannot start; or another one leads, or the database is away,
            and *wait_for_lease* is False.
    """
    refuse_memory_broker(settings)
    stop = threading.Event()
    # Before a database is waited for, which may hang.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    prepare_scheduler(settings)
    tell_systemd("READY=1")
    if wait_for_lease:
        scheduler = keep_trying(lambda: _try_to_make(settings), stop, PAUSE_S)
    else:
        scheduler = Scheduler.make(settings)
    if scheduler is not None:
        run(scheduler, stop, wait_for_lease=wait_for_lease)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a scheduler as ``serve`` does; return the exit code."""
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
    if arguments is None:
        os.umask(0o077)  # as in cli/main.py: what this process writes is for its user
    try:
        settings = read_settings()
        tracing.configure(find_collector("TRACES"))
        serve(settings, wait_for_lease=not options.no_wait)
    except MinutehandError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
