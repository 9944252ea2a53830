"""What fails again and again is paused, once, if its action asks for that."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from actions.leader import Leader, LeadershipLostError, expire_lease
from actions.pausing.pause_and_resume import pause_action, resume_action
from dispatch import watching
from dispatch.noticer import Noticer
from dispatch.watching import Rester
from models.operation_state import Trigger
from models.requests.notes import PauseModel
from tests.database import write_by
from tests.integration.dispatch.test_noticer import fail, fetch_notices, succeed
from tests.scheduling import add_app, edit, edit_action, fetch_action, get_now, post

HOUR = timedelta(hours=1)


@pytest.fixture
def rester(engine: sa.Engine) -> Rester:
    """Give one that leads, and an action that rests after three failures."""
    add_app(engine)
    post(engine, uid="daily", rest_after=3)
    edit_action(engine, "daily", next_due_at=None)
    leader = Leader(engine)
    assert leader.hold()
    return Rester(engine, leader, Noticer(engine, leader, mail=("ops@example.org",)))


def change(
    engine: sa.Engine, uid: str, how: Callable[..., bool], *asked: PauseModel
) -> None:
    """Pause or resume an action."""
    assert write_by(engine, how, uid, *asked)


def test_third_failure_in_a_row_pauses_once(engine: sa.Engine, rester: Rester):
    """With what failed last, and a notice to whom notices go."""
    fail(engine, 0, 1)
    assert 0 == rester.look()
    fail(engine, 2, error="send_email: 550 no such user")

    assert [1, 0] == [rester.look(), rester.look()]

    row = fetch_action(engine, "daily")
    note = "paused after 3 failures in a row; last: send_email: 550 no such user"
    assert (note, "scheduler", None, None) == (
        row.pause_note,
        row.paused_by,
        row.paused_until,
        row.pause_scope,
    )
    rester.noticer.look()
    (rested,) = [n for n in fetch_notices(engine) if n["kind"] == "rested"]
    assert (1, note) == (rested["count"], rested["cause"])


def test_success_between_begins_anew(engine: sa.Engine, rester: Rester):
    """In the order in which they were due, whenever they ended."""
    fail(engine, 0, 1, 3)
    succeed(engine, 2, at=get_now(engine) - HOUR)

    assert 0 == rester.look()
    fail(engine, 4, 5)
    assert 1 == rester.look()


def test_resume_begins_anew(engine: sa.Engine, rester: Rester):
    """What failed before says nothing of what somebody has mended."""
    fail(engine, 0, 1, 2)
    rester.look()

    change(engine, "daily", resume_action)
    revision = fetch_action(engine, "daily").revision
    fail(engine, 3, 4, action_revision=revision)

    assert 0 == rester.look()
    fail(engine, 5, action_revision=revision)
    assert 1 == rester.look()


@pytest.mark.parametrize(
    ("number", "changes"),
    [(2, {"trigger": Trigger.MANUAL}), (2, {"trigger": Trigger.BACKFILL})],
)
def test_what_somebody_asked_for_does_not_count(
    engine: sa.Engine, rester: Rester, number: int, changes: dict[str, Any]
):
    """Neither as a failure, nor as a success."""
    fail(engine, 0, 1)
    fail(engine, number, **changes)
    assert 0 == rester.look()

    succeed(engine, number + 1, at=get_now(engine), **changes)
    fail(engine, number + 2)
    assert 1 == rester.look()


@pytest.mark.parametrize("state", ["skipped", "missed", "canceled"])
def test_what_did_not_run_neither_counts_nor_begins_anew(
    engine: sa.Engine, rester: Rester, state: str
):
    """Only what ran says whether it works."""
    first, *_ = fail(engine, 0, 1, 2)
    edit(engine, first, state=state)
    assert 0 == rester.look()
    fail(engine, 3)

    assert 1 == rester.look()


def test_retry_that_succeeds_has_not_failed(engine: sa.Engine, rester: Rester):
    """It is the same run."""
    _first, second, _third = fail(engine, 0, 1, 2)
    edit(engine, second, state="succeeded")

    assert 0 == rester.look()


def test_others_are_left_alone(engine: sa.Engine, rester: Rester):
    """Those that ask for nothing, and those that are paused already."""
    post(engine, uid="other", name="other")
    fail(engine, *range(9), action_uid="other")
    fail(engine, 0, 1, 2)
    change(engine, "daily", pause_action, PauseModel(note="mine"))

    assert 0 == rester.look()
    assert "mine" == fetch_action(engine, "daily").pause_note
    assert fetch_action(engine, "other").paused_at is None


def test_many_are_paused_in_parts(
    engine: sa.Engine, rester: Rester, monkeypatch: pytest.MonkeyPatch
):
    """A part tells that others may follow."""
    statement = watching._TIRED.limit(1)
    monkeypatch.setattr(watching, "_TIRED", statement)
    monkeypatch.setattr(watching, "PAUSED_AT_ONCE", 1)
    post(engine, uid="other", name="other", rest_after=1)
    fail(engine, 0, 1, 2)
    fail(engine, 0, action_uid="other")

    assert [1, 1, 0] == [rester.look() for _ in range(3)]


def test_former_leader_pauses_nothing(engine: sa.Engine, rester: Rester):
    """Its fence is over: the next one finds the same."""
    fail(engine, 0, 1, 2)
    write_by(engine, expire_lease)
    other = Leader(engine)
    assert other.hold()

    with pytest.raises(LeadershipLostError):
        rester.look()

    assert fetch_action(engine, "daily").paused_at is None
    assert 1 == Rester(engine, other, Noticer(engine, other)).look()
