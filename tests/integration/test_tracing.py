"""One trace from a post to the user's own task, as a collector receives it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis
import sqlalchemy as sa
from structlog.testing import capture_logs

import tracing
from actions.posting.post import post_action, post_actions
from celery_app.app import make_app
from celery_app.operation_sender import CelerySender
from dispatch.task_outbox import TaskOutbox
from models.database.engine import writing
from models.door.documents import read_action_object
from models.operation_state import Queue
from operations.foreign_tasks import ForeignTask, TaskAnswer
from operations.sending.order import Message
from operations.task_ends import record_answers
from scheduler_server import Scheduler
from settings import find_collector
from tests.collector import Collector, collecting
from tests.database import write_by
from tests.scheduling import (
    MINUTELY,
    FakeCouriers,
    FakeSender,
    add_app,
    backdate,
    edit_action,
    fetch_all,
    get_now,
    make_document,
    make_scheduler,
    make_settings,
    post,
)
from tests.servers import PATIENCE_S, ROOT, find_free_port, run_warm, wait_until

CLI = (sys.executable, "-m", "cli.main")
SCHEDULER = (sys.executable, "scheduler_server.py")
#: As ``minutehand worker -c 1`` starts one.
WORKER = (sys.executable, "-m", "celery", "-A", "celery_app", "worker", "-c", "1")

TASK = {"run_task": {"name": "shop.report", "queue": "reports", "wait": False}}


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Give a collector that listens."""
    with collecting() as listening:
        yield listening


def make_sending(engine: sa.Engine, couriers: FakeCouriers) -> Scheduler:
    """Return a scheduler that leads, and sends tasks by *couriers*, for a small app."""
    scheduler = make_scheduler(engine)
    scheduler.outbox.tasks = TaskOutbox(engine, couriers)
    scheduler.leading.hold()
    add_app(engine)
    return scheduler


