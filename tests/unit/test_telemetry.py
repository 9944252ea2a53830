"""Names of log events and metrics, and the form in which logs are written."""

from __future__ import annotations

import ast
import errno
import io
import json
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args
from uuid import UUID

import pytest
import structlog

from telemetry import METRICS, Event, LogFormat, Repeats, configure_logging
from tests.scheduling import Clock

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "telemetry.md"
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
PASSWORD = "hunter2"
EACH_FORMAT = pytest.mark.parametrize("log_format", get_args(LogFormat))

PACKAGES = [path.parent for path in ROOT.glob("*/__init__.py")]
SOURCES = sorted(
    path
    for top in (*ROOT.glob("*.py"), *PACKAGES)
    if top.name != "telemetry.py"
    for path in ([top] if top.is_file() else top.rglob("*.py"))
)


def find_log_calls(path: Path) -> Iterator[tuple[ast.Call, bool]]:
    """Find ``log.info(...)`` and the like; tell whether each takes an event."""
    text = path.read_text()
    if not re.search(rf"\.({'|'.join(LEVELS)})\(", text):
        return
    nodes = [*ast.walk(ast.parse(text))]
    given = {
        each.arg
        for each in nodes
        if isinstance(each, ast.arg)
        and isinstance(each.annotation, ast.Name)
        and each.annotation.id == "Event"
    }
    for node in nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in LEVELS
            and "log" in ast.unparse(node.func.value).lower()
        ):
            event = ast.unparse(node.args[0]) if node.args else ""
            yield node, event in given or bool(re.match(r"Event\.[A-Z_]+$", event))


def fail_with(password: str) -> None:
    """Raise while *password* is in a variable."""
    raise ValueError(len(password))


def test_every_log_call_takes_a_declared_event() -> None:
    """Nobody makes up a name: the first argument is a member of Event, or given one."""
    calls = [(path, *call) for path in SOURCES for call in find_log_calls(path)]
    strays = [
        f"{path.relative_to(ROOT)}:{call.lineno}: {ast.unparse(call)}"
        for path, call, is_declared in calls
        if not is_declared
    ]

    assert calls
    assert strays == []


def test_every_event_is_used() -> None:
    """An operator who greps for a documented event is not waiting in vain."""
    used = set(re.findall(r"\bEvent\.([A-Z_]+)", "".join(map(Path.read_text, SOURCES))))

    assert {event.name for event in Event} == used


def test_every_metric_is_used() -> None:
    """A documented metric is counted somewhere."""
    import telemetry  # noqa: PLC0415 - its names, not its values

    names = {
        name for name, value in vars(telemetry).items() if value in METRICS.values()
    }
    words = set(re.findall(r"\w+", "".join(map(Path.read_text, SOURCES))))

    assert len(METRICS) == len(names)
    assert names - words == set()


def test_docs_list_every_event_with_its_meaning() -> None:
    """docs/telemetry.md has all events of the code, and says what each means."""
    section = DOCS.read_text().partition("## Metrics")[0]
    documented = re.findall(r"^\| `(\w+)` \| (\w.*) \|$", section, re.MULTILINE)

    assert sorted(Event) == sorted(name for name, _meaning in documented)


def test_docs_list_every_metric_with_its_meaning() -> None:
    """docs/telemetry.md has the same table of metrics as the code."""
    section = DOCS.read_text().partition("## Metrics")[2]
    rows = re.findall(
        r"^\| `(minutehand_\w+)` \| (\w+) \| (.*) \| (.*) \|$", section, re.MULTILINE
    )
    documented = {
        name: (kind, re.findall(r"`(\w+)`", labels), meaning)
        for name, kind, labels, meaning in rows
    }
    declared = {
        name: (metric._type, list(metric._labelnames), metric._documentation)
        for name, metric in METRICS.items()
    }

    assert declared == documented


def test_metrics_are_called_what_prometheus_calls_them() -> None:
    """The keys of METRICS are the names under which they are exposed."""
    exposed = {
        name: {family.name for family in metric.collect()}
        for name, metric in METRICS.items()
    }

    assert exposed == {name: {name.removesuffix("_total")} for name in METRICS}


def test_logs_are_one_json_object_a_line_off_terminals(stream: io.StringIO) -> None:
    """A log collector can read them, tracebacks and lines of libraries included."""
    structlog.get_logger().info(Event.TICK_DONE, due=3)
    logging.getLogger("celery.worker").warning("lost %s", "broker")
    first, second = map(json.loads, stream.getvalue().splitlines())

    assert (first["event"], first["level"], first["due"]) == ("tick_done", "info", 3)
    assert first["timestamp"].endswith("Z")
    assert (second["event"], second["logger"]) == ("lost broker", "celery.worker")


@EACH_FORMAT
def test_instants_are_logged_as_text(
    stream: io.StringIO, log_format: LogFormat
) -> None:
    """As all of our JSON has them, and never as Python writes them."""
    configure_logging(stream=stream, log_format=log_format)
    since = datetime(2026, 11, 23, 7, tzinfo=UTC)
    structlog.get_logger().info(Event.STANDING_BY, since=since)

    assert "2026-11-23T07:00:00Z" in stream.getvalue()
    assert "datetime" not in stream.getvalue()


def test_ids_are_logged_as_text(stream: io.StringIO) -> None:
    """In lists, too."""
    structlog.get_logger().info(Event.STANDING_BY, ids=[UUID(int=1)])

    assert json.loads(stream.getvalue())["ids"] == [str(UUID(int=1))]


