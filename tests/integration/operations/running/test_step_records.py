"""What an attempt writes of its steps and mails, and what the next one finds."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from models.database.engine import writing
from models.errors import ClaimLostError
from models.operation_state import MailState, StepState
from operations.claiming.claim import give_back, guard
from operations.claiming.claimed import Claim
from operations.mail.delivery_marks import DeliveryMarks
from operations.running.step_records import (
    finish_step,
    prepare_steps,
    record_progress,
    remember,
    skip_open_steps,
    start_step,
)
from tests.scheduling import (
    add_runs,
    edit,
    expire,
    get,
    get_steps,
    make_operation,
    must_claim,
)

DAILY = make_operation()


@pytest.fixture
def recorded(engine: sa.Engine) -> sa.Engine:
    """Give a database in which DAILY waits to run, whose claim begins no steps."""
    add_runs(engine, DAILY, when={"after": "instance.user.last_seen", "delay": "PT1H"})
    return engine


def prepare(engine: sa.Engine, claim: Claim) -> list[tuple[str, StepState]]:
    with writing(engine) as connection:
        guard(connection, claim)
        steps = prepare_steps(connection, claim, ["refresh", "publish"])
    return [(step.name, step.state) for step in steps]


def test_later_attempt_finds_what_the_former_did(recorded: sa.Engine):
    """Steps are written down once; a memo is kept for the next attempt."""
    claim = must_claim(recorded, DAILY.id)
    assert [("refresh", "pending"), ("publish", "pending")] == prepare(recorded, claim)
    with writing(recorded) as connection:
        start_step(connection, claim, "refresh")
        remember(connection, claim, "refresh", {"seen": [1, 2]})
        record_progress(connection, claim, "refresh", {"done": 1, "total": 2})
        finish_step(connection, claim, "refresh", StepState.SUCCEEDED, result={"a": 1})
        start_step(connection, claim, "publish")
    expire(recorded, DAILY.id)
    again = must_claim(recorded, DAILY.id)

    assert [("publish", "running")] == prepare(recorded, again)
    refresh, _publish = get_steps(recorded, DAILY.id)
    assert ({"seen": [1, 2]}, {"a": 1}) == (refresh.memo, refresh.result)
    assert {"step": "refresh", "done": 1, "total": 2} == get(
        recorded, DAILY.id
    ).progress


@pytest.mark.parametrize("how", ["lost", "given back", "reopened"])
def test_steps_are_written_down_by_whoever_comes_first(recorded: sa.Engine, how: str):
    """A worker that died right after its claim left none: the next runs them all."""
    claim = must_claim(recorded, DAILY.id)
    if how == "given back":
        give_back(recorded, claim)
    elif how == "lost":
        expire(recorded, DAILY.id)
    else:
        edit(recorded, DAILY.id, state="pending", claim_token=None)

    again = must_claim(recorded, DAILY.id)

    assert [("refresh", "pending"), ("publish", "pending")] == prepare(recorded, again)


def test_open_steps_are_skipped(recorded: sa.Engine):
    """What succeeded or failed stays; what has not run will not."""
    claim = must_claim(recorded, DAILY.id)
    prepare(recorded, claim)
    with writing(recorded) as connection:
        start_step(connection, claim, "refresh")
        finish_step(connection, claim, "refresh", StepState.FAILED, error="x")
        skip_open_steps(connection, [claim.operation_id])

    steps = get_steps(recorded, DAILY.id)
    assert [("refresh", "failed", 1), ("publish", "skipped", 0)] == [
        (step.name, step.state, step.attempt) for step in steps
    ]


def test_delivery_marks_keep_a_mail_from_being_sent_twice(recorded: sa.Engine):
    """Sent stays sent, a refusal may be tried again, the unknown is left alone."""
    claim = must_claim(recorded, DAILY.id)
    marks = DeliveryMarks(recorded, claim, "send_email")
    for recipient in ("sent", "failed", "dead", "unsure"):
        assert marks.start(recipient) is None
    marks.end("sent", MailState.SENT)
    marks.end("failed", MailState.FAILED, "550")
    marks.end("unsure", MailState.UNCERTAIN, "connection lost")
    expire(recorded, DAILY.id)
    again = DeliveryMarks(recorded, must_claim(recorded, DAILY.id), "send_email")

    states = {each: again.start(each) for each in ("sent", "failed", "dead", "unsure")}

    assert {
        "sent": MailState.SENT,
        "failed": None,
        "dead": MailState.UNCERTAIN,
        "unsure": MailState.UNCERTAIN,
    } == states
    assert MailState.UNCERTAIN is again.start("dead")
    # another step mails the same people on its own account
    other = DeliveryMarks(recorded, again.claim, "send_execsum")
    assert other.start("sent") is None


@pytest.mark.parametrize(("call", "told"), [("start", ()), ("end", (MailState.SENT,))])
def test_overtaken_worker_marks_no_delivery(
    recorded: sa.Engine, call: str, told: tuple[MailState, ...]
):
    """Only who holds the claim sends mail or says so."""
    stale = DeliveryMarks(recorded, must_claim(recorded, DAILY.id), "send_email")
    expire(recorded, DAILY.id)
    must_claim(recorded, DAILY.id)

    with pytest.raises(ClaimLostError):
        getattr(stale, call)("ann", *told)
