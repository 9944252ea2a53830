"""
The world as steps see it: a mail server that remembers every mail it took, and
steps that take their time and leave a trace under the guard of their claim.

What steps do to users, templates and delivery marks is the real code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random
from uuid import UUID

from models.database.engine import writing
from models.errors import StepError
from operations.adapters.app_users import RealDirectory
from operations.domains import (
    Domain,
    DomainDraft,
    Fingerprint,
    Move,
    Reading,
    ReadRequest,
)
from operations.foreign_tasks import ForeignTask
from operations.mail.message import Fate, Mail, Sending, WebhookRequest
from operations.ports import Claimant, Guard, Ports, SendMail
from tests.simulation.database import SimulatedDatabase
from tests.simulation.faults import Place
from tests.simulation.loop import SECOND
from tests.unit.operations.fakes import (
    FakePrune,
    FakeRenderer,
    FakeTaskSender,
    FakeWorkspace,
    refuse_address,
)

Suffer = Callable[[Place], None]

#: Up to which share of all mails what happens to them, and nothing leaves.
_TROUBLES = (
    (0.02, Fate.REFUSED),
    (0.05, Fate.DEFERRED),
    (0.07, Fate.UNREACHABLE),
    (0.08, Fate.UNCERTAIN),
)

#: And up to which share the mail leaves, but nobody learns of it.
_TAKEN_BUT_UNKNOWN = 0.1


@dataclass(eq=False)
class MailServer:
    """
    Takes mails, and counts them by Message-ID.

    Args:
        expect: Told of each mail before it is taken; None: nobody asks.
        down: Refuses every connection while True.
    """

    rng: Random
    expect: Callable[[str], None]
    trouble: float
    down: bool = False
    taken: Counter[str] = field(default_factory=Counter)

    def talk(self, mail: Mail) -> Sending:
        """Take *mail*, or not, as mail servers do."""
        drawn = self.rng.random()
        if self.down:
            return Sending(Fate.UNREACHABLE, "simulated")
        for share, outcome in _TROUBLES:
            if drawn < share * self.trouble:
                return Sending(outcome, "simulated")
        self.expect(mail.message_id)
        self.taken[mail.message_id] += 1
        if drawn < _TAKEN_BUT_UNKNOWN * self.trouble:
            return Sending(Fate.UNCERTAIN, "simulated")
        return Sending(Fate.SENT)


@dataclass(eq=False)
class SimulatedMailer:
    """A way to the mail server; see operations.ports.Mailer."""

    server: MailServer
    suffer: Suffer
    sleep: Callable[[int], None]

    def session(self) -> AbstractContextManager[SendMail]:
        """Return a session."""
        return self._open()

    @contextmanager
    def _open(self) -> Iterator[SendMail]:
        yield self._send

    def _send(self, mail: Mail, *, now: datetime) -> Sending:
        del now
        if (refused := refuse_address(mail)) is not None:
            return refused
        self.suffer(Place.BEFORE_MAIL)
        self.sleep(self.server.rng.randrange(10_000, 2 * SECOND))
        sending = self.server.talk(mail)
        self.suffer(Place.AFTER_MAIL)
        return sending


@dataclass(eq=False)
class SimulatedWorkspace(FakeWorkspace):
    """Domains without files; what is staged or published is logged by the database."""

    database: SimulatedDatabase = field(kw_only=True)
    sleep: Callable[[int], None] = field(kw_only=True)

    def fetch_domains(self, app: str) -> tuple[Domain, ...]:
        """Return the one domain there is."""
        del app
        return (Domain("sales", {"file": "sales.csv"}),)

    def draft_path(self, app: str, domain: str) -> Path:
        """Return a path that nobody opens."""
        return Path("nowhere") / app / domain

    def stage(self, by: Claimant, drafts: Sequence[DomainDraft]) -> dict[str, int]:
        """Log that something was staged, under the claim."""
        self._log(by.guard, by.operation_id, "refresh")
        return {draft.domain: 1 for draft in drafts}

    def publish(
        self, by: Claimant, kinds: Sequence[str], *, notify: bool = False
    ) -> tuple[Move, ...]:
        """Log that something was published, under the claim."""
        del kinds, notify
        self._log(by.guard, None, "publish")
        return ()

    def _log(self, guard: Guard, operation_id: UUID | None, step: str) -> None:
        self.sleep(SECOND // 10)
        with writing(self.database.engine) as connection:
            guard(connection)
            connection.exec_driver_sql(
                "INSERT INTO sim_log (what, id, a) VALUES ('effect', ?, ?)",
                (None if operation_id is None else str(operation_id), step),
            )


@dataclass(eq=False)
class SimulatedSources:
    """Sources that take longer than a lease, and sometimes fail."""

    server: MailServer
    suffer: Suffer
    sleep: Callable[[int], None]

    def read(self, asked: ReadRequest) -> Reading | None:
        """Take a while."""
        self.suffer(Place.EFFECT)
        self.sleep(self.server.rng.choice([2, 5, 20, 90]) * SECOND)
        if self.server.rng.random() < 0.05 * self.server.trouble:
            permanent = self.server.rng.random() < 0.3
            raise StepError("simulated: the source is away", permanent=permanent)
        return Reading(1, Fingerprint(source=str(asked.domain.source["file"])))


@dataclass(eq=False, kw_only=True)
class SimulatedCalls(FakeTaskSender):
    """Webhooks and tasks of others: they take a while, and sometimes fail."""

    server: MailServer
    suffer: Suffer
    sleep: Callable[[int], None]
    give: Callable[[ForeignTask], None]

    def post(self, request: WebhookRequest, *, now: datetime) -> Sending:
        """Post, or not."""
        del request, now
        self.suffer(Place.EFFECT)
        self.sleep(self.server.rng.randrange(10_000, 5 * SECOND))
        if self.server.rng.random() < 0.1 * self.server.trouble:
            return Sending(Fate.DEFERRED, "simulated")
        return Sending(Fate.SENT)

    def send(self, task: ForeignTask) -> ForeignTask:
        """Send, or not, or break in a way nobody expected."""
        self.suffer(Place.EFFECT)
        self.sleep(self.server.rng.randrange(1, 40) * SECOND)
        if self.server.rng.random() < 0.05 * self.server.trouble:
            raise StepError(f"simulated: {task.name} was not taken", permanent=False)
        self.give(task)
        if self.server.rng.random() < 0.02 * self.server.trouble:
            raise RuntimeError("simulated: a step that breaks")
        return task._replace(queue=task.queue or "default")


def make_ports(
    database: SimulatedDatabase,
    server: MailServer,
    suffer: Suffer,
    sleep: Callable[[int], None],
    *,
    send: Callable[[ForeignTask], None],
) -> Ports:
    """Return the ports of one worker process; *send* takes tasks of somebody's own."""
    calls = SimulatedCalls(server=server, suffer=suffer, sleep=sleep, give=send)
    return Ports(
        workspace=SimulatedWorkspace(Path("nowhere"), database=database, sleep=sleep),
        sources=SimulatedSources(server, suffer, sleep),
        mailer=SimulatedMailer(server, suffer, sleep),
        renderer=FakeRenderer(),
        directory=RealDirectory(database.engine),
        webhooks=calls,
        tasks=calls,
        prune=FakePrune(operations=3),
    )
