"""
Metrics of work, read from the database when somebody asks for them.

They are read in the thread that answers the request, on a connection of its own, and
cached for some seconds, so they never delay a tick, however often they are asked for.
Only the leader serves them: Prometheus would add up the same figures of each scheduler.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
import structlog
from prometheus_client import REGISTRY
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import telemetry
import tracing
from models.database.engine import make_engine, read_clock, reading
from models.database.tables import small_apps
from models.errors import MinutehandError, UnreachableError
from models.operation_state import FINAL_STATES, OperationState, Queue, Reason
from operations.fleet.processes import fetch_processes
from overview.doctor.checks import NEAR
from overview.doctor.examine import look
from overview.doctor.finding import Health, View, find_worst
from overview.installation import figures
from overview.installation.queues import LIVE_IN_ORDER
from settings import Settings, find_collector
from telemetry import Event

log = structlog.get_logger()

#: How long figures are cached.
KEPT_S = 10.0

#: Deadline of each database call. Prometheus waits ten seconds for all, by default.
DEADLINE = timedelta(seconds=2)

#: No further query is begun after this long.
GIVE_UP_S = 5.0

#: Upper bounds of the buckets of start lag and run time, in seconds.
BOUNDS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 7200)

#: The most apps with metrics of their own if "all" is set: each has dozens of series.
MOST_APPS = 200

ALL_APPS = ("all",)
OTHERS = "other"

#: States of trouble; an app has a series for each of them from the start.
_TROUBLES = ("failed", "missed", "uncertain")

_WORST_LAST = (Health.GOOD, Health.DOUBTFUL, Health.BAD)

#: The gauges are those of the process, which may serve them in two places.
_READING = threading.Lock()


class WorkMetrics(Collector):
    """
    Serves the metrics of work while this process leads.

    Args:
        leads: Returns whether this process leads; called from any thread.
        monotonic: A clock, in seconds.
        deadline: For each statement, unless the settings ask for a shorter one.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        leads: Callable[[], bool],
        monotonic: Callable[[], float] = time.monotonic,
        deadline: timedelta = DEADLINE,
    ) -> None:
        """Connect to nothing yet."""
        self._settings = settings
        self._apps = settings.metrics_apps
        self._engine = make_engine(
            settings.database_url,
            timeout=min(deadline, settings.database_timeout),
            pool_size=1,
        )
        self._leads = leads
        self._monotonic = monotonic
        self._known: Sequence[Metric] = ()
        self._read_at = float("-inf")

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics without values; the database is not read."""
        for gauge in telemetry.METRICS_OF_WORK.values():
            yield from gauge.describe()

    def collect(self) -> Iterator[Metric]:
        """Yield the cached metrics, read again if too old; nothing from a standby."""
        if not self._leads():
            return
        # While another thread reads, callers get the cached metrics.
        if _READING.acquire(blocking=not self._known):
            try:
                if self._monotonic() - self._read_at >= KEPT_S:
                    self._known = self._read()
                    self._read_at = self._monotonic()
            finally:
                _READING.release()
        yield from self._known

    def close(self) -> None:
        """Close the connection."""
        self._engine.dispose()

    def _read(self) -> list[Metric]:
        give_up_at = self._monotonic() + GIVE_UP_S
        for gauge in telemetry.METRICS_OF_WORK.values():
            gauge.clear()
        try:
            with reading(self._engine) as connection:
                fills = self._fill_health, _fill_queues, _fill_ends, self._fill_apps
                for fill in fills:
                    if self._monotonic() > give_up_at:
                        msg = f"the metrics could not be read within {GIVE_UP_S:g} s"
                        raise UnreachableError(msg)
                    fill(connection)
        except (MinutehandError, sa.exc.SQLAlchemyError) as error:
            text = str(getattr(error, "orig", None) or error)
            log.warning(Event.METRICS_NOT_READ, error=text)
            telemetry.WORK_READ.set(0)
            return list(telemetry.WORK_READ.collect())
        telemetry.WORK_READ.set(1)
        return [
            metric
            for gauge in telemetry.METRICS_OF_WORK.values()
            for metric in gauge.collect()
        ]

    def _fill_health(self, connection: sa.Connection) -> None:
        view = View(connection, self._settings, read_clock(connection))
        for name in NEAR:
            worst = find_worst(look(view, [name]))
            telemetry.HEALTH.labels(name).set(_WORST_LAST.index(worst))

    def _fill_apps(self, connection: sa.Connection) -> None:
        if not self._apps:
            return
        named = self._apps
        if named == ALL_APPS:
            kept = small_apps.c
            living = sa.select(kept.uid).where(kept.deleted_at.is_(None))
            first = living.order_by(kept.uid).limit(MOST_APPS)
            named = tuple(connection.scalars(first))
        # those in *named*, and the sum of all others
        now = read_clock(connection)
        by_app: dict[str, list[figures.Backlog]] = defaultdict(list)
        for each in figures.fetch_backlog(connection, now=now):
            by_app[each.app if each.app in named else OTHERS].append(each)
        for app in sorted({*named, OTHERS}):
            for queue in Queue:
                of_queue = [each for each in by_app[app] if each.queue is queue]
                count = sum(each.count for each in of_queue)
                telemetry.APP_DEPTH.labels(app, queue.value).set(count)
                age_s = figures.find_age_s(now, figures.find_oldest(of_queue)) or 0.0
                telemetry.APP_OLDEST.labels(app, queue.value).set(max(0.0, age_s))
            for state in _TROUBLES:
                telemetry.APP_TROUBLES.labels(app, state).set(0)
        for trouble in figures.fetch_troubles(connection):
            app = trouble.app if trouble.app in named else OTHERS
            telemetry.APP_TROUBLES.labels(app, trouble.state).inc(trouble.count)


@contextmanager
def giving_metrics(settings: Settings, *, leads: Callable[[], bool]) -> Iterator[None]:
    """
    Give the metrics of work with those of this process, if it gives any.

    Prometheus asks for them; to a collector of OpenTelemetry they are sent.
    """
    protocol = find_collector("METRICS")
    if settings.metrics_port is None and protocol is None:
        yield
        return
    metrics = WorkMetrics(settings, leads=leads)
    REGISTRY.register(metrics)
    sending = tracing.try_otlp(protocol, _send_by_otlp)
    try:
        yield
    finally:
        if sending is not None:
            sending.shutdown(1000 * tracing.FLUSH_S)
        REGISTRY.unregister(metrics)
        metrics.close()


def _send_by_otlp() -> Any:
    from overview.installation.otlp import start_sending  # noqa: PLC0415 - of an extra

    return start_sending()


def _fill_queues(connection: sa.Connection) -> None:
    now = read_clock(connection)
    backlog = figures.fetch_backlog(connection, now=now)
    seen = fetch_processes(connection)
    spread = figures.fetch_spread(connection, BOUNDS)
    for queue in Queue:
        of_queue = [each for each in backlog if each.queue is queue]
        for state in LIVE_IN_ORDER:
            count = sum(each.count for each in of_queue if each.state is state)
            telemetry.QUEUE_DEPTH.labels(queue.value, state.value).set(count)
        is_now = figures.find_queue_now(queue, of_queue, seen, now)
        telemetry.QUEUE_OLDEST.labels(queue.value).set(max(0.0, is_now.oldest_s or 0.0))
        if queue is not Queue.TASKS:  # which a scheduler sends, and no worker takes
            telemetry.QUEUE_WORKERS.labels(queue.value).set(is_now.workers)
            telemetry.QUEUE_SLOTS.labels(queue.value).set(is_now.slots)
        nothing = (0,) * (len(BOUNDS) + 1)
        found = spread.get(queue, figures.Spread(nothing, nothing))
        for gauge, counts in (
            (telemetry.START_LAG, found.start_lag),
            (telemetry.RUN_TIME, found.run_time),
        ):
            for bound, count in zip((*BOUNDS, "+Inf"), counts, strict=True):
                gauge.labels(queue.value, f"{bound}").set(count)


def _fill_ends(connection: sa.Connection) -> None:
    known = {reason.value for reason in Reason}
    telemetry.FINISHED_LATELY.labels(OperationState.SUCCEEDED.value, "").set(0)
    for state in sorted(FINAL_STATES - {OperationState.SUCCEEDED}):
        for reason in sorted(known):
            telemetry.FINISHED_LATELY.labels(state.value, reason).set(0)
    telemetry.MAILS_UNCERTAIN.set(figures.count_uncertain(connection))
    for (state, reason), count in figures.count_finished(connection).items():
        # Free text must not become a series of its own each time.
        label = reason if reason in known or not reason else OTHERS
        telemetry.FINISHED_LATELY.labels(state.value, label).inc(count)
