"""Outside monitors hear of runs: in order, at least once, and in nobody's way."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from actions.explaining.history import fetch_history
from actions.explaining.why import explain
from celery_app import pinger as pinging
from celery_app.pinger import THREADS_OF_ONE, LeaderPing, Pinger
from models.database.engine import db_now, read_clock, reading, writing
from models.database.tables import breakers, operations
from models.errors import UnreachableError
from models.operation_state import OperationState, Trigger
from operations.adapters.webhooks import RealWebhooks
from operations.cancel_and_retry import reopen
from operations.mail.message import Fate, Sending
from overview.doctor.checks.apps import look_at_mail
from overview.doctor.finding import View
from telemetry import Event
from tests.database import execute, read_by, write_by
from tests.integration.dispatch.test_task_outbox import TASK
from tests.integration.dispatch.test_task_outbox import Case as TaskCase
from tests.scheduling import (
    MINUTELY,
    MONDAY,
    Clock,
    add_app,
    backdate,
    edit,
    edit_action,
    get,
    get_now,
    make_operation,
    make_settings,
    post,
    record_all,
    tick,
)
from tests.servers import PATIENCE_S, run_in_thread, wait_until
from tests.unit.operations.fakes import FakeWebhooks

HOST = "https://hc-ping.com"
DOWN = Sending(Fate.DEFERRED, "500 Internal Server Error")
NO_SUCH = Sending(Fate.REFUSED, "404 Not Found")


@dataclass
class Case:
    """A leader's pinger, and a monitor in memory."""

    engine: sa.Engine
    monitor: FakeWebhooks = field(default_factory=FakeWebhooks)
    clock: Clock = field(default_factory=Clock)
    leads: bool = True

    def __post_init__(self) -> None:
        """Make the pinger; it begins nothing in a thread."""
        self.pinger = self.make_pinger(lambda work: work())

    def make_pinger(self, begin: Callable[[Callable[[], None]], None]) -> Pinger:
        """Return one that begins its work so."""
        return Pinger(
            self.engine,
            self.monitor.ping,
            lambda: self.leads,
            monotonic=self.clock,
            begin=begin,
        )

    def look(self) -> list[str]:
        """Look once, and return what the monitor heard."""
        before = len(self.monitor.posts)
        self.pinger.look()
        return [url for url, *_ in self.monitor.posts[before:]]

    def add(self, uid: str = "daily", app: str = "app", **document: Any) -> None:
        """Post an action of which a monitor hears, never due."""
        document = {"ping": f"{HOST}/{uid}", **document}
        post(self.engine, app, uid=uid, name=uid, **document)
        edit_action(self.engine, uid, next_due_at=None)

    def record(self, number: int = 0, **changes: Any) -> UUID:
        """Record a run, and return its id."""
        new = make_operation(number, **changes)
        record_all(self.engine, new)
        return new.id

    def begin(self, id_: UUID) -> None:
        """Let a run begin."""
        now = get_now(self.engine)
        edit(self.engine, id_, state=OperationState.RUNNING, started_at=now)

    def end(self, id_: UUID, state: OperationState = OperationState.SUCCEEDED) -> None:
        """Let a run end."""
        edit(self.engine, id_, state=state, finished_at=get_now(self.engine))

    def run(self, number: int = 0, **changes: Any) -> UUID:
        """Record a run that begins and succeeds at once."""
        id_ = self.record(number, **changes)
        self.begin(id_)
        self.end(id_)
        return id_

    def rest(self) -> None:
        """Let all pauses be over."""
        self.clock.now += 60
        execute(self.engine, sa.update(breakers).values(retry_at=MONDAY))

    def find(self) -> list[str]:
        """Return which monitors are left alone; no mail server is."""
        settings = make_settings()
        with reading(self.engine) as connection:
            view = View(connection, settings, read_clock(connection))
            assert [] == list(look_at_mail(view))
            return [*connection.scalars(sa.select(breakers.c.name))]

    def say_why(self) -> str:
        """Return what became of the first run."""
        minute = timedelta(minutes=1)
        history = read_by(
            self.engine, fetch_history, "daily", since=MONDAY, until=MONDAY + minute
        )
        (answer,) = explain(history, MONDAY)
        return answer.text


@pytest.fixture
def case(engine: sa.Engine) -> Case:
    """Give one with an app and an action."""
    add_app(engine)
    made = Case(engine)
    made.add()
    return made


