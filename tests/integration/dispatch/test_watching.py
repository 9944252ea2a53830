"""What is late is told once, and what fails again and again is paused, once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from actions.lease import LeadershipLostError, expire_lease
from actions.pausing.pause_and_resume import pause_action, resume_action
from dispatch import watching
from dispatch.noticer import Noticer
from dispatch.watching import LateLook, Rester
from models.database.tables import notices
from models.operation_state import OperationState, Trigger
from models.requests.notes import PauseModel
from operations.cancel_and_retry import reopen
from overview.why.instant import explain_instant
from tests.database import write_by
from tests.integration.dispatch.test_noticer import end, fail, fetch_notices, succeed
from tests.scheduling import (
    HOUR,
    MINUTE,
    add_app,
    add_revision,
    edit,
    edit_action,
    fetch_action,
    get,
    get_now,
    lead,
    make_operation,
    post,
    record_all,
)

WITHIN = "not ended within 30 min of its time"
TAKES = "took more than 10 min"


def make_look(engine: sa.Engine, **options: Any) -> LateLook:
    leader = lead(engine)
    mail = {"mail": ("ops@example.org",), **options}
    return LateLook(engine, leader, Noticer(engine, leader, **mail))


@pytest.fixture
def look(engine: sa.Engine) -> LateLook:
    """Give one that leads, and an action that expects something."""
    add_revision(engine, expect={"within": "PT30M", "takes": "PT10M"})
    return make_look(engine)


def run(
    engine: sa.Engine,
    *,
    due: timedelta = timedelta(0),
    started: timedelta | None = None,
    state: str = "running",
    number: int = 0,
    **changes: Any,
) -> UUID:
    """Record an operation that was due, and began, so long ago."""
    now = get_now(engine)
    made = make_operation(number, **changes)
    made = made._replace(occurrence=now - due, expected_at=now - due + 10 * MINUTE)
    record_all(engine, made)
    begun_at = None if started is None else now - started
    edit(engine, made.id, state=state, started_at=begun_at)
    return made.id


def test_late_run_is_told_once_and_that_it_ended(engine: sa.Engine, look: LateLook):
    """Each in a notice; in between, nothing."""
    late = run(engine, due=HOUR, started=5 * MINUTE)

    assert [1, 0] == [look.look(), look.look()]
    assert [1, 0] == [look.noticer.look(), look.noticer.look()]
    [told] = fetch_notices(engine)
    assert ("late", WITHIN, 1, [str(late)]) == (
        *(told["kind"], told["cause"], told["count"]),
        told["operations"],
    )

    later = get_now(engine) + HOUR
    assert 0 == look.noticer.look(now=later)  # for it still runs
    end(engine, [late])
    assert [1, 0] == [look.noticer.look(now=later) for _ in range(2)]
    told = fetch_notices(engine)[-1]
    assert ("recovered", "late", 1) == (told["kind"], told["was"], told["count"])


def test_what_keeps_to_it_is_not_told(engine: sa.Engine, look: LateLook):
    """It is looked at again when it may be late, and no more once it has ended."""
    going, ended = run(engine), run(engine, number=1)
    now = get_now(engine)
    edit(engine, going, expected_at=now, started_at=now - MINUTE)
    edit(engine, ended, expected_at=now, started_at=now - MINUTE)
    end(engine, [ended])

    assert 2 == look.look()

    assert now + 9 * MINUTE == get(engine, going).expected_at
    assert get(engine, ended).expected_at is None
    assert 0 == look.noticer.look()


@pytest.mark.parametrize("state", ["skipped", "missed", "canceled"])
def test_what_did_not_run_is_not_late(engine: sa.Engine, look: LateLook, state: str):
    """It is told of as what it is, if at all, and looked at no more."""
    gone = run(engine, due=HOUR, state=state)

    assert [1, 0] == [look.look(), look.look()]
    assert (None, None) == (get(engine, gone).late, get(engine, gone).expected_at)


def test_run_takes_too_long_from_its_first_start(engine: sa.Engine, look: LateLook):
    """Whatever it waits for between two attempts; so does one that nobody scheduled."""
    retrying = run(engine, started=11 * MINUTE, state="pending", trigger="manual")
    edit(engine, retrying, expected_at=get_now(engine))

    look.look()

    assert TAKES == get(engine, retrying).late


def test_retry_by_hand_is_not_looked_at_again(engine: sa.Engine, look: LateLook):
    """Whoever retries it looks at it; that it was late stays."""
    late = run(engine, due=HOUR, started=MINUTE)
    look.look()
    end(engine, [late], state=OperationState.FAILED, error="no")
    assert write_by(engine, reopen, late)

    assert 0 == look.look()
    assert WITHIN == get(engine, late).late


def test_crash_tells_nothing_twice(
    engine: sa.Engine, look: LateLook, monkeypatch: pytest.MonkeyPatch
):
    """That it is late, and the notice of it, are of one transaction."""

    def crash(*_given: Any, **_named: Any) -> None:
        raise SystemExit

    late = run(engine, due=HOUR, started=MINUTE)
    with monkeypatch.context() as patch:
        patch.setattr(Noticer, "add", crash)
        with pytest.raises(SystemExit):
            look.look()
    assert get(engine, late).late is None
    write_by(engine, expire_lease)

    make_look(engine).look()

    with engine.connect() as connection:
        assert [1] == list(connection.scalars(sa.select(notices.c.count)))


def test_former_leader_tells_nothing(engine: sa.Engine, look: LateLook):
    """Its fence is over: the next one finds the same, once."""
    late = run(engine, due=HOUR, started=MINUTE)
    write_by(engine, expire_lease)
    next_one = make_look(engine)

    with pytest.raises(LeadershipLostError):
        look.look()

    assert get(engine, late).late is None
    assert [1, 0] == [next_one.look(), next_one.look()]


def test_many_are_judged_in_parts(
    engine: sa.Engine, look: LateLook, monkeypatch: pytest.MonkeyPatch
):
    """A part tells that others may follow; each cause is a notice."""
    monkeypatch.setattr(watching, "_SELECT_DUE", watching._SELECT_DUE.limit(1))
    run(engine, due=HOUR, started=MINUTE)
    run(engine, due=20 * MINUTE, started=12 * MINUTE, number=1)

    assert [1, 1, 0] == [look.look() for _ in range(3)]
    assert 2 == look.noticer.look()
    assert {WITHIN, TAKES} == {told["cause"] for told in fetch_notices(engine)}


def test_other_bounds_are_other_notices(engine: sa.Engine, look: LateLook):
    """Nobody reads of half an hour where an hour was meant."""
    post(engine, uid="other", name="other", expect={"within": "PT1H"})
    run(engine, due=2 * HOUR, started=MINUTE)
    run(engine, due=2 * HOUR, started=MINUTE, number=1, action_uid="other")

    look.look()

    assert 2 == look.noticer.look()


def test_why_says_it(engine: sa.Engine, look: LateLook):
    """And, once it has ended, that it did."""
    late = run(engine, due=HOUR, started=MINUTE)
    look.look()
    at = get(engine, late).occurrence
    told = []
    for _look in range(2):
        with engine.connect() as connection:
            told += [each.text for each in explain_instant(connection, "daily", at)]
        end(engine, [late])

    assert [
        f"it is running now; late: {WITHIN}",
        f"it succeeded; late: {WITHIN}; ended after all",
    ] == told


def test_without_notices_it_is_still_shown(engine: sa.Engine, look: LateLook):
    """Nobody is told, but the run says it."""
    late = run(engine, due=HOUR, started=MINUTE)

    LateLook(engine, look.leader, Noticer(engine, look.leader)).look()

    assert WITHIN == get(engine, late).late
    assert not fetch_notices(engine)


@pytest.fixture
def rester(engine: sa.Engine) -> Rester:
    """Give one that leads, and an action that rests after three failures."""
    add_app(engine)
    post(engine, uid="daily", rest_after=3)
    edit_action(engine, "daily", next_due_at=None)
    leader = lead(engine)
    return Rester(engine, leader, Noticer(engine, leader, mail=("ops@example.org",)))


def change(
    engine: sa.Engine, uid: str, how: Callable[..., bool], *asked: PauseModel
) -> None:
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


@pytest.mark.parametrize("trigger", [Trigger.MANUAL, Trigger.BACKFILL])
def test_what_somebody_asked_for_does_not_count(
    engine: sa.Engine, rester: Rester, trigger: Trigger
):
    """Neither as a failure, nor as a success."""
    fail(engine, 0, 1)
    fail(engine, 2, trigger=trigger)
    assert 0 == rester.look()

    succeed(engine, 3, at=get_now(engine), trigger=trigger)
    fail(engine, 4)
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
    statement = watching._TIRED_AND_FREE.limit(1)
    monkeypatch.setattr(watching, "_TIRED_AND_FREE", statement)
    post(engine, uid="other", name="other", rest_after=1)
    fail(engine, 0, 1, 2)
    fail(engine, 0, action_uid="other")

    assert [1, 1, 0] == [rester.look() for _ in range(3)]


def test_former_leader_pauses_nothing(engine: sa.Engine, rester: Rester):
    """Its fence is over: the next one finds the same."""
    fail(engine, 0, 1, 2)
    write_by(engine, expire_lease)
    other = lead(engine)

    with pytest.raises(LeadershipLostError):
        rester.look()

    assert fetch_action(engine, "daily").paused_at is None
    assert 1 == Rester(engine, other, Noticer(engine, other)).look()
