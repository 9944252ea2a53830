"""
Threads beside the scheduler that tell outside monitors of runs, and of the scheduler.

What there is to tell is read from the operations themselves: that they began, and how
they ended, whoever ran them. So no run and no tick does anything for it, a crash loses
nothing, and a monitor that hangs holds up nobody but itself. Only the leader tells.
That of a run which began is told before its end, and each at least once: what was told
and not yet marked when a process died is told again, under the same id.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any
from uuid import UUID

import sqlalchemy as sa
import structlog

from actions.tick import TickReport
from celery_app.answer_reader import start_looking
from models.database.engine import db_now, make_engine, reading, writing
from models.database.tables import (
    IS_REVISION,
    UNPINGED,
    breakers,
    operations,
    scheduled_action_revisions,
)
from models.errors import MinutehandError
from models.fields.addresses import PingSign, make_ping, name_monitor
from models.operation_state import OperationState
from operations.adapters.breaker import Breaker
from operations.adapters.webhooks import RealWebhooks
from operations.mail.message import Fate, Sending
from operations.mail.server_pauses import MONITOR, ServerPause
from settings import Settings
from telemetry import Event

log = structlog.get_logger()

#: For one ping, from the resolver to the head of the answer.
TIMEOUT = timedelta(seconds=10)

#: Threads that ping, and how many of them the monitors of one app may have: no app
#: waits for another's.
MOST_THREADS = 8
THREADS_OF_ONE = 3

#: Runs that one look reads.
_READ = 500

#: What no monitor has taken for so long is given up, and how often that is looked for.
GIVE_UP_AFTER = timedelta(days=1)
_TIDY_EVERY_S = 60.0

_run = operations.c


#: GETs an address; the answer repeats no more of it than the host.
Ping = Callable[[str], Sending]


@dataclass(frozen=True, slots=True)
class Unpinged:
    """
    A run of which there is something to tell; times are aware UTC.

    Args:
        pinged: 1 if its monitor knows that it began.
        address: None: the revision that it runs names no monitor.
    """

    id: UUID
    action_uid: str
    app: str
    state: str
    started_at: datetime | None
    finished_at: datetime | None
    pinged: int
    address: str | None

    @property
    def host(self) -> str:
        """Of its monitor."""
        return name_monitor(self.address or "")

    @property
    def signs(self) -> tuple[PingSign, ...]:
        """What to tell, in this order; nothing of what ended without having begun."""
        start = () if self.started_at is None or self.pinged else (PingSign.START,)
        if self.finished_at is None:
            return start
        if self.state == OperationState.FAILED:
            return (*start, PingSign.FAIL)
        if self.started_at is None:
            return ()
        is_good = self.state != OperationState.CANCELED
        return (*start, PingSign.OK if is_good else PingSign.FAIL)


def _begin_thread(work: Callable[[], None]) -> None:
    # A daemon, for which a scheduler that stops does not wait.
    threading.Thread(target=work, name="pinging", daemon=True).start()


@dataclass(slots=True)
class Pinger:
    """
    Tells monitors of runs.

    Args:
        engine: Of its own.
        ping: Sends a ping.
        leads: Whether this process leads.
        monotonic: Returns seconds that never jump.
        begin: Begins something that takes a while.
    """

    engine: sa.Engine
    ping: Ping
    leads: Callable[[], bool]
    monotonic: Callable[[], float] = time.monotonic
    begin: Callable[[Callable[[], None]], None] = _begin_thread
    #: The actions of whose runs a thread tells, with their apps.
    _busy: dict[str, str] = field(default_factory=dict)
    #: Until when actions rest whose monitors failed.
    _rests: dict[str, float] = field(default_factory=dict)
    _tidied_at: float = float("-inf")

    def look(self) -> int:
        """
        Begin to tell what there is to tell; return of how many runs.

        Raises:
            UnreachableError: The database is away.
        """
        if not self.leads():
            return 0
        now = self.monotonic()
        if now - self._tidied_at >= _TIDY_EVERY_S:
            self._tidy()
            self._tidied_at = now
        rests = self._rests.copy()
        self._rests = {uid: at for uid, at in rests.items() if at > now}
        busy = self._busy.copy()
        # Not read at all: what one app cannot be told of now must not hide the others'.
        many = Counter(busy.values()).items()
        apps = [app for app, count in many if count >= THREADS_OF_ONE]
        others = {"actions": [*self._rests, *busy], "apps": apps}
        runs: defaultdict[str, list[Unpinged]] = defaultdict(list)
        with reading(self.engine) as connection:
            for row in connection.execute(_statement(), others):
                runs[row.action_uid].append(Unpinged(*row))
        return sum(map(self._take, runs.values()))

    def _take(self, runs: Sequence[Unpinged]) -> int:
        """Let a thread tell of *runs*, of one action, if there is room for it."""
        uid, app = runs[0].action_uid, runs[0].app
        apps = [*self._busy.copy().values()]
        if len(apps) >= MOST_THREADS or apps.count(app) >= THREADS_OF_ONE:
            return 0
        self._busy[uid] = app
        self.begin(partial(self._work, uid, runs))
        return len(runs)

    def _work(self, uid: str, runs: Sequence[Unpinged]) -> None:
        try:
            pause = next(filter(None, map(self._tell, runs)), None)
            if pause is not None:
                wait_s = (pause.retry_at - pause.now).total_seconds()
                self._rests[uid] = self.monotonic() + wait_s
        except (MinutehandError, sa.exc.SQLAlchemyError) as error:
            log.warning(Event.PING_FAILED, error=str(error))  # the next look finds it
        finally:
            del self._busy[uid]

    def _tell(self, run: Unpinged) -> ServerPause | None:
        """Tell of *run*; return for how long its monitor has to be left alone."""
        breaker = Breaker(self.engine, f"{MONITOR} {run.host} of {run.action_uid}")
        error, pinged = None, run.pinged
        pause, tries = breaker.ask()
        if pause is not None:
            return pause
        for sign in run.signs if run.address else ():
            sending = self.ping(make_ping(run.address or "", sign, run.id))
            error = None if sending.outcome is Fate.SENT else sending.detail
            if error is not None and not error.startswith(run.host):
                error = f"{run.host}: {error}"
            if sending.outcome in {Fate.DEFERRED, Fate.UNREACHABLE}:
                self._mark(run, pinged, error)
                return breaker.fail(sending.detail, tried=tries)
            if tries:
                breaker.close()
                tries = False
            if sign is PingSign.START:
                pinged = 1
                self._mark(run, pinged, error)
        if run.finished_at is not None:
            self._mark(run, 2, error)
        return None

    def _mark(self, run: Unpinged, pinged: int, error: str | None) -> None:
        """Write what was told, unless the run was begun anew since it was read."""
        if error is not None:
            log.warning(Event.PING_FAILED, operation=str(run.id), error=error)
        is_same = [_run.id == run.id, _run.pinged < 2]
        if run.finished_at is not None:
            is_same.append(_run.finished_at == run.finished_at)
        told = sa.update(operations).where(*is_same)
        with writing(self.engine) as connection:
            connection.execute(told.values(pinged=pinged, ping_error=error))

    def _tidy(self) -> None:
        """Give up what is too old, and forget monitors that nobody tells anything."""
        long_ago = db_now(-GIVE_UP_AFTER)
        error = sa.func.coalesce(_run.ping_error, "nobody led in time")
        given_up = sa.update(operations).values(pinged=2, ping_error=error)
        silent = breakers.c.name.startswith(MONITOR), breakers.c.retry_at < long_ago
        with writing(self.engine) as connection:
            connection.execute(
                given_up.where(UNPINGED.of(), _run.finished_at < long_ago)
            )
            connection.execute(sa.delete(breakers).where(*silent))


@cache
def _statement() -> sa.Select[Any]:
    return (
        sa.select(
            *(_run.id, _run.action_uid, _run.app, _run.state, _run.started_at),
            *(_run.finished_at, _run.pinged),
            scheduled_action_revisions.c.document["ping"].as_string(),
        )
        .outerjoin(scheduled_action_revisions, IS_REVISION)
        .where(
            UNPINGED.of(),
            _run.action_uid.not_in(sa.bindparam("actions", expanding=True)),
            _run.app.not_in(sa.bindparam("apps", expanding=True)),
        )
        .order_by(_run.started_at, _run.id)
        .limit(_READ)
    )


class LeaderPing:
    """
    Tells a monitor that ticks are done; it raises the alarm if it hears nothing.

    Args:
        ping: Sends a ping.
        address: Of the monitor.
    """

    def __init__(self, ping: Ping, address: str) -> None:
        """Tell nothing yet."""
        self._ping = ping
        self._url = make_ping(address, PingSign.OK)
        self._ticked = threading.Event()

    def note(self, _report: TickReport) -> None:
        """Take note of a tick that was done, and return at once."""
        self._ticked.set()

    def look(self) -> int:
        """Tell of the last tick, unless it was told of; return 0."""
        if self._ticked.is_set():
            self._ticked.clear()
            sending = self._ping(self._url)
            if sending.outcome is not Fate.SENT:
                log.warning(Event.PING_FAILED, error=sending.detail)
        return 0


@contextmanager
def pinging(
    settings: Settings,
    *,
    leads: Callable[[], bool],
    on_tick: list[Callable[[TickReport], None]],
) -> Iterator[None]:
    """Tell monitors in threads while the block runs."""
    stop = threading.Event()
    engine = make_engine(
        settings.database_url, timeout=settings.database_timeout, pool_size=2
    )
    hosts = settings.webhook_allowed_hosts
    ping = RealWebhooks(secret=None, allowed_hosts=hosts, timeout=TIMEOUT).ping
    pinger = Pinger(engine, ping, leads)
    start_looking(pinger.look, stop, Event.PING_FAILED, "pings")
    if settings.leader_ping is not None:
        leader_ping = LeaderPing(ping, settings.leader_ping)
        on_tick.append(leader_ping.note)
        start_looking(leader_ping.look, stop, Event.PING_FAILED, "leader-ping")
    try:
        yield
    finally:
        stop.set()
        engine.dispose()