def test_start_then_end(engine: sa.Engine, case: Case):
    """Each once, with the id of the run; nothing before it begins."""
    id_ = case.record()
    assert [] == case.look()
    case.begin(id_)
    assert [f"{HOST}/daily/start?rid={id_}"] == case.look()
    assert [] == case.look()
    case.end(id_)

    assert [f"{HOST}/daily?rid={id_}"] == case.look()
    assert [] == case.look()
    assert (2, None) == (get(engine, id_).pinged, get(engine, id_).ping_error)


@pytest.mark.parametrize(
    ("state", "began", "heard"),
    [
        (OperationState.FAILED, True, ["/start", "/fail"]),
        # such as a task that no queue takes
        (OperationState.FAILED, False, ["/fail"]),
        (OperationState.SKIPPED, True, ["/start", ""]),
        (OperationState.CANCELED, True, ["/start", "/fail"]),
        (OperationState.CANCELED, False, []),
    ],
)
def test_other_ends(case: Case, state: OperationState, began: bool, heard: list[str]):  # noqa: FBT001 - a table
    """A monitor that was told of a start is told of an end, whatever it was."""
    id_ = case.record()
    if began:
        case.begin(id_)
    case.end(id_, state)

    assert [f"{HOST}/daily{end}?rid={id_}" for end in heard] == case.look()
    assert [] == case.look()


def test_what_is_no_run_is_not_told(engine: sa.Engine, case: Case):
    """What was skipped or missed, a backfill, and an action without a monitor."""
    case.add("other", ping=None)
    ids = [
        case.record(1, state=OperationState.SKIPPED, reason="overlap"),
        case.record(2, state=OperationState.MISSED, reason="outage"),
        case.run(3, trigger=Trigger.BACKFILL),
        case.run(4, action_uid="other"),
    ]

    assert [None] * 4 == [get(engine, id_).pinged for id_ in ids]
    assert [] == case.look()


def test_retry_is_told_again(engine: sa.Engine, case: Case):
    """A monitor that heard of a failure hears of the success."""
    id_ = case.record()
    case.begin(id_)
    case.end(id_, OperationState.FAILED)
    case.look()
    assert write_by(engine, reopen, id_)
    assert [f"{HOST}/daily/start?rid={id_}"] == case.look()
    case.end(id_)

    assert [f"{HOST}/daily?rid={id_}"] == case.look()


def test_address_is_that_of_the_revision_that_runs(engine: sa.Engine, case: Case):
    """A run that was told to have begun ends where that was told."""
    id_ = case.record()
    case.begin(id_)
    case.look()
    post(engine, replace_it=True, uid="daily", name="daily", ping=f"{HOST}/new")
    case.end(id_)

    assert [f"{HOST}/daily?rid={id_}"] == case.look()


def test_task_that_the_leader_sends_itself(engine: sa.Engine, case: Case):
    """Start when it is sent, end when its answer ends it; no worker has part in it."""
    tasks = TaskCase(engine)
    uid = post(
        engine,
        name="lone",
        ping="https://o1.ingest.sentry.io/api/4/cron/m/key/",
        operations={"run_task": TASK},
        when=MINUTELY,
    ).uid
    backdate(engine, uid)
    tick(tasks.dispatcher, get_now(engine))
    (task,) = tasks.couriers.sent

    (sent,) = case.look()
    assert "?status=in_progress&check_in_id=" in sent
    assert [] == case.look()
    tasks.answer(task, succeeded=False)

    assert [sent.replace("in_progress", "error")] == case.look()


def test_monitor_that_is_down_rests_and_hears_of_all_later(case: Case):
    """Nobody else waits for it, and why says so meanwhile."""
    case.add("other")
    case.monitor.answer = DOWN
    id_ = case.run()
    (first,) = case.look()
    case.monitor.answer = Sending(Fate.SENT, "200 OK")
    other = case.run(1, action_uid="other")

    assert [f"{HOST}/other/start?rid={other}", f"{HOST}/other?rid={other}"] == (
        case.look()
    )
    assert ["monitor hc-ping.com of daily"] == case.find()
    assert "hc-ping.com: 500 Internal" in case.say_why()
    case.rest()
    assert [first, f"{HOST}/daily?rid={id_}"] == case.look()
    assert [] == case.find()
    assert "ping" not in case.say_why()


