"""What mails said: kept with their marks, once for equal mails, and removed by age."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from models.database.tables import deliveries, mail_contents, operations
from models.operation_state import MailState
from operations.adapters.prune import DatabasePrune
from operations.mail.delivery_marks import LARGEST, DeliveryMarks
from operations.mail.list_mails import KeptContent, ReadMail, fetch_mail
from operations.mail.message import Mail, compute_message_id
from tests.database import execute, fetch_rows, read_by
from tests.integration.test_budget import counting
from tests.scheduling import add_runs, at, make_operation, must_claim

DAILY = make_operation()
STEP = "send_email"


def make_mail(text: str = "Hello", html: str | None = "<p>Hello</p>") -> Mail:
    """Return a mail; who it is to does not matter here."""
    return Mail("id@minutehand", "ann@example.org", "Ann", "Greetings", text, html)


@pytest.fixture
def marks(engine: sa.Engine) -> DeliveryMarks:
    """Give the marks of a claimed operation."""
    return claim(engine)


def claim(engine: sa.Engine, *, keeps_content: bool = True) -> DeliveryMarks:
    """Record an operation and claim it."""
    add_runs(engine, DAILY)
    claimed = must_claim(engine, DAILY.id)
    return DeliveryMarks(engine, claimed, STEP, keeps_content=keeps_content)


def read(engine: sa.Engine, recipient: str, app: str | None = None) -> ReadMail:
    return read_by(engine, fetch_mail, DAILY.id, STEP, recipient, app=app)


def count_contents(engine: sa.Engine) -> int:
    query = sa.select(sa.func.count()).select_from(mail_contents)
    return fetch_rows(engine, query).scalar_one()


def test_mail_can_be_read_as_it_was_sent(engine: sa.Engine, marks: DeliveryMarks):
    """
    Subject and both parts, with the state of its mark, before it leaves: of one whose
    fate is unknown, one wants to know what it said.
    """
    marks.start("ann", make_mail())
    leaving = read(engine, "ann")
    assert ("sending", "Hello") == (leaving.state, leaving.text)
    marks.end("ann", MailState.SENT)

    found = read(engine, "ann")

    assert ("Greetings", "Hello", "<p>Hello</p>") == (
        found.subject,
        found.text,
        found.html,
    )
    assert ("sent", KeptContent.YES) == (found.state, found.content)
    assert compute_message_id(DAILY.id, STEP, "ann") == found.message_id


def test_equal_mails_share_a_row(engine: sa.Engine, marks: DeliveryMarks):
    """Also those of another attempt."""
    marks.start("ann", make_mail())
    marks.start("ben", make_mail())
    DeliveryMarks(engine, marks.claim, STEP).start("cat", make_mail())
    marks.start("dan", make_mail("Bye"))

    assert 2 == count_contents(engine)
    assert ["Hello", "Hello", "Hello", "Bye"] == [
        read(engine, each).text for each in ("ann", "ben", "cat", "dan")
    ]


def test_mail_that_is_sent_again_is_kept_as_it_was_sent_last(
    engine: sa.Engine, marks: DeliveryMarks
):
    """The template may have been mended since the first attempt."""
    marks.start("ann", make_mail("wrong"))
    marks.end("ann", MailState.FAILED, "550")
    marks.start("ann", make_mail("right"))

    assert "right" == read(engine, "ann").text


def test_large_mail_is_not_kept(engine: sa.Engine, marks: DeliveryMarks):
    """It is sent all the same, and what is missing is said, to the next one, too."""
    for recipient in ("ann", "ben"):
        marks.start(recipient, make_mail("x" * LARGEST))

        found = read(engine, recipient)

        told = (found.content, found.subject, found.text)
        assert (KeptContent.TOO_LARGE, None, None) == told
    assert 0 == count_contents(engine)


def test_characters_that_no_database_takes_stop_no_mail(
    engine: sa.Engine, marks: DeliveryMarks
):
    """NUL and halves of surrogate pairs are replaced in what is kept."""
    marks.start("ann", make_mail("a\0b\ud800c", html=None))

    assert "a\ufffdb\ufffdc" == read(engine, "ann").text


def test_nothing_is_kept_if_the_settings_say_so(engine: sa.Engine):
    """MINUTEHAND_KEEP_MAILS=false: marks alone."""
    claim(engine, keeps_content=False).start("ann", make_mail())

    found = read(engine, "ann")

    assert (KeptContent.NO, None) == (found.content, found.subject)
    assert 0 == count_contents(engine)


def test_content_goes_with_the_last_mail_that_has_it(
    engine: sa.Engine, marks: DeliveryMarks
):
    """And no earlier, however old it is."""
    marks.start("ann", make_mail())
    prune = DatabasePrune(engine).prune
    tomorrow = at("07:00") + timedelta(days=36_500)
    assert 0 == prune("mails", before=tomorrow, limit=10)
    execute(engine, sa.delete(operations))

    assert 1 == prune("mails", before=tomorrow, limit=10)
    assert 0 == count_contents(engine)


def test_young_content_stays(engine: sa.Engine, marks: DeliveryMarks):
    """A mail that has it may be about to be marked."""
    marks.start("ann", make_mail())
    execute(engine, sa.delete(deliveries))
    before = at("07:00") - timedelta(days=36_500)

    assert 0 == DatabasePrune(engine).prune("mails", before=before, limit=10)


def test_keeping_costs_no_round_trip(postgres_engine: sa.Engine):
    """Guard, look and mark; what it says goes with the mark."""
    without = claim(postgres_engine, keeps_content=False)
    kept = DeliveryMarks(postgres_engine, without.claim, STEP)
    costs = []
    for marks, recipient in ((without, "ann"), (kept, "ben")):
        with counting(postgres_engine) as counts:
            marks.start(recipient, make_mail())
        costs.append(counts.statements)

    assert costs[0] == costs[1]
