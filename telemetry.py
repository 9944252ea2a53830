"""
Every log event and every metric by name, and how logs are written.

Nothing else makes up a name: ``log.info(Event.TICK_DONE, due=3)``. docs/telemetry.md
lists them for operators; tests compare the two, and look for names that nobody uses.
Imports nothing of ours but models.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Hashable, MutableMapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal, TextIO, TypeVar

import structlog
from prometheus_client import Counter, Gauge, Histogram, start_http_server
from structlog.typing import Processor

from models.errors import UsageError
from models.units import CONTROLS

LogFormat = Literal["auto", "json", "console"]


class Event(StrEnum):
    """What a log line is about; docs/telemetry.md says what each means."""

    SCHEDULER_STARTED = "scheduler_started"
    SCHEDULER_STOPPED = "scheduler_stopped"
    LEASE_ACQUIRED = "lease_acquired"
    LEASE_LOST = "lease_lost"
    STANDING_BY = "standing_by"
    LEASE_RELEASED = "lease_released"

    WEB_STARTED = "web_started"
    WEB_NOT_STARTED = "web_not_started"
    WEB_SIGNED_IN = "web_signed_in"
    WEB_SIGN_IN_REFUSED = "web_sign_in_refused"
    WEB_REQUEST_FAILED = "web_request_failed"
    WEB_REQUEST_UNSERVED = "web_request_unserved"
    TICK_DONE = "tick_done"
    SYSTEMD_UNREACHABLE = "systemd_unreachable"
    DATABASE_UNREACHABLE = "database_unreachable"
    PRESENCE_NOT_TOLD = "presence_not_told"
    WORKER_DRAINED = "worker_drained"
    WORKER_RESUMED = "worker_resumed"
    OTLP_OFF = "otlp_off"
    METRICS_NOT_READ = "metrics_not_read"
    CLOCK_SKEWED = "clock_skewed"
    CLOCK_SET_BACK = "clock_set_back"
    ZONE_CHANGED = "zone_changed"
    PAUSE_ENDED = "pause_ended"
    BULK_CHANGE_ENDED = "bulk_change_ended"
    BULK_CHANGE_FAILED = "bulk_change_failed"
    BACKFILL_ENDED = "backfill_ended"
    FLIGHT_FAILED = "flight_failed"
    LOCK_HELD = "lock_held"
    ROWS_LEFT_OUT = "rows_left_out"
    ACTION_QUARANTINED = "action_quarantined"
    SEND_FAILED = "send_failed"
    BROKER_LOST = "broker_lost"
    SCHEMA_REFUSED = "schema_refused"
    OPERATION_RESCUED = "operation_rescued"

    ACTION_RESTS = "action_rests"

    OPERATIONS_LATE = "operations_late"

    NOTICES_RECORDED = "notices_recorded"
    NOTICES_UNREADABLE = "notices_unreadable"

    OPERATION_NOT_CLAIMED = "operation_not_claimed"
    MESSAGE_NOT_OURS = "message_not_ours"
    MESSAGE_DROPPED = "message_dropped"
    CLAIM_LOST = "claim_lost"
    HEARTBEAT_FAILED = "heartbeat_failed"
    OPERATION_GIVEN_BACK = "operation_given_back"
    OPERATIONS_NOT_GIVEN_BACK = "operations_not_given_back"
    CHILD_LOST = "child_lost"
    STEP_FAILED = "step_failed"
    OPERATION_WAITS = "operation_waits"
    ANSWERS_UNREAD = "answers_unread"
    OPERATION_POSTPONED = "operation_postponed"
    BREAKER_OPENED = "breaker_opened"
    PING_FAILED = "ping_failed"
    BREAKER_CLOSED = "breaker_closed"
    OPERATION_FINISHED = "operation_finished"
    OPERATION_CANCELED = "operation_canceled"
    PROCESS_CRASHED = "process_crashed"
    OPERATION_CRASHED = "operation_crashed"


#: Buckets in seconds: from a tick with nothing due to one that takes a whole minute.
_TICK_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
#: Buckets in seconds: sent at once, within its minute, made up for after downtime.
_LAG_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600)

_Metric = TypeVar("_Metric", Counter, Gauge, Histogram)

#: All metrics, by the names under which Prometheus sees them.
METRICS: dict[str, Counter | Gauge | Histogram] = {}

#: Of these, what the leader reads from the database each time it is asked.
METRICS_OF_WORK: dict[str, Gauge] = {}


def _declare(
    kind: type[_Metric],
    name: str,
    documentation: str,
    label: str | None = None,
    values: Sequence[str] = (),
    **options: Any,
) -> _Metric:
    """Declare a metric of this process; *values* are those that *label* has."""
    labels = () if label is None else (label,)
    metric = kind(f"minutehand_{name}", documentation, labels, **options)
    METRICS[f"minutehand_{name}"] = metric
    # Every series exists from the start, so an alert sees even the first increment.
    for value in values:
        metric.labels(value)
    return metric


TICKS = _declare(
    Counter, "ticks_total", "Ticks by result.", "result", ("done", "cut", "failed")
)
TICK_SECONDS = _declare(
    Histogram, "tick_seconds", "How long ticks take.", buckets=_TICK_BUCKETS
)
LAST_TICK = _declare(
    Gauge,
    "last_tick_timestamp_seconds",
    "Time of the last complete tick, by the database's clock.",
)
OCCURRENCES_RECORDED = _declare(
    Counter,
    "occurrences_recorded_total",
    "Decisions recorded, by decision: dispatched, skipped or missed.",
    *("decision", ("dispatched", "skipped", "missed")),
)
ACTIONS_QUARANTINED = _declare(
    Counter, "actions_quarantined_total", "Actions that could not be read."
)
MESSAGES_SENT = _declare(
    Counter,
    "messages_sent_total",
    "Messages the broker took, by queue.",
    *("queue", ("quick", "heavy", "tasks", "celery")),
)
SEND_ERRORS = _declare(
    Counter, "send_errors_total", "Attempts to send that the broker did not take."
)
SEND_LAG = _declare(
    Histogram,
    "send_lag_seconds",
    "From the moment an operation was due to its message being sent.",
    buckets=_LAG_BUCKETS,
)
IS_LEADER = _declare(Gauge, "is_leader", "1 while this process leads, else 0.")
CLOCK_SKEW = _declare(
    Gauge, "clock_skew_seconds", "Host clock minus database clock at the last tick."
)
OPERATIONS_RESCUED = _declare(
    Counter,
    "operations_rescued_total",
    "Lost operations found again, by outcome: pending (tried again) or failed.",
    *("outcome", ("pending", "failed")),
)
OPERATIONS_FINISHED = _declare(
    Counter,
    "operations_finished_total",
    "Operations that reached a final state in this process (minutehand up).",
    *("state", ("succeeded", "failed", "canceled", "skipped", "missed")),
)


def _work(name: str, documentation: str, *labels: str) -> Gauge:
    """Declare a metric that overview/installation/metrics.py reads."""
    name = f"minutehand_{name}"
    gauge = Gauge(name, documentation, labels, registry=None)
    METRICS[name] = METRICS_OF_WORK[name] = gauge
    return gauge


WORK_READ = _work(
    "work_read", "1 if the metrics of work could be read from the database, else 0."
)
QUEUE_DEPTH = _work("queue_depth", "Operations that are not final.", "queue", "state")
QUEUE_OLDEST = _work(
    "queue_oldest_waiting_seconds",
    "Age of the oldest operation that is due and not taken by a worker; 0: none.",
    "queue",
)
QUEUE_WORKERS = _work(
    "queue_workers", "Workers that are alive and take from the queue.", "queue"
)
QUEUE_SLOTS = _work(
    "queue_slots", "Operations that these workers run at a time.", "queue"
)
FINISHED_LATELY = _work(
    "operations_finished_last_hour",
    "Final operations that were recorded within the last hour; failed and missed "
    "ones, if they became so within the last hour, whenever they were recorded.",
    *("state", "reason"),
)
START_LAG = _work(
    "start_lag_last_hour",
    "How many of the operations recorded within the last hour began at most so many "
    "seconds after they were recorded.",
    *("queue", "le"),
)
RUN_TIME = _work(
    "run_time_last_hour",
    "How many of the operations recorded within the last hour have ended and took at "
    "most so many seconds.",
    *("queue", "le"),
)
HEALTH = _work(
    "health",
    "What a look of doctor found: 0 ok, 1 look, 2 bad; of those that ask the "
    "database alone.",
    "look",
)
MAILS_UNCERTAIN = _work("mails_uncertain", "Mails that may or may not have been sent.")
APP_DEPTH = _work(
    "app_queue_depth",
    "Operations that are not final, for each app in MINUTEHAND_METRICS_APPS.",
    *("app", "queue"),
)
APP_OLDEST = _work(
    "app_oldest_waiting_seconds",
    "As minutehand_queue_oldest_waiting_seconds, for each of those apps.",
    *("app", "queue"),
)
APP_TROUBLES = _work(
    "app_troubles_last_hour",
    "Operations that failed or were missed, and mails that became uncertain, within "
    "the last hour, for each of those apps.",
    *("app", "state"),
)

#: Seconds after which a repeated line is logged again.
TOLD_AGAIN_S = 60.0

#: What is tried about once a second, and may keep failing for the same cause.
_REPEATING = (
    *(Event.SYSTEMD_UNREACHABLE, Event.SCHEMA_REFUSED, Event.DATABASE_UNREACHABLE),
    *(Event.CLOCK_SKEWED, Event.SEND_FAILED, Event.BROKER_LOST),
    *(Event.HEARTBEAT_FAILED, Event.PRESENCE_NOT_TOLD, Event.METRICS_NOT_READ),
)

#: Libraries that log every connection, migration and message at "info", which is not
#: news. Of each task, one line of ours says how its operation ended.
_CHATTY = (
    "uvicorn.error",
    *("alembic", "amqp", "fontTools", "httpcore2", "httpx2", "kombu", "mcp"),
    "celery.worker.strategy",
)

#: Warn of each message that we put back, with a trace, where we say why once a minute;
#: and of each attempt to reach a collector.
_WORDY = ("celery.app.trace", "opentelemetry.exporter")


def configure_logging(
    *,
    level: str = "info",
    log_format: LogFormat = "auto",
    color: bool = True,
    stream: TextIO | None = None,
) -> None:
    """
    Write logs, ours and those of libraries, in one form to one stream.

    Args:
        level: Name of the lowest level that is written.
        log_format: "json" is one object a line; "console" is for people; "auto" is
            the latter if *stream* is a terminal.
        color: False: no colours even on a terminal.
        stream: None means standard error; standard output is for data.
    """
    target = sys.stderr if stream is None else stream
    repeats = Repeats()
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderers = _make_renderers(log_format, color=color, on_terminal=target.isatty())
    # Only libraries go through logging: it takes twice as long, and a worker logs a
    # line for each operation.
    handler = logging.StreamHandler(target)
    handler.addFilter(repeats)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *renderers,
            ],
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for chatty in _CHATTY:
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.root.level))
    for wordy in _WORDY:
        logging.getLogger(wordy).setLevel(max(logging.ERROR, logging.root.level))

    lines = _Lines(target)
    structlog.configure(
        processors=[repeats, *shared, *renderers],
        logger_factory=lambda *_arguments: lines,
        wrapper_class=structlog.make_filtering_bound_logger(logging.root.level),
    )


class Repeats:
    """
    Lets a repeated line through once a minute, with how often it came meanwhile.

    The first is let through at once: it is news. There is no lock, because a process
    may be forked while another thread holds one; at worst a line is logged twice.

    Args:
        monotonic: Returns seconds that never jump.
    """

    #: Lines that are remembered; the ones logged longest ago are forgotten first.
    most = 200

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Remember nothing yet."""
        self._monotonic = monotonic
        self._told: dict[Hashable, tuple[float, int]] = {}

    def count(self, line: Hashable) -> int | None:
        """Return how often *line* came without being logged; None: not now either."""
        now = self._monotonic()
        told_at, untold = self._told.get(line, (float("-inf"), 0))
        if now - told_at < TOLD_AGAIN_S:
            self._told[line] = told_at, untold + 1
            return None
        self._told.pop(line, None)
        self._told[line] = now, 0
        while len(self._told) > self.most:
            self._told.pop(next(iter(self._told)), None)
        return untold

    def __call__(
        self, _logger: object, _method: str, line: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """
        Drop *line* if it was logged within the last minute; a processor of structlog.

        Raises:
            DropEvent: If it was.
        """
        if line["event"] not in _REPEATING:
            return line
        # A different cause is news, too.
        untold = self.count((line["event"], str(line.get("error"))))
        if untold is None:
            raise structlog.DropEvent
        if untold:
            line["repeated"] = untold
        return line

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether to log a library's *record*; a filter of logging."""
        is_of_collector = record.name.startswith("opentelemetry.")
        # Celery adds a count of its attempts to connect after the broker and the cause.
        said = record.args[:2] if isinstance(record.args, tuple) else ()
        texts = [each for each in (record.msg, *said[:1]) if isinstance(each, str)]
        is_of_broker = any(each.startswith("consumer: ") for each in texts)
        if not (is_of_collector or is_of_broker):
            return True
        untold = self.count((record.name, record.msg, *map(str, said)))
        if untold:
            record.repeated = untold
        return untold is not None


class _Lines:
    """
    Writes rendered lines to *stream*, one call a line, or drops them.

    As with logging, a full disk under the log stops nothing. There is no lock, because
    a process may be forked while another thread holds one.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def _write(self, line: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(f"{line}\n")
            self._stream.flush()

    debug = info = warning = error = critical = _write


def is_json(log_format: LogFormat, *, on_terminal: bool) -> bool:
    """Tell whether lines are JSON in *log_format*."""
    return log_format == "json" or (log_format == "auto" and not on_terminal)


def _make_renderers(
    log_format: LogFormat, *, color: bool, on_terminal: bool
) -> list[Processor]:
    first: list[Processor] = [_write_instants, structlog.processors.format_exc_info]
    if is_json(log_format, on_terminal=on_terminal):
        return [*first, structlog.processors.JSONRenderer(default=str)]
    for_people = structlog.dev.ConsoleRenderer(
        colors=color and on_terminal,
        # The other formatters print local variables, and with them passwords.
        exception_formatter=structlog.dev.plain_traceback,
    )
    return [*first, _drop_controls, for_people]


def _write_instants(
    _logger: object, _method: str, line: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Write instants as all of our JSON does."""
    for key, value in line.items():
        if isinstance(value, datetime):
            line[key] = value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return line


def _drop_controls(
    _logger: object, _method: str, line: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Leave a terminal to us alone; what is no text is shown with escapes."""
    for key, value in line.items():
        if isinstance(value, str):
            line[key] = CONTROLS.sub("", value)
    return line


def serve_metrics(address: str, port: int) -> None:
    """
    Serve the metrics on *port* of *address*, in threads of their own.

    Raises:
        UsageError: It cannot be listened on.
    """
    try:
        start_http_server(port, address)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {address}:{port}: {error.strerror}. Set"
            " MINUTEHAND_METRICS_PORT (or MINUTEHAND_METRICS_ADDRESS) to another one."
        ) from None