def test_refusal_is_told_once(case: Case):
    """Logs and messages have its host, and nothing else of its address."""
    case.monitor.answer = NO_SUCH
    case.run()
    with capture_logs() as logs:
        assert 2 == len(case.look())
        assert [] == case.look()

    assert {"hc-ping.com: 404 Not Found"} == {each["error"] for each in logs}
    assert "hc-ping.com: 404 Not Found" in case.say_why()
    assert [] == case.find()


def test_process_that_dies_before_it_wrote_tells_again(
    engine: sa.Engine, case: Case, monkeypatch: pytest.MonkeyPatch
):
    """Under the same id, and in the same order."""
    case.run()

    def die(*_: object) -> None:
        raise UnreachableError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(Pinger, "_mark", die)
        (start,) = case.look()

    again = Case(engine, monitor=case.monitor).look()
    assert [start, start.replace("/start", "")] == again


def test_retry_while_its_end_is_told_is_not_taken_for_told(
    engine: sa.Engine, case: Case, monkeypatch: pytest.MonkeyPatch
):
    """What was told is the end of a run that has begun anew since."""
    id_ = case.record()
    case.begin(id_)
    case.end(id_, OperationState.FAILED)
    ping = case.monitor.ping

    def reopen_first(url: str) -> Sending:
        if "/fail" in url:
            write_by(engine, reopen, id_)
        return ping(url)

    monkeypatch.setattr(case.monitor, "ping", reopen_first)
    case.pinger = case.make_pinger(lambda work: work())
    case.look()

    assert 0 == get(engine, id_).pinged


def test_standby_tells_nothing(case: Case):
    """Whoever leads finds what there is to tell."""
    case.run()
    case.leads = False
    assert [] == case.look()
    case.leads = True

    assert 2 == len(case.look())


def test_after_a_day_it_is_given_up(engine: sa.Engine, case: Case):
    """With what the monitor said last, and without its pause."""
    case.monitor.answer = DOWN
    id_ = case.run()
    case.look()
    with writing(engine) as connection:
        ago = db_now(-timedelta(days=2))
        connection.execute(sa.update(operations).values(finished_at=ago))
        connection.execute(sa.update(breakers).values(retry_at=ago))
    case.clock.now += 60

    assert [] == case.look()
    row = get(engine, id_)
    assert (2, "hc-ping.com: 500 Internal Server Error") == (row.pinged, row.ping_error)
    assert [] == case.find()


# -- over HTTP -----------------------------------------------------------------


