"""Uncertain mails: listed, confirmed, or sent again to those alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from models.database.engine import Author, reading, writing
from models.database.tables import deliveries, operation_steps, scheduled_actions
from models.errors import ConflictError, NotFoundError
from models.operation_state import MailState, OperationState, Overlap
from models.paging import Page
from operations.cancel_and_retry import cancel, reopen
from operations.mail.list_mails import MailFilter, count_mails, fetch_mails
from operations.mail.message import Fate, Sending, Template
from operations.mail.resolve_mails import confirm_mails, resend_mails, resolve_mails
from operations.ports import Ports
from operations.recipients import User
from tests.database import fetch_rows, read_by, write_by
from tests.scheduling import (
    add_runs,
    edit,
    fetch_noted,
    get,
    make_operation,
    record_all,
    run_attempt,
)
from tests.unit.operations.fakes import FakeDirectory, FakeMailer, World

DAILY = make_operation()
PEOPLE = ("ann", "ben", "cat", "dan")
LOST = Sending(Fate.UNCERTAIN, "the connection broke")
REFUSED = Sending(Fate.REFUSED, "550 no such mailbox")


@pytest.fixture
def mailer() -> FakeMailer:
    """Give a mail server that loses ben's and cat's, and refuses dan's."""
    return FakeMailer(
        outcomes={
            "ben@example.org": [LOST],
            "cat@example.org": [LOST],
            "dan@example.org": [REFUSED],
        }
    )


@pytest.fixture
def ports(tmp_path: Path, mailer: FakeMailer) -> Ports:
    """Give a world of four users, one template and that mail server."""
    directory = FakeDirectory(
        users=tuple(
            User(id=each, email=f"{each}@example.org", activated_at=DAILY.occurrence)
            for each in PEOPLE
        ),
        templates={"hello": Template("hello", "Hello", "Hello", None)},
    )
    made = World(tmp_path).make_context().ports
    return replace(made, mailer=mailer, directory=directory)


@pytest.fixture(autouse=True)
def _mailed(engine: sa.Engine, ports: Ports) -> None:
    """Give every test an operation that has mailed, with two steps."""
    add_runs(
        engine,
        DAILY,
        operations={
            "send_email": {"template": "hello"},
            "run_task": {"name": "tests.nothing"},
        },
        recipients={"users": list(PEOPLE)},
    )
    work(engine, ports)
    assert "succeeded" == get(engine, DAILY.id).state


def work(engine: sa.Engine, ports: Ports) -> None:
    """Be a worker that takes the operation."""
    run_attempt(engine, DAILY.id, ports)


def call(engine: sa.Engine, act: Any, *recipients: str, **more: Any) -> int:
    """Do *act* for *recipients*, as ada."""
    people = frozenset(recipients)
    wanted = MailFilter(operation_id=DAILY.id, recipients=people, **more)
    resend = act is resend_mails
    return resolve_mails(engine, wanted, resend=resend, by=Author("ada")).changed


def marks(engine: sa.Engine) -> dict[str, str]:
    query = sa.select(deliveries.c.recipient, deliveries.c.state)
    return {row.recipient: row.state for row in fetch_rows(engine, query)}


def fetch_steps(engine: sa.Engine) -> dict[str, sa.Row[Any]]:
    query = sa.select(operation_steps).order_by(operation_steps.c.position)
    return {row.name: row for row in fetch_rows(engine, query)}


BEFORE = {"ann": "sent", "ben": "uncertain", "cat": "uncertain", "dan": "failed"}


def test_uncertain_mails_are_counted_and_listed(engine: sa.Engine):
    """With their operation, and by any filter."""
    assert BEFORE == marks(engine)

    with reading(engine) as connection:
        listed = fetch_mails(connection, MailFilter(), Page()).entries
        every = count_mails(connection, MailFilter(state=None))
        elsewhere = count_mails(connection, MailFilter(app="other"))
        ben = count_mails(connection, MailFilter(recipients=frozenset({"ben"})))
        one = count_mails(
            connection, MailFilter(app="app", operation_id=DAILY.id, state=None)
        )

    assert ["ben", "cat"] == sorted(row.recipient for row in listed)
    assert {("app", "daily", "the connection broke")} == {
        (row.app, row.action_uid, row.error) for row in listed
    }
    assert {"sent": 1, "uncertain": 2, "failed": 1} == every == one
    assert ({}, {"uncertain": 1}) == (elsewhere, ben)