@pytest.fixture
def traced(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Trace what this process does."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    tracing.configure(find_collector("TRACES"))
    yield
    tracing.stop()


class Installation:
    """
    Processes that share a database and a broker, and send traces to a collector.

    Args:
        endpoint: Of the collector. None: none is named.
    """

    def __init__(
        self, folder: Path, engine: sa.Engine, broker_url: str, endpoint: str | None
    ) -> None:
        """Start nothing yet."""
        self.folder = folder
        self.engine = engine
        self.broker = redis.Redis.from_url(broker_url)
        given = {
            "HOME": str(folder),
            "DATABASE_URL": engine.url.render_as_string(hide_password=False),
            "BROKER_URL": broker_url,
            "LOG_FORMAT": "json",
        }
        self.environ = {f"MINUTEHAND_{name}": value for name, value in given.items()}
        if endpoint is not None:
            self.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
        add_app(engine)

    def post_due(self, name: str = "daily") -> str:
        """Post an action of two steps that is due at once; return its uid."""
        now = get_now(self.engine).replace(second=0, microsecond=0)
        steps = {"refresh": True, **TASK}
        return self.post(
            name=name, operations=steps, when={"due_date": f"{now:%FT%TZ}"}
        )

    def post(self, **changes: Any) -> str:
        """Post an action by the command line; return its uid."""
        document = self.folder / "action.json"
        document.write_text(json.dumps(make_document(**changes)))
        done = subprocess.run(
            [*CLI, "actions", "post", str(document), "--app", "app", "--json"],
            env={**os.environ, **self.environ},
            cwd=ROOT,
            capture_output=True,
            check=True,
            timeout=PATIENCE_S,
        )
        uid: str = json.loads(done.stdout)["uid"]
        return uid

    def run(self, *commands: tuple[str, ...]) -> dict[str, Any]:
        """Run *commands* until a task is in their queue, and take it out."""
        if not commands:
            task: dict[str, Any] = json.loads(self._wait_for_task())
            return task
        command, *others = commands
        log = self.folder / "log"
        with run_warm(command, log=log, environ=self.environ):
            return self.run(*others)

    def _wait_for_task(self) -> Any:
        return wait_until(lambda: self.broker.rpop("reports"), what="a task")

    def read_log(self) -> list[dict[str, Any]]:
        """Return the lines of all processes."""
        return [json.loads(line) for line in (self.folder / "log").open()]


def read_task(message: dict[str, Any]) -> tuple[str, str]:
    """Return the span that *message* comes from."""
    _version, trace_id, span_id, flags = message["headers"]["traceparent"].split("-")
    assert "01" == flags
    return trace_id, span_id


def test_one_trace_leads_from_a_post_to_the_task_of_a_user(
    postgres_engine: sa.Engine, redis_url: str, collector: Collector, tmp_path: Path
):
    """
    From post and tick by links to the operation, whose trace has claim, steps and task.

    All processes have sent their spans when they have ended, the children of a worker
    too; and what they log about it has the same ids.
    """
    installation = Installation(tmp_path, postgres_engine, redis_url, collector.url)
    uid = installation.post_due()

    message = installation.run(SCHEDULER, WORKER)

    (row,) = fetch_all(postgres_engine)
    (posted,) = [each for each in collector.find("post") if each.facts["app"] == "app"]
    (flight,), (sent,) = collector.find("flight"), collector.find("send")
    (tick,) = [each for each in collector.find("tick") if each.span_id == flight.parent]
    (operation,), (claim,) = collector.find("operation"), collector.find("claim")
    (refresh,), (task,) = (
        collector.find("step refresh"),
        collector.find("step run_task"),
    )
    assert uid == posted.facts["action_uid"]
    assert {tick.place} == {(each.trace_id, each.parent) for each in (flight, sent)}
    assert (operation.place,) == sent.links
    assert (sent.place, posted.place) == operation.links
    assert {operation.place} == {
        (each.trace_id, each.parent) for each in (claim, refresh, task)
    }
    assert task.place == read_task(message)
    assert f"{tracing.find_operation(row.id).trace_id:032x}" == operation.trace_id
    assert (str(row.id), "succeeded") == (
        operation.facts["task_id"],
        operation.facts["state"],
    )
    assert "minutehand" == operation.resource["service.name"]
    logged = [line for line in installation.read_log() if "trace_id" in line]
    assert [operation.place] == [
        (line["trace_id"], line["span_id"])
        for line in logged
        if "operation_finished" == line["event"]
    ]
    assert tick.trace_id in {line["trace_id"] for line in logged}


def test_task_that_goes_straight_to_its_queue_is_in_the_trace_of_its_operation(
    engine: sa.Engine, collector: Collector, traced: None
):
    """Of a batch so many are; the others are not traced on their side either."""
    del traced
    couriers = FakeCouriers()
    scheduler = make_sending(engine, couriers)
    documents = (
        make_document(name=f"{number}", operations=TASK, when=MINUTELY)
        for number in range(3 * tracing.MOST)
    )
    actions = [read_action_object(each) for each in documents]
    posted = write_by(engine, post_actions, "app", actions)
    now = backdate(engine, posted[0].uid)
    for each in posted:
        edit_action(engine, each.uid, next_due_at=now, effective_from=now)

    scheduler.tick(now)
    tracing.stop()

    made = collector.find("post")
    batches = {each.place: each for each in collector.find("send tasks")}
    sent = collector.find("send shop.report")
    assert {each.links[0] for each in sent} == batches.keys()
    assert {each.links[1] for each in sent} & {each.place for each in made}
    assert {link for each in batches.values() for link in each.links} == {
        each.place for each in sent
    }
    assert {tracing.MOST} == {len(made), max(len(b.links) for b in batches.values())}
    headers = [str(each.headers["traceparent"]) for each in couriers.sent]
    assert len(actions) == len(headers) > len(sent)
    on_their_side = {each[3:-3] for each in headers if each.endswith("-01")}
    assert {f"{each.trace_id}-{each.span_id}" for each in sent} == on_their_side


def test_task_that_a_broker_refuses_ends_its_span(
    engine: sa.Engine, collector: Collector, traced: None
):
    """With what the broker said."""
    del traced
    scheduler = make_sending(engine, FakeCouriers(refused="no such queue"))
    backdate(engine, post(engine, operations=TASK, when=MINUTELY).uid)

    scheduler.tick(get_now(engine))
    tracing.stop()

    assert "no such queue" == collector.find("send shop.report")[0].error


@pytest.mark.parametrize("succeeded", [True, False])
def test_answer_of_a_task_is_in_the_trace_of_its_operation(
    engine: sa.Engine, collector: Collector, traced: None, *, succeeded: bool
):
    """With what became of it; an answer that comes twice ends nothing again."""
    del traced
    couriers = FakeCouriers()
    scheduler = make_sending(engine, couriers)
    waiting = {"run_task": TASK["run_task"] | {"wait": True}}
    backdate(engine, post(engine, operations=waiting, when=MINUTELY).uid)
    scheduler.tick(get_now(engine))
    (task,) = couriers.sent
    assert task.token is not None

    for _ in range(2):
        record_answers(engine, [TaskAnswer(task.token, succeeded=succeeded)])
    tracing.stop()

    (sent,), (ended,) = collector.find("send shop.report"), collector.find("task ended")
    assert sent.trace_id == ended.trace_id
    assert succeeded == (ended.facts["state"] == "succeeded")
    assert succeeded == (not ended.error)


def test_a_trace_that_an_action_names_counts_more(traced: None):
    """A header of its own is not replaced."""
    del traced
    theirs = {"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"}
    task = FakeCouriers().place(ForeignTask("shop.report", "id", headers=theirs))

    with tracing.begin("send") as span:
        assert theirs == task.in_trace(span.place).headers


def test_messages_of_a_batch_name_its_span(redis_url: str, traced: None):
    """They are still filled into forms: of two batches each its own."""
    del traced
    app = make_app(make_settings(BROKER_URL=redis_url))
    sender = CelerySender(app, timeout=timedelta(seconds=30))
    wanted, tags = [], set()
    with redis.Redis.from_url(redis_url) as client:
        for _ in range(2):
            with tracing.begin("send") as span:
                assert span.place is not None
                wanted += [span.place.write()] * 2
                sender.send([Message(uuid4(), Queue.QUICK, "x", 0) for _ in "ab"])
        sender.close()
        texts = client.lrange("minutehand.quick", 0, -1)
    found = [json.loads(text) for text in reversed(texts)]

    assert wanted == [each["headers"]["traceparent"] for each in found]
    tags = {each["properties"]["delivery_tag"][:-8] for each in found}
    assert 2 == len(tags)  # two batches, each in a form


def test_post_that_is_rolled_back_is_not_traced(
    engine: sa.Engine, collector: Collector, traced: None
):
    """As what a dry run would have stored; the same revision may be stored later."""
    del traced
    add_app(engine)
    action = read_action_object(make_document(uid="daily"))
    for is_kept in (False, True):
        with suppress(KeyboardInterrupt), writing(engine) as connection:
            post_action(connection, "app", action)
            if not is_kept:
                raise KeyboardInterrupt
    tracing.stop()

    assert 1 == len(collector.find("post"))


def test_collector_that_hangs_delays_no_tick(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
):
    """It is asked, never answers, and the queue is full: spans are dropped, no more."""
    for name, value in (("MAX_QUEUE_SIZE", 1), ("MAX_EXPORT_BATCH_SIZE", 1)):
        monkeypatch.setenv(f"OTEL_BSP_{name}", str(value))
    add_app(engine)
    uid = post(engine, operations={"refresh": True}, when=MINUTELY).uid
    sender = FakeSender()
    scheduler = make_scheduler(engine, sender)
    scheduler.leading.hold()
    with collecting(hangs=True) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        tracing.configure(find_collector("TRACES"))
        scheduler.tick(get_now(engine))
        assert collector.asked.wait(PATIENCE_S)

        report = scheduler.tick(backdate(engine, uid))

        assert (1, 1) == (report.recorded, report.sent)
        assert [] == collector.spans
        tracing.stop()  # returns, too
        assert not collector.closed.is_set()
    assert 1 == len(sender.ids)


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "'grpc' is not http/protobuf"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "0"}, "max_queue_size must be"),
    ],
)
def test_what_cannot_be_had_is_told_once(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], why: str
):
    """And nothing else changes: no typo for a collector stops a scheduler."""
    endpoint = f"http://127.0.0.1:{find_free_port()}"
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **variables}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    tracing.configure(find_collector("TRACES"))
    with capture_logs() as lines:
        for _ in range(2):
            with tracing.begin("tick") as span:
                assert span.place is None
    tracing.configure(None)
    tracing.stop()

    (line,) = lines
    assert "otlp_off" == line["event"]
    assert why in line["error"]


