"""Mailers, in memory, to a folder and to a mail server, keep their promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from random import Random

import pytest

from operations.adapters.smtp import make_mailer
from operations.mail.message import Fate, Mail, Sending
from operations.ports import Mailer
from tests.mail_server import MailServer
from tests.simulation.ports import MailServer as SimulatedServer
from tests.simulation.ports import SimulatedMailer
from tests.unit.operations.fakes import FakeMailer

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
SENDER = "Minutehand <reports@example.org>"


@dataclass
class Case:
    """
    A mailer, and what arrives.

    Args:
        fetch_ids: The Message-IDs that arrived, in order.
        refuse: Makes the server refuse an address. None: there is no server.
    """

    mailer: Mailer
    fetch_ids: Callable[[], list[str]]
    refuse: Callable[[str], None] | None = None

    def send(self, *mails: Mail) -> list[Fate]:
        """Send *mails* in one session."""
        with self.mailer.session() as send:
            return [send(mail, now=NOW).outcome for mail in mails]


def read_folder(folder: Path) -> list[EmailMessage]:
    """Read the mails of *folder*, by their names."""
    return [
        message_from_bytes(path.read_bytes(), policy=policy.default)
        for path in sorted(folder.glob("*.eml"))
    ]


def find_ids(messages: list[EmailMessage]) -> list[str]:
    """Return the ids without what surrounds them in a header."""
    return [str(each["Message-ID"]).strip("<>") for each in messages]


def make_fake() -> Case:
    """Return the fake of the steps' tests."""
    fake = FakeMailer()

    def refuse(address: str) -> None:
        fake.outcomes[address] = [Sending(Fate.REFUSED, "550 no such user")]

    return Case(fake, lambda: [mail.message_id for mail in fake.mails], refuse)


def make_simulated() -> Case:
    """Return the mailer of the simulated world, on a day without trouble."""
    server = SimulatedServer(Random(0), expect=lambda _id: None, trouble=0)
    mailer = SimulatedMailer(server, lambda _place: None, lambda _duration: None)
    return Case(mailer, lambda: list(server.taken.elements()))


@pytest.fixture(params=["memory", "simulated", "folder", "smtp"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """Give each mailer there is."""
    match request.param:
        case "memory":
            return make_fake()
        case "simulated":
            return make_simulated()
        case "folder":
            mailer = make_mailer(str(tmp_path), sender=SENDER)
            return Case(mailer, lambda: find_ids(read_folder(tmp_path)))
    server: MailServer = request.getfixturevalue("smtp_server")
    mailer = make_mailer(server.url, sender=SENDER)
    return Case(mailer, lambda: find_ids(server.messages), server.refused.add)


def make_mail(number: int, address: str = "ann@example.org") -> Mail:
    """Return a mail whose id sorts as *number* does."""
    return Mail(
        message_id=f"{number}@minutehand",
        address=address,
        name="Ann",
        subject="Hello",
        text="Text",
        html=None,
    )


def test_mails_of_a_session_arrive_in_order(case: Case) -> None:
    """Each once, under its own id."""
    outcomes = case.send(*map(make_mail, range(3)))

    assert [Fate.SENT] * 3 == outcomes
    assert [f"{number}@minutehand" for number in range(3)] == case.fetch_ids()


def test_session_without_mails_sends_nothing(case: Case) -> None:
    """It need not even connect."""
    assert [] == case.send()
    assert [] == case.fetch_ids()


@pytest.mark.parametrize(
    "address",
    ["", "ann", "a b@x.org", "a@x.org\r\nRCPT TO:<b@x.org>", "a@x.org,b@x.org"],
)
def test_what_is_not_an_address_is_refused(case: Case, address: str) -> None:
    """The others of the session arrive."""
    outcomes = case.send(make_mail(0, address), make_mail(1))

    assert [Fate.REFUSED, Fate.SENT] == outcomes
    assert ["1@minutehand"] == case.fetch_ids()


def test_server_that_refuses_one_takes_the_others(case: Case) -> None:
    """What is refused has certainly not left."""
    if case.refuse is None:
        return  # nobody is there to refuse anything
    case.refuse("ben@example.org")

    outcomes = case.send(make_mail(0, "ben@example.org"), make_mail(1))

    assert [Fate.REFUSED, Fate.SENT] == outcomes
    assert ["1@minutehand"] == case.fetch_ids()
