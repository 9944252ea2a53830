"""
Every log event and every metric by name, and how logs are written.

Nothing else makes up a name: ``log.info(Event.TICK_DONE, due=3)``. docs/telemetry.md
lists them for operators; tests compare the two, and look for names that nobody uses.
Imports no other module of ours.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Hashable, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal, Self, TextIO

import structlog
from prometheus_client import Counter, Gauge, Histogram, start_http_server
from structlog.typing import Processor

LogFormat = Literal["auto", "json", "console"]


class Event(StrEnum):
    """What a log line is about; ``meaning`` says it to an operator."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Self:
        """Be the string *name*, with *meaning* beside it."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.meaning = meaning
        return member

    SCHEDULER_STARTED = "scheduler_started", "A scheduler runs; it may not lead yet."
    SCHEDULER_STOPPED = "scheduler_stopped", "A scheduler ended in good order."
    LEASE_ACQUIRED = "lease_acquired", "This scheduler leads from now on."
    LEASE_LOST = "lease_lost", "This scheduler no longer leads; another may."
    STANDING_BY = (
        "standing_by",
        "Another scheduler leads; logged once for each leader.",
    )
    LEASE_RELEASED = "lease_released", "This scheduler gave up its lease as it stopped."

    WEB_STARTED = "web_started", "The web process answers at an address."
    WEB_NOT_STARTED = (
        "web_not_started",
        "The HTTP API cannot listen on its address; everything else goes on.",
    )
    WEB_SIGNED_IN = (
        "web_signed_in",
        "Somebody signed in at the pages, by a key, a link or the company's provider.",
    )
    WEB_SIGN_IN_REFUSED = (
        "web_sign_in_refused",
        "Somebody came back from the company's provider and was not let in; why.",
    )
    WEB_REQUEST_FAILED = (
        "web_request_failed",
        "A request met a defect of ours; its caller was told only the request's id.",
    )
    WEB_REQUEST_UNSERVED = (
        "web_request_unserved",
        "A request was answered with 503: the database was away, or nothing was free.",
    )
    TICK_DONE = "tick_done", "A tick recorded what was due; the counts say how much."
    SYSTEMD_UNREACHABLE = (
        "systemd_unreachable",
        "systemd did not take the sign of life that it asks for, and may restart us.",
    )
    DATABASE_UNREACHABLE = (
        "database_unreachable",
        "The database did not answer in time, or accepts no writes; tried again soon.",
    )
    PRESENCE_NOT_TOLD = (
        "presence_not_told",
        "A process could not record that it is alive; it goes on working.",
    )
    WORKER_DRAINED = (
        "worker_drained",
        "A worker takes nothing new, as it was asked; it finishes what it runs.",
    )
    WORKER_RESUMED = (
        "worker_resumed",
        "A drained worker takes operations again, as it was asked.",
    )
    OTLP_OFF = (
        "otlp_off",
        "A collector of OpenTelemetry is named, but nothing is sent to it; see why.",
    )
    METRICS_NOT_READ = (
        "metrics_not_read",
        "The metrics of work could not be read from the database; tried again later.",
    )
    CLOCK_SKEWED = (
        "clock_skewed",
        "The clocks of host and database differ by more than two seconds.",
    )
    CLOCK_SET_BACK = (
        "clock_set_back",
        "The database clock is earlier than at the last tick; due times are redone.",
    )
    ZONE_CHANGED = (
        "zone_changed",
        "A zone in use has other clocks; due times were redone.",
    )
    PAUSE_ENDED = "pause_ended", "Pauses ended; the count says how many actions go on."
    BULK_CHANGE_ENDED = "bulk_change_ended", "A bulk change has been done."
    BULK_CHANGE_FAILED = (
        "bulk_change_failed",
        "A bulk change met an error that would come again, and ended.",
    )
    BACKFILL_ENDED = "backfill_ended", "A backfill is over; its operations are final."
    FLIGHT_FAILED = (
        "flight_failed",
        "A chunk of a tick could not be recorded; it is decided anew, part by part.",
    )
    ACTION_QUARANTINED = (
        "action_quarantined",
        "An action could not be read and is left out until it is edited.",
    )
    SEND_FAILED = (
        "send_failed",
        "The broker refused messages or did not answer; they are sent again.",
    )
    SCHEMA_REFUSED = (
        "schema_refused",
        "A worker stopped: its version does not work with the database's schema.",
    )
    OPERATION_RESCUED = (
        "operation_rescued",
        "An operation whose worker or message was lost is tried again, or given up.",
    )

    ACTION_RESTS = (
        "action_rests",
        "An action was paused, as it asks, after so many failures in a row.",
    )

    OPERATIONS_LATE = (
        "operations_late",
        "Operations are late, or take longer than their actions expect.",
    )

    NOTICES_RECORDED = (
        "notices_recorded",
        "Notices will be sent about operations that failed, or that work again.",
    )
    NOTICES_UNREADABLE = (
        "notices_unreadable",
        "A small app's settings for notices could not be read.",
    )

    OPERATION_NOT_CLAIMED = (
        "operation_not_claimed",
        "A message was dropped: another worker has its operation, or had it.",
    )
    MESSAGE_NOT_OURS = (
        "message_not_ours",
        "A worker put back, put aside or refused what is not for it; see the hint.",
    )
    MESSAGE_DROPPED = (
        "message_dropped",
        "What is no answer, or no command, was deleted.",
    )
    CLAIM_LOST = "claim_lost", "A worker's lease ended while it worked; it stopped."
    HEARTBEAT_FAILED = "heartbeat_failed", "A worker could not renew its lease."
    OPERATION_GIVEN_BACK = (
        "operation_given_back",
        "A worker stopped during an operation; another will go on with it.",
    )
    OPERATIONS_NOT_GIVEN_BACK = (
        "operations_not_given_back",
        "A worker stopped without the database; others go on when its leases end.",
    )
    CHILD_LOST = (
        "child_lost",
        "A process of a worker was killed; the worker settled what it was running.",
    )
    STEP_FAILED = (
        "step_failed",
        "A step failed: why, and whether the operation will be tried again.",
    )
    OPERATION_WAITS = (
        "operation_waits",
        "An operation waits for the end of a task that it sent; no worker is held.",
    )
    ANSWERS_UNBOUNDED = (
        "answers_unbounded",
        "A Redis forbids EVAL, so answers of tasks are read whole, however large.",
    )
    ANSWERS_UNREAD = (
        "answers_unread",
        "Answers of tasks cannot be read from a broker; they stay there.",
    )
    OPERATION_POSTPONED = (
        "operation_postponed",
        "An operation waits for a server it needs; this does not count as an attempt.",
    )
    BREAKER_OPENED = (
        "breaker_opened",
        "A server fails; operations that need it wait, and one at a time tries.",
    )
    PING_FAILED = (
        "ping_failed",
        "A monitor took no ping, or the database is away; runs go on all the same.",
    )
    BREAKER_CLOSED = "breaker_closed", "A server that failed works again."
    OPERATION_FINISHED = (
        "operation_finished",
        "A worker is done with an operation; its state says how it went.",
    )
    OPERATION_CANCELED = "operation_canceled", "An operation was stopped on request."
    PROCESS_CRASHED = (
        "process_crashed",
        "An unexpected error ended a process or thread; please report it.",
    )
    OPERATION_CRASHED = (
        "operation_crashed",
        "An unexpected error ended an operation; please report the traceback.",
    )


#: Buckets in seconds: from a tick with nothing due to one that takes a whole minute.
_TICK_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
#: Buckets in seconds: sent at once, within its minute, made up for after downtime.
_LAG_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600)

TICKS = Counter("minutehand_ticks_total", "Ticks by result.", ["result"])
TICK_SECONDS = Histogram(
    "minutehand_tick_seconds", "How long ticks take.", buckets=_TICK_BUCKETS
)
LAST_TICK = Gauge(
    "minutehand_last_tick_timestamp_seconds",
    "Time of the last complete tick; alert if it is more than 90 seconds ago.",
)
OCCURRENCES_RECORDED = Counter(
    "minutehand_occurrences_recorded_total",
    "Decisions recorded, by decision: dispatched, skipped or missed.",
    ["decision"],
)
ACTIONS_QUARANTINED = Counter(
    "minutehand_actions_quarantined_total", "Actions that could not be read."
)
MESSAGES_SENT = Counter(
    "minutehand_messages_sent_total", "Messages the broker took, by queue.", ["queue"]
)
SEND_ERRORS = Counter(
    "minutehand_send_errors_total", "Attempts to send that the broker did not take."
)
SEND_LAG = Histogram(
    "minutehand_send_lag_seconds",
    "From the moment an operation was due to its message being sent.",
    buckets=_LAG_BUCKETS,
)
IS_LEADER = Gauge("minutehand_is_leader", "1 while this process leads, else 0.")
CLOCK_SKEW = Gauge(
    "minutehand_clock_skew_seconds",
    "Host clock minus database clock at the last tick.",
)
OPERATIONS_RESCUED = Counter(
    "minutehand_operations_rescued_total",
    "Lost operations found again, by outcome: pending (tried again) or failed.",
    ["outcome"],
)
OPERATIONS_FINISHED = Counter(
    "minutehand_operations_finished_total",
    "Operations that reached a final state in this process (minutehand up).",
    ["state"],
)

# Every series exists from the start, so that an alert sees even the first increment.
for _result in ("done", "cut", "failed"):
    TICKS.labels(_result)
for _decision in ("dispatched", "skipped", "missed"):
    OCCURRENCES_RECORDED.labels(_decision)
for _queue in ("quick", "heavy", "tasks", "celery"):
    MESSAGES_SENT.labels(_queue)
for _outcome in ("pending", "failed"):
    OPERATIONS_RESCUED.labels(_outcome)
for _state in ("succeeded", "failed", "canceled", "skipped", "missed"):
    OPERATIONS_FINISHED.labels(_state)


def _work(name: str, documentation: str, *labels: str) -> Gauge:
    """Declare a metric that overview/installation/metrics.py reads."""
    return Gauge(f"minutehand_{name}", documentation, labels, registry=None)


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

#: The metrics that the leader reads from the database each time it is asked.
METRICS_OF_WORK: dict[str, Gauge] = {
    "minutehand_work_read": WORK_READ,
    "minutehand_health": HEALTH,
    "minutehand_queue_depth": QUEUE_DEPTH,
    "minutehand_queue_oldest_waiting_seconds": QUEUE_OLDEST,
    "minutehand_queue_workers": QUEUE_WORKERS,
    "minutehand_queue_slots": QUEUE_SLOTS,
    "minutehand_operations_finished_last_hour": FINISHED_LATELY,
    "minutehand_start_lag_last_hour": START_LAG,
    "minutehand_run_time_last_hour": RUN_TIME,
    "minutehand_mails_uncertain": MAILS_UNCERTAIN,
    "minutehand_app_queue_depth": APP_DEPTH,
    "minutehand_app_oldest_waiting_seconds": APP_OLDEST,
    "minutehand_app_troubles_last_hour": APP_TROUBLES,
}

#: All metrics, by the names under which Prometheus sees them.
METRICS: dict[str, Counter | Gauge | Histogram] = {
    **METRICS_OF_WORK,
    "minutehand_ticks_total": TICKS,
    "minutehand_tick_seconds": TICK_SECONDS,
    "minutehand_last_tick_timestamp_seconds": LAST_TICK,
    "minutehand_occurrences_recorded_total": OCCURRENCES_RECORDED,
    "minutehand_actions_quarantined_total": ACTIONS_QUARANTINED,
    "minutehand_messages_sent_total": MESSAGES_SENT,
    "minutehand_send_errors_total": SEND_ERRORS,
    "minutehand_send_lag_seconds": SEND_LAG,
    "minutehand_is_leader": IS_LEADER,
    "minutehand_clock_skew_seconds": CLOCK_SKEW,
    "minutehand_operations_rescued_total": OPERATIONS_RESCUED,
    "minutehand_operations_finished_total": OPERATIONS_FINISHED,
}


#: Seconds after which a repeated line is logged again.
TOLD_AGAIN_S = 60.0

#: What is tried about once a second, and may keep failing for the same cause.
_REPEATING = frozenset(
    {
        Event.SYSTEMD_UNREACHABLE,
        Event.SCHEMA_REFUSED,
        Event.DATABASE_UNREACHABLE,
        Event.CLOCK_SKEWED,
        Event.SEND_FAILED,
        Event.HEARTBEAT_FAILED,
        Event.PRESENCE_NOT_TOLD,
        Event.METRICS_NOT_READ,
    }
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
        if not (is_of_collector or str(record.msg).startswith("consumer: ")):
            return True
        said = record.args[:2] if isinstance(record.args, tuple) else ()
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
    if is_json(log_format, on_terminal=on_terminal):
        return [
            _write_instants,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ]
    return [
        _write_instants,
        structlog.dev.ConsoleRenderer(
            colors=color and on_terminal,
            # The other formatters print local variables, and with them passwords.
            exception_formatter=structlog.dev.plain_traceback,
        ),
    ]


def _write_instants(
    _logger: object, _method: str, line: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Write instants as all of our JSON does."""
    for key, value in line.items():
        if isinstance(value, datetime):
            line[key] = value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return line


def serve_metrics(address: str, port: int) -> None:
    """Serve the metrics on *port* of *address*, in threads of their own."""
    start_http_server(port, address)