@dataclass
class Server:
    """A monitor over HTTP: what it heard, and how it answers each path."""

    url: str = ""
    heard: list[str] = field(default_factory=list)
    answers: defaultdict[str, tuple[int, str]] = field(
        default_factory=lambda: defaultdict(lambda: (200, ""))
    )
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def run_server() -> Iterator[Server]:
    """Run one; it hangs at /hang until it is released."""
    server = Server()

    class Monitor(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.heard.append(self.path)
            path = self.path.partition("?")[0]
            if path.startswith("/hang"):
                server.released.wait(PATIENCE_S)
            status, location = server.answers[path]
            self.send_response(status)
            if location:
                self.send_header("location", location)
            self.end_headers()

    with run_in_thread(ThreadingHTTPServer(("127.0.0.1", 0), Monitor)) as place:
        server.url = f"http://{place}"
        try:
            yield server
        finally:
            server.released.set()


def make_webhooks(**options: Any) -> RealWebhooks:
    """Return what pings, also on this host."""
    given = {"allowed_hosts": ("127.0.0.0/8",), **options}
    return RealWebhooks(secret=None, **given)


def test_monitors_that_hang_keep_no_other_app_waiting(
    case: Case, monkeypatch: pytest.MonkeyPatch
):
    """However much there is to tell them; an action has one thread at most."""
    monkeypatch.setattr(pinging, "_READ", 4)
    pinging._statement.cache_clear()
    add_app(case.engine, "shop")
    hanging = [f"hang{number}" for number in range(THREADS_OF_ONE + 1)]
    with run_server() as server:
        for uid in hanging:
            case.add(uid, "shop", ping=f"{server.url}/{uid}")
            for number in range(2):
                case.run(number, action_uid=uid, app="shop")
        case.add("well", ping=f"{server.url}/well")
        case.run(action_uid="well")
        begun: list[threading.Thread] = []

        def begin(work: Callable[[], None]) -> None:
            begun.append(threading.Thread(target=work))
            begun[-1].start()

        pinger = Pinger(case.engine, make_webhooks().ping, lambda: True, begin=begin)
        looks = [pinger.look() for _ in range(4)]
        begun[-1].join()
        pinging._statement.cache_clear()
        wait_until(lambda: len(server.heard) == THREADS_OF_ONE + 2)

        assert [4, 2, 1, 0] == looks

        asked = [path for path in server.heard if path.startswith("/hang")]
        assert THREADS_OF_ONE == len({path.partition("/start")[0] for path in asked})
        assert THREADS_OF_ONE == len(asked)
        assert ["/well/start", "/well"] == [
            path.partition("?")[0] for path in server.heard if "well" in path
        ]
        server.released.set()
        for thread in begun:
            thread.join()


@pytest.mark.parametrize(
    ("path", "options", "outcome", "said"),
    [
        ("/moved", {}, Fate.REFUSED, "redirects are not followed"),
        ("/u", {"allowed_hosts": ()}, Fate.REFUSED, "not a public address"),
        ("/hang", {"timeout": timedelta(seconds=0.1)}, Fate.UNREACHABLE, "took longer"),
    ],
)
def test_answers_of_monitors(
    path: str, options: dict[str, Any], outcome: Fate, said: str
):
    """Nothing of the address but the host is in them."""
    with run_server() as server:
        server.answers["/moved"] = (302, "http://10.0.0.1/")
        sending = make_webhooks(**options).ping(f"{server.url}{path}?rid=secret")

    assert outcome is sending.outcome
    assert said in sending.detail
    assert "secret" not in sending.detail


def test_name_that_moves_to_a_private_address_is_not_followed_there():
    """What was checked is what is called, however often the name is asked for."""
    asked: list[str] = []

    def resolve(host: str, _port: int) -> tuple[str, ...]:
        asked.append(host)
        return ("127.0.0.1",) if len(asked) == 1 else ("10.0.0.1",)

    with run_server() as server:
        port = server.url.rpartition(":")[2]
        webhooks = make_webhooks(resolve=resolve)
        sending = webhooks.ping(f"http://monitor.example:{port}/u")
        again = webhooks.ping(f"http://monitor.example:{port}/u")

    assert ["/u"] == server.heard
    assert (Fate.SENT, Fate.REFUSED) == (sending.outcome, again.outcome)
    assert "resolves to 10.0.0.1" in again.detail


# -- of the leader -------------------------------------------------------------


def test_leader_is_told_of_once_for_each_tick():
    """Never while it ticks; what fails is logged, and the next tick tries again."""
    monitor = FakeWebhooks()
    leader_ping = LeaderPing(monitor.ping, f"{HOST}/leader")
    report: Any = None

    leader_ping.look()
    leader_ping.note(report)
    assert [] == monitor.posts
    leader_ping.look()
    leader_ping.look()
    assert [f"{HOST}/leader"] == [url for url, *_ in monitor.posts]
    monitor.answer = NO_SUCH
    leader_ping.note(report)
    with capture_logs() as logs:
        leader_ping.look()
    assert [(Event.PING_FAILED, NO_SUCH.detail)] == [
        (each["event"], each["error"]) for each in logs
    ]


def test_scheduler_pings_beside_its_ticks(
    engine: sa.Engine, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    """Both kinds, from the threads that its program begins."""
    add_app(engine)
    case = Case(engine)
    monkeypatch.setattr(pinging, "start_looking", lambda *_: looks.append(_[0]))
    looks: list[Callable[[], int]] = []
    with run_server() as server:
        case.add(ping=f"{server.url}/daily")
        settings = make_settings(
            DATABASE_URL=database_url,
            LEADER_PING=f"{server.url}/leader",
            WEBHOOK_ALLOWED_HOSTS="127.0.0.1",
        )
        on_tick: list[Callable[[Any], None]] = []
        id_ = case.run()
        with pinging.pinging(settings, leads=lambda: True, on_tick=on_tick):
            for listener in on_tick:
                listener(None)
            for look in looks:
                look()
            wait_until(lambda: get(engine, id_).pinged == 2)

    assert {"/leader", f"/daily/start?rid={id_}", f"/daily?rid={id_}"} == set(
        server.heard
    )