def test_confirmed_mails_count_as_sent(engine: sa.Engine, mailer: FakeMailer):
    """Who said so is kept, and nothing runs."""
    assert 1 == call(engine, confirm_mails, "ben")
    assert 1 == call(engine, confirm_mails)

    assert {**BEFORE, "ben": "sent", "cat": "sent"} == marks(engine)
    assert "succeeded" == get(engine, DAILY.id).state
    (row,) = read_by(
        engine,
        fetch_mails,
        MailFilter(state=None, recipients=frozenset({"cat"})),
        Page(2),
    ).entries
    assert "ada" == row.resolved_by
    assert row.resolved_at is not None
    assert 3 == len(mailer.mails)


def test_resent_mails_go_to_these_alone(
    engine: sa.Engine, ports: Ports, mailer: FakeMailer
):
    """Not to who was refused, and no other step runs again; the result tells of all."""
    first = {mail.address: mail.message_id for mail in mailer.mails}
    task = fetch_steps(engine)["run_task"]
    mailer.mails.clear()

    assert 1 == call(engine, resend_mails, "cat")
    assert "pending" == get(engine, DAILY.id).state
    work(engine, ports)

    assert ["cat@example.org"] == mailer.addresses
    assert first["cat@example.org"] == mailer.mails[0].message_id
    assert {**BEFORE, "cat": "sent"} == marks(engine)
    row = get(engine, DAILY.id)
    assert ("succeeded", None) == (row.state, row.details)
    steps = fetch_steps(engine)
    result = steps["send_email"].result
    assert (2, ["ben"], ["dan"]) == (
        result["sent"],
        result["uncertain"],
        [each["user"] for each in result["failed"]],
    )
    assert "succeeded" == steps["send_email"].state
    assert task == steps["run_task"]


def test_failed_mails_can_be_sent_again(
    engine: sa.Engine, ports: Ports, mailer: FakeMailer
):
    """If that is asked for: not those that are uncertain, or were sent."""
    mailer.mails.clear()

    assert 1 == call(engine, resend_mails, state=MailState.FAILED)
    work(engine, ports)

    assert ["dan@example.org"] == mailer.addresses
    assert {**BEFORE, "dan": "sent"} == marks(engine)
    result = fetch_steps(engine)["send_email"].result
    assert (2, [], ["ben", "cat"]) == (
        result["sent"],
        result["failed"],
        result["uncertain"],
    )


def test_who_decided_what_is_in_the_record_of_changes(engine: sa.Engine):
    """With who the mails are to."""
    call(engine, confirm_mails, "ben")
    call(engine, resend_mails, "cat")

    noted = fetch_noted(engine, "mail")
    assert [
        (str(DAILY.id), "app", "confirmed", {"to": {"send_email": ["ben"]}}),
        (str(DAILY.id), "app", "sent again", {"to": {"send_email": ["cat"]}}),
    ] == [(row.subject, row.app, row.change, row.after) for row in noted]


@pytest.mark.parametrize("function", [confirm_mails, resend_mails])
def test_operation_of_another_app_is_unknown(engine: sa.Engine, function: Any):
    """In the words for one that never was."""
    with pytest.raises(NotFoundError, match=f"there is no operation {DAILY.id}"):
        call(engine, function, app="other")

    assert 2 == call(engine, function, app="app")


def test_what_is_lost_again_is_uncertain_again(
    engine: sa.Engine, ports: Ports, mailer: FakeMailer
):
    """And may be decided about again."""
    mailer.outcomes["ben@example.org"] = [LOST]
    call(engine, resend_mails)
    work(engine, ports)
    assert {**BEFORE, "cat": "sent"} == marks(engine)

    call(engine, resend_mails, "ben")
    work(engine, ports)

    assert {**BEFORE, "ben": "sent", "cat": "sent"} == marks(engine)
    result = fetch_steps(engine)["send_email"].result
    assert (3, []) == (result["sent"], result["uncertain"])


@pytest.mark.parametrize("state", ["canceled", "failed"])
def test_operation_that_had_not_succeeded_is_again_what_it_was(
    engine: sa.Engine, ports: Ports, mailer: FakeMailer, state: str
):
    """A canceled operation must not go on with its other mails because of one."""
    edit(engine, DAILY.id, state=state, reason="step failed: run_task", error="x")
    with writing(engine) as connection:
        connection.execute(
            sa.update(operation_steps).values(state="skipped", error="y")
        )
        gone = deliveries.c.recipient == "ann"
        connection.execute(sa.delete(deliveries).where(gone))
    mailer.mails.clear()

    call(engine, resend_mails, "ben")
    work(engine, ports)

    assert ["ben@example.org"] == mailer.addresses
    row = get(engine, DAILY.id)
    assert (state, "step failed: run_task", "x", None) == (
        row.state,
        row.reason,
        row.error,
        row.details,
    )
    assert {("skipped", "y")} == {
        (step.state, step.error) for step in fetch_steps(engine).values()
    }


