"""
Metrics of work, read from the database when somebody asks for them.

They are read in the thread that answers the request, on a connection of its own, and
cached for some seconds, so they never delay a tick, however often they are asked for.
Only the leader serves them: Prometheus would add up the same figures of each scheduler.
"""

from __future__ import annotations

import threading
import time
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
from overview.doctor.checks import NEAR
from overview.doctor.examine import look
from overview.doctor.finding import Health, View, find_worst
from overview.installation import figures
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
                view = View(connection, self._settings, read_clock(connection))
                for fill in (_fill_health, _fill_queues, _fill_ends, _fill_apps):
                    if self._monotonic() > give_up_at:
                        msg = f"the metrics could not be read within {GIVE_UP_S:g} s"
                        raise UnreachableError(msg)
                    fill(view)
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


def _fill_health(view: View) -> None:
    for name in NEAR:
        worst = find_worst(look(view, [name]))
        telemetry.HEALTH.labels(name).set(_WORST_LAST.index(worst))


def _fill_queues(view: View) -> None:
    spread = figures.fetch_spread(view.connection, BOUNDS)
    for queue, is_now in view.queues.items():
        for state, count in is_now.counts.items():
            telemetry.QUEUE_DEPTH.labels(queue.value, state.value).set(count)
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


def _fill_ends(view: View) -> None:
    known = {reason.value for reason in Reason}
    telemetry.FINISHED_LATELY.labels(OperationState.SUCCEEDED.value, "").set(0)
    for state in sorted(FINAL_STATES - {OperationState.SUCCEEDED}):
        for reason in sorted(known):
            telemetry.FINISHED_LATELY.labels(state.value, reason).set(0)
    telemetry.MAILS_UNCERTAIN.set(view.uncertain)
    for (state, reason), count in figures.count_finished(view.connection).items():
        # Free text must not become a series of its own each time.
        label = reason if reason in known or not reason else OTHERS
        telemetry.FINISHED_LATELY.labels(state.value, label).inc(count)


def _fill_apps(view: View) -> None:
    named = view.settings.metrics_apps
    if not named:
        return
    if named == ALL_APPS:
        kept = small_apps.c
        living = sa.select(kept.uid).where(kept.deleted_at.is_(None))
        first = living.order_by(kept.uid).limit(MOST_APPS)
        named = tuple(view.connection.scalars(first))
    # those in *named*, and the sum of all others
    by_app: dict[str, list[figures.Backlog]] = {app: [] for app in (*named, OTHERS)}
    for each in view.backlog:
        by_app[each.app if each.app in named else OTHERS].append(each)
    for app, backlog in by_app.items():
        for queue, is_now in figures.find_queues(backlog, (), view.now).items():
            depth, oldest_s = sum(is_now.counts.values()), is_now.oldest_s or 0.0
            telemetry.APP_DEPTH.labels(app, queue.value).set(depth)
            telemetry.APP_OLDEST.labels(app, queue.value).set(max(0.0, oldest_s))
        for state in _TROUBLES:
            telemetry.APP_TROUBLES.labels(app, state).set(0)
    for trouble in view.troubles:
        app = trouble.app if trouble.app in named else OTHERS
        telemetry.APP_TROUBLES.labels(app, trouble.state).inc(trouble.count)
