"""What a backfill would run is listed before anything is stored."""

from __future__ import annotations

from uuid import uuid4

import pytest
import sqlalchemy as sa

from dispatch.backfills import planning
from dispatch.backfills.planning import Recorded
from models.errors import ConflictError, UsageError
from models.occurrence import make_missed_id
from models.requests.actions import Which
from tests.integration.dispatch.backfills.backfilling import (
    SEVENS,
    UNTIL,
    plan,
    post_daily,
    record_state,
)
from tests.scheduling import (
    DAY,
    HOUR,
    MONDAY,
    edit_action,
    get_now,
    make_operation,
    post,
    record_all,
)

pytestmark = pytest.mark.usefixtures("small_app")


def add_missed(engine: sa.Engine, uid: str) -> None:
    """Record that Wednesday and Thursday were missed, as a tick does."""
    first, last = SEVENS[2], SEVENS[3]
    record_all(
        engine,
        make_operation(
            action_uid=uid,
            id=make_missed_id(uid, first),
            occurrence=first,
            state="missed",
            reason="outage",
            details={"first": str(first), "last": str(last), "count": 2},
        ),
    )


def test_each_occurrence_says_what_is_recorded_of_it(engine: sa.Engine, uid: str):
    """One row for a whole outage counts for each occurrence in it."""
    record_state(engine, uid, SEVENS[0], "succeeded")
    record_state(engine, uid, SEVENS[1], "failed", reason="step failed: x")
    add_missed(engine, uid)
    record_state(engine, uid, SEVENS[4], "running")
    record_state(engine, uid, SEVENS[5], "skipped", reason="overlap")

    found = plan(engine, uid).occurrences

    assert [
        (SEVENS[0], Recorded.SUCCEEDED, None, False),
        (SEVENS[1], Recorded.FAILED, "step failed: x", True),
        (SEVENS[2], Recorded.MISSED, "outage", True),
        (SEVENS[3], Recorded.MISSED, "outage", True),
        (SEVENS[4], Recorded.RUNNING, None, False),
        (SEVENS[5], Recorded.SKIPPED, "overlap", True),
        (SEVENS[6], Recorded.NOTHING, None, True),
    ] == [(e.occurrence, e.recorded, e.reason, e.runs) for e in found]


def test_ranges_of_missed_occurrences_may_overlap(engine: sa.Engine, uid: str):
    """A shorter one in a longer one hides nothing; one before the period is out."""
    week_before = SEVENS[0] - 7 * DAY
    for first, last, reason in [
        (SEVENS[3], SEVENS[5], "long"),
        (SEVENS[4], SEVENS[4], "short"),
        (week_before, week_before + DAY, "before"),
        (week_before, SEVENS[0], "until Monday"),
    ]:
        made = make_operation(
            action_uid=uid,
            id=uuid4(),
            occurrence=first,
            state="missed",
            reason=reason,
            details={"first": str(first), "last": str(last), "count": 2},
        )
        record_all(engine, made)

    found = plan(engine, uid).occurrences

    reasons = ["until Monday", None, None, "long", "long", "long", None]
    assert reasons == [each.reason for each in found]


@pytest.mark.parametrize(
    ("which", "chosen"),
    [
        (Which.MISSING, ["canceled", "skipped"]),
        (Which.FAILED, ["failed"]),
        (Which.ALL, ["failed", "canceled", "skipped"]),
    ],
)
def test_what_succeeded_or_is_live_is_never_chosen(
    engine: sa.Engine, uid: str, which: Which, chosen: list[str]
):
    """Nor what failed, unless somebody asks for it."""
    states = ["succeeded", "failed", "pending", "queued", "running"]
    for occurrence, state in zip(SEVENS, [*states, "canceled", "skipped"], strict=True):
        record_state(engine, uid, occurrence, state)

    assert chosen == [str(e.recorded) for e in plan(engine, uid, which=which).chosen]


def test_what_the_next_tick_decides_is_left_to_it(engine: sa.Engine, uid: str):
    """It would be recorded twice over otherwise: once late, once as a backfill."""
    edit_action(engine, uid, next_due_at=SEVENS[5])

    found = plan(engine, uid).occurrences

    assert ["nothing"] * 5 + ["undecided"] * 2 == [e.recorded for e in found]
    assert not any(e.runs for e in found[5:])


def test_what_a_pause_left_out_is_nothing(engine: sa.Engine, uid: str):
    """No tick decides about it any more."""
    edit_action(engine, uid, next_due_at=SEVENS[5], paused_at=SEVENS[5])

    assert {"nothing": 7} == plan(engine, uid).by_recorded


def test_what_may_have_been_pruned_does_not_run(engine: sa.Engine, uid: str):
    """It may have succeeded: nobody knows any more. Before the action nothing ran."""
    edit_action(engine, uid, created_at=MONDAY + 2 * DAY)
    kept = get_now(engine) - (MONDAY + 4 * DAY)

    found = plan(engine, uid, retention=kept).occurrences

    assert [*["nothing"] * 2, *["pruned"] * 2, *["nothing"] * 3] == [
        e.recorded for e in found
    ]
    assert [True, True, False, False, True, True, True] == [e.runs for e in found]


def test_the_rule_of_today_counts(engine: sa.Engine):
    """The period has the occurrences that it would have with the rule as it is now."""
    half_days = {"cron_rule": "0 */12 * * *"}
    uid = post_daily(engine, when=half_days, starts_at="2026-01-06T00:00:00Z")

    found = plan(engine, uid, until=MONDAY + 2 * DAY).occurrences

    assert [MONDAY + DAY, MONDAY + 1.5 * DAY] == [e.occurrence for e in found]


def test_jitter_that_is_yet_to_come_is_left_to_the_tick(engine: sa.Engine):
    """Its occurrence has passed, but its minute has not."""
    uid = post_daily(engine, when={"cron_rule": "0 * * * *"}, jitter="PT59M")
    now = get_now(engine)
    hour = now.replace(minute=0, second=0, microsecond=0)
    edit_action(engine, uid, next_due_at=hour)

    (found,) = plan(engine, uid, since=hour, until=now).occurrences

    assert Recorded.UNDECIDED == found.recorded


def test_period_that_is_none_is_refused(engine: sa.Engine, uid: str):
    """What is yet to come runs by itself; without an end it is now."""
    with pytest.raises(UsageError, match="later than now"):
        plan(engine, uid, until=get_now(engine) + HOUR)
    with pytest.raises(UsageError, match="not before"):
        plan(engine, uid, since=UNTIL, until=MONDAY)
    assert plan(engine, uid, until=None).until <= get_now(engine)


def test_too_many_are_refused_with_a_way_out(
    engine: sa.Engine, uid: str, monkeypatch: pytest.MonkeyPatch
):
    """The message names the end of the first part."""
    monkeypatch.setattr(planning, "MOST_OCCURRENCES", 5)

    with pytest.raises(UsageError, match="2026-01-09T07:00:00Z: do it in parts"):
        plan(engine, uid)
    assert 5 == len(plan(engine, uid, until=SEVENS[5]).occurrences)


def test_what_has_no_past_occurrences_is_refused(engine: sa.Engine):
    """A run of an event without its user would be for all recipients."""
    uid = post(engine, name="on", when={"on": "app.x"}).uid
    with pytest.raises(UsageError, match="driven by an event"):
        plan(engine, uid)

    uid = post_daily(engine)
    edit_action(engine, uid, timing='{"when": 1}')
    with pytest.raises(ConflictError, match="cannot be read"):
        plan(engine, uid)
