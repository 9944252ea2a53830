"""A mail server that does not serve, as all workers of an installation see it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
import sqlalchemy as sa

from models.database.tables import breakers
from models.operation_state import OperationState, Reason, StepState
from operations.adapters.breaker import Breaker, PatientMailer
from operations.adapters.smtp import make_mailer, name_mail_server
from operations.mail.message import Fate, Mail, Sending, Template
from operations.ports import Ports
from operations.recipients import User
from operations.running.attempt import Attempt
from tests.database import execute, fetch_rows
from tests.mail_server import MailServer
from tests.scheduling import add_revision, edit, get, get_steps, must_claim, put
from tests.servers import run_silent_server
from tests.unit.operations.fakes import FakeMailer, World

NAME = "mail server mail.example.org:25"
NOW = datetime(2026, 11, 23, 6, tzinfo=UTC)
DOWN = Sending(Fate.UNREACHABLE, "timed out", blames_server=True)
HANGS = Sending(Fate.UNCERTAIN, "timed out", blames_server=True)
MAIL = Mail("1@minutehand", "ann@x.org", "Ann", "Hi", "Hi")


@dataclass
class Server:
    """A mailer that answers as *answers* say, one after the other, and then sends."""

    engine: sa.Engine
    mailer: FakeMailer = field(default_factory=FakeMailer)

    def send(self, *answers: Sending) -> Sending:
        """Send a mail in a session of its own, as another process would."""
        self.mailer.outcomes = {MAIL.address: list(answers)}
        patient = PatientMailer(self.mailer, Breaker(self.engine, NAME))
        with patient.session() as send:
            return send(MAIL, now=NOW)

    def come_due(self) -> None:
        """Let the pause be over."""
        past = datetime(2020, 1, 1, tzinfo=UTC)
        execute(self.engine, sa.update(breakers).values(retry_at=past))

    @property
    def row(self) -> sa.Row[tuple[object, ...]] | None:
        """What is known of it."""
        return fetch_rows(self.engine, sa.select(breakers)).one_or_none()


@pytest.fixture
def server(engine: sa.Engine) -> Server:
    """Give a server of which nothing is known."""
    return Server(engine)


def test_others_wait_without_trying(server: Server):
    """They are told since when and until when, and nothing reaches the server."""
    first = server.send(DOWN)
    second = server.send()

    for sending in (first, second):
        assert Fate.UNREACHABLE is sending.outcome
        assert "has been unavailable since" in sending.detail
        assert "timed out" in sending.detail
        assert sending.retry_in is not None
        assert timedelta(0) < sending.retry_in < timedelta(minutes=1)
    assert [] == server.mailer.mails


def test_one_at_a_time_tries(server: Server):
    """Who comes while it does waits; failures of others before are not counted."""
    server.send(DOWN)
    server.send(DOWN)
    server.come_due()
    breaker = Breaker(server.engine, NAME)

    assert (None, True) == breaker.ask()
    pause, tries = Breaker(server.engine, NAME).ask()
    breaker.fail("timed out", tried=True)

    assert pause is not None
    assert not tries
    assert server.row is not None
    assert 2 == server.row.failures


def test_pause_is_bounded(server: Server):
    """However long the server is away, somebody tries every five minutes."""
    for _ in range(12):
        server.send(DOWN)
        server.come_due()
    server.send(DOWN)
    pause, _ = Breaker(server.engine, NAME).ask()

    assert pause is not None
    assert timedelta(minutes=4) < pause.retry_at - pause.now <= timedelta(minutes=5)


def test_one_success_closes_it(server: Server):
    """Everybody sends again."""
    server.send(DOWN)
    server.come_due()
    sending = server.send()

    assert Fate.SENT is sending.outcome
    assert server.row is None


def test_mail_that_breaks_the_connection_closes_nobody_out(server: Server):
    """Only what the server would do with any mail counts."""
    sending = server.send(Sending(Fate.UNREACHABLE, "reset by peer"))

    assert sending.retry_in is None
    assert server.row is None


def test_server_that_hangs_over_the_content_costs_one_mail(server: Server):
    """That one is uncertain; the next of the same session waits."""
    server.mailer.outcomes = {MAIL.address: [HANGS]}
    patient = PatientMailer(server.mailer, Breaker(server.engine, NAME))
    with patient.session() as send:
        first, second = (send(MAIL, now=NOW) for _ in range(2))

    assert Fate.UNCERTAIN is first.outcome
    assert (Fate.UNREACHABLE, True) == (second.outcome, second.retry_in is not None)


def make_world(folder: Path) -> Ports:
    """Give an app with one user and one template."""
    world = World(folder)
    world.directory.users = (User("ann", "ann@x.org", name="Ann", activated_at=NOW),)
    world.directory.templates["hello"] = Template("hello", "Hi", "Hi", None)
    return world.make_context().ports


def run_once(engine: sa.Engine, ports: Ports, operation_id: UUID) -> OperationState:
    """Let a worker take the operation and run it; return where that left it."""
    edit(engine, operation_id, send_at=datetime(2020, 1, 1, tzinfo=UTC))
    claim = must_claim(engine, operation_id, worker="quick@host")
    state = Attempt(engine, claim, ports).run()
    assert state is not None
    return state


def test_operations_outlast_a_server_that_hangs(
    engine: sa.Engine, tmp_path: Path, smtp_server: MailServer
):
    """They wait more often than there are attempts, with the reason; then it goes."""
    steps = {"send_email": {"template": "hello"}}
    add_revision(engine, operations=steps, recipients={"users": ["ann"]})
    operation = put(engine)
    server, ports = Server(engine), make_world(tmp_path)
    with run_silent_server() as place:
        url = f"smtp://{place}"
        breaker = Breaker(engine, name_mail_server(url))
        hanging = make_mailer(url, sender="m@x.org", timeout=timedelta(seconds=0.1))
        waiting = replace(ports, mailer=PatientMailer(hanging, breaker))
        for _ in range(5):
            assert run_once(engine, waiting, operation) is OperationState.PENDING
            row = get(engine, operation)
            assert (Reason.MAIL_SERVER_AWAY, 0) == (row.reason, row.attempt)
            assert "has been unavailable since" in str(row.error)
            server.come_due()
        assert server.row is not None
        assert 5 == server.row.failures
    serving = make_mailer(smtp_server.url, sender="m@x.org")
    working = replace(ports, mailer=PatientMailer(serving, breaker))

    assert run_once(engine, working, operation) is OperationState.SUCCEEDED
    row = get(engine, operation)
    steps_kept = get_steps(engine, operation)
    assert (None, None, 1) == (row.reason, row.error, row.attempt)
    assert [(StepState.SUCCEEDED, None)] == [(s.state, s.error) for s in steps_kept]
    assert server.row is None
    assert 1 == len(smtp_server.messages)