def test_resend_that_fails_is_tried_again_as_a_resend(
    engine: sa.Engine, ports: Ports, mailer: FakeMailer
):
    """Also after it was canceled: a retry reaches the same people, and nobody else."""
    edit(engine, DAILY.id, state="canceled")
    mailer.outcomes["ben@example.org"] = [
        Sending(Fate.UNREACHABLE, "away"),
        Sending(Fate.REFUSED, "550"),
    ]
    call(engine, resend_mails, "ben")
    work(engine, ports)
    assert "pending" == get(engine, DAILY.id).state
    with writing(engine) as connection:
        assert cancel(connection, DAILY.id, reason="canceled")
        assert reopen(connection, DAILY.id)
    work(engine, ports)
    assert "failed" == get(engine, DAILY.id).state
    mailer.mails.clear()
    assert write_by(engine, reopen, DAILY.id)

    work(engine, ports)

    assert ["ben@example.org"] == mailer.addresses
    assert ("canceled", None) == (
        get(engine, DAILY.id).state,
        get(engine, DAILY.id).details,
    )


@pytest.mark.parametrize("resend", [False, True])
def test_what_is_counted_is_what_is_changed(engine: sa.Engine, resend: bool):  # noqa: FBT001
    """Not the other mails of the same operations: of another time, or to others."""
    with writing(engine) as connection:
        ben = connection.execute(
            sa.select(deliveries.c.updated_at).where(deliveries.c.recipient == "ben")
        ).scalar_one()
        connection.execute(
            sa.update(deliveries)
            .where(deliveries.c.recipient == "cat")
            .values(updated_at=ben - timedelta(hours=1))
        )
    late = MailFilter(since=ben, recipients=frozenset({"ben", "cat", "eve"}))
    assert {"uncertain": 1} == read_by(engine, count_mails, late)

    resolved = resolve_mails(engine, late, resend=resend, by=Author("ada"))

    assert (1, {}) == (resolved.changed, resolved.refused)
    after = "failed" if resend else "sent"
    assert {**BEFORE, "ben": after} == marks(engine)
    if resend:
        memo = fetch_steps(engine)["send_email"].memo
        assert ["ben"] == memo["resent"]["to"]


def test_mail_that_is_not_uncertain_is_not_decided_about(engine: sa.Engine):
    """One typo among several refuses them all."""
    for function in (confirm_mails, resend_mails):
        for recipients in (("ann",), ("ben", "typo")):
            with pytest.raises(NotFoundError, match="no uncertain mail to"):
                call(engine, function, *recipients)
    assert BEFORE == marks(engine)


@pytest.mark.parametrize("state", ["pending", "running", "skipped"])
def test_what_is_under_way_is_not_sent_again(engine: sa.Engine, state: str):
    """It may be confirmed, for that runs nothing."""
    edit(engine, DAILY.id, state=state)

    with pytest.raises(ConflictError, match="cannot be sent again now"):
        call(engine, resend_mails)

    assert BEFORE == marks(engine)
    assert 2 == call(engine, confirm_mails)


def test_resend_keeps_to_overlap(engine: sa.Engine):
    """It would run beside another; of many operations the others go on."""
    edit(engine, DAILY.id, overlap=Overlap.SKIP)
    record_all(engine, make_operation(1))

    with pytest.raises(ConflictError, match="overlap of the action is skip"):
        call(engine, resend_mails)
    resolved = resolve_mails(engine, MailFilter(), resend=True, by=Author("ada"))

    assert (0, [str(DAILY.id)]) == (resolved.changed, list(resolved.refused))
    assert BEFORE == marks(engine)
    edit(engine, make_operation(1).id, state=OperationState.SUCCEEDED)
    assert (
        2 == resolve_mails(engine, MailFilter(), resend=True, by=Author("ada")).changed
    )


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_resend_waits_for_whoever_holds_the_action(engine: sa.Engine):
    """A run that is recorded at the same moment would be live beside it."""
    edit(engine, DAILY.id, overlap=Overlap.SKIP)
    held = sa.select(scheduled_actions.c.uid).with_for_update()
    resend = partial(resend_mails, wanted=MailFilter(operation_id=DAILY.id))
    with engine.begin() as other:
        other.execute(held)
        with engine.connect() as hasty:
            hasty.execute(sa.text("set lock_timeout = '100ms'"))
            with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
                resend(hasty)
    assert BEFORE == marks(engine)