@pytest.mark.parametrize(
    "text",
    [
        *(None, 7, b"00", ["00"], "", "00", "00-" + "a" * 53),
        "01-" + "a" * 32 + "-" + "b" * 16 + "-01",
        "00-" + "0" * 32 + "-" + "b" * 16 + "-01",
        "00-" + "a" * 32 + "-" + "0" * 16 + "-01",
        "00-" + "a" * 32 + "-" + "b" * 16 + "-01\n",
        "00-" + "A" * 32 + "-" + "b" * 16 + "-01",
    ],
)
def test_header_that_names_no_span_is_none(text: object):
    """Anybody may have written it."""
    assert tracing.read_traceparent(text) is None


def test_without_the_extra_it_is_told(monkeypatch: pytest.MonkeyPatch):
    """With the command that installs it."""
    exporter = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(sys.modules, exporter, None)
    tracing.configure("")
    with capture_logs() as lines, tracing.begin("tick") as span:
        assert span.place is None
    tracing.configure(None)
    tracing.stop()

    assert "pip install 'minutehand[otel]'" in lines[0]["error"]


def test_nothing_is_imported_where_no_collector_is_named(tmp_path: Path):
    """So that it costs nothing."""
    program = (
        "import sys, scheduler_server, tracing, celery_app.tasks, cli.connection\n"
        "cli.connection.get_settings()\n"
        "with tracing.begin('tick', due=1) as span: pass\n"
        "assert span.place is tracing.find_current() is None\n"
        # redis-py imports the rest where it is installed
        "sys.exit('opentelemetry.exporter' in sys.modules)"
    )
    environ = {"MINUTEHAND_HOME": str(tmp_path), "PATH": os.environ["PATH"]}

    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, cwd=ROOT, check=False
    )

    assert 0 == done.returncode