def test_no_text_commands_a_terminal(stream: io.StringIO) -> None:
    """Neither a name that a stranger sent, nor an error, nor a library's line."""
    configure_logging(stream=stream, log_format="console", color=False)
    hostile = "a\x1b[2Jb\x1b]0;x\x07\x9b31m\rc"
    structlog.get_logger().error(Event.MESSAGE_NOT_OURS, name=hostile, ids=[hostile])
    logging.getLogger("celery.worker").warning("lost %s", hostile)
    failed = ValueError(hostile)
    structlog.get_logger().error(Event.OPERATION_CRASHED, exc_info=failed)
    logging.getLogger("celery.worker").error("failed", exc_info=failed)
    written = stream.getvalue()

    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", written)
    assert "name=a[2Jb]0;x31mc" in written
    assert "lost a[2Jb]0;x31mc" in written
    assert written.count("ValueError: a[2Jb") == 2


@EACH_FORMAT
def test_tracebacks_show_no_local_variables(
    stream: io.StringIO, log_format: LogFormat
) -> None:
    """A password that is in a variable when something fails is not logged."""
    configure_logging(stream=stream, log_format=log_format)
    try:
        fail_with(PASSWORD)
    except ValueError:
        structlog.get_logger().exception(Event.OPERATION_CRASHED)

    assert "in fail_with" in stream.getvalue()
    assert PASSWORD not in stream.getvalue()


def test_levels_below_the_one_asked_for_are_dropped(stream: io.StringIO) -> None:
    """Level "warning" hides what went well."""
    configure_logging(stream=stream, level="warning")

    structlog.get_logger().info(Event.TICK_DONE)

    assert stream.getvalue() == ""


class FullDisk(io.StringIO):
    """Refuses whatever is written, as /dev/full does."""

    refused = 0

    def write(self, _text: str) -> int:
        """Refuse."""
        self.refused += 1
        raise OSError(errno.ENOSPC, "No space left on device")


def test_full_disk_under_the_log_ends_nothing() -> None:
    """What a line is about goes on, whoever wrote it."""
    stream = FullDisk()
    configure_logging(stream=stream)

    structlog.get_logger().info(Event.TICK_DONE)

    assert 1 == stream.refused


def test_line_that_comes_each_second_is_told_once_a_minute() -> None:
    """At once, for it is news; then with how often it came meanwhile."""
    clock = Clock()
    repeats = Repeats(clock)
    told: list[int] = []
    for _second in range(121):
        untold = repeats.count("database_unreachable")
        if untold is not None:
            told.append(untold)
        clock.now += 1

    assert told == [0, 59, 59]


def test_another_cause_is_told_at_once(stream: io.StringIO) -> None:
    """What is refused is not what does not answer."""
    for error in ("refused", "refused", "no answer", "refused"):
        structlog.get_logger().warning(Event.DATABASE_UNREACHABLE, error=error)

    lines = map(json.loads, stream.getvalue().splitlines())
    assert [line["error"] for line in lines] == ["refused", "no answer"]


def test_message_that_is_put_back_each_second_is_told_once(stream: io.StringIO) -> None:
    """By us, who know why; Celery has a line with a trace for each time."""
    for number in range(3):
        structlog.get_logger().error(Event.SCHEMA_REFUSED, error="it is at 0002")
        logging.getLogger("celery.app.trace").warning("Task quick[%s] reject", number)
    logging.getLogger("celery.app.trace").error("raised unexpected")

    assert len(stream.getvalue().splitlines()) == 1 + 1


def test_what_happens_often_is_told_each_time(stream: io.StringIO) -> None:
    """Two operations that fail alike are two."""
    for _ in range(2):
        structlog.get_logger().warning(Event.STEP_FAILED, error="no template")

    assert len(stream.getvalue().splitlines()) == 2


def test_attempts_of_celery_to_connect_are_one_line_a_minute(
    stream: io.StringIO,
) -> None:
    """Though each has another number in its text; another cause is news."""
    for attempt in range(3):
        logging.getLogger("celery.worker.consumer.consumer").error(
            "consumer: Cannot connect to %s: %s.\n%s", "redis://", "refused", attempt
        )
        logging.getLogger("celery.worker.consumer.consumer").warning(
            "%s (%r)", "consumer: Connection to broker lost.", OSError("refused")
        )
        logging.getLogger("celery.worker").warning("lost %s", attempt)
    logging.getLogger("celery.worker.consumer.consumer").error(
        "consumer: Cannot connect to %s: %s.\n%s", "redis://", "out of memory", 4
    )

    assert len(stream.getvalue().splitlines()) == 2 + 3 + 1


def test_collector_that_is_away_is_a_line_a_minute(stream: io.StringIO) -> None:
    """Not one for each attempt, nor for each batch."""
    exporter = logging.getLogger("opentelemetry.exporter.otlp.trace_exporter")
    for attempt in range(3):
        exporter.warning("Transient error %s, retrying in %s", "refused", attempt)
        exporter.error("Failed to export %s batch", "spans")

    assert len(stream.getvalue().splitlines()) == 1


def test_memory_of_repeated_lines_is_bounded() -> None:
    """A cause that is another each time costs no more than its lines."""
    repeats = Repeats(Clock())
    for number in range(10 * Repeats.most):
        repeats.count(number)

    assert len(repeats._told) == Repeats.most
