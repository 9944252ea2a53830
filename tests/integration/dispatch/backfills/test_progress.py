"""The leader records a backfill little by little, and never twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from actions.lease import LeadershipLostError
from actions.pausing.pause_and_resume import pause_action, resume_action
from actions.posting.post import delete_action
from actions.posting.revisions import require_action
from dispatch.backfills.progress import Backfiller
from dispatch.backfills.requests import cancel_backfill, find_wait
from dispatch.upkeep import do_all
from models.database.engine import writing
from models.database.tables import operations
from models.occurrence import make_operation_id
from models.operation_state import Overlap, Queue
from models.requests.actions import Which
from operations.cancel_and_retry import cancel, reopen
from tests.database import execute, outlives, read_by, write_by
from tests.integration.dispatch.backfills.backfilling import (
    ANN,
    SEVENS,
    fetch_outcomes,
    get_backfill,
    make_backfiller,
    post_daily,
    record_state,
    start,
)
from tests.scheduling import (
    DAY,
    HOUR,
    MINUTELY,
    REFRESH,
    Clock,
    FakeSender,
    backdate,
    edit,
    edit_action,
    fetch_action,
    fetch_all,
    get,
    get_now,
    make_dispatcher,
    make_operation,
    make_scheduler,
    post,
    record_all,
    tick,
)

HOOK = {"call_webhook": {"url": "https://example.com/hook"}}


pytestmark = pytest.mark.usefixtures("small_app")


def end_all(engine: sa.Engine, state: str = "succeeded") -> None:
    """Let all live operations end."""
    for row in fetch_all(engine):
        if row.state in {"pending", "queued", "running"}:
            edit(engine, row.id, state=state, claim_token=None)


def send_all(engine: sa.Engine) -> None:
    """Mark what is pending as sent."""
    for row in fetch_all(engine):
        if row.state == "pending":
            edit(engine, row.id, state="queued", sent_at=get_now(engine))


def test_as_many_at_once_as_were_asked_for(
    engine: sa.Engine, uid: str, backfiller: Backfiller
):
    """The oldest first; the next follow when those are final."""
    backfill = start(engine, uid, at_once=3)

    backfiller.look()
    backfiller.look()
    first = [row.occurrence for row in fetch_all(engine)]
    end_all(engine)
    backfiller.look()

    assert SEVENS[:3] == first
    assert SEVENS[:6] == [row.occurrence for row in fetch_all(engine)]
    assert [*["recorded"] * 6, None] == fetch_outcomes(engine, backfill)


def test_run_has_the_occurrences_own_id_and_says_what_it_is(
    engine: sa.Engine, uid: str, backfiller: Backfiller
):
    """Nothing tells it from the run that it makes up for, but who asked for it."""
    backfill = start(engine, uid, at_once=1)

    backfiller.look()

    (row,) = fetch_all(engine)
    assert make_operation_id(uid, SEVENS[0]) == row.id
    assert ("pending", "backfill", SEVENS[0], None) == (
        row.state,
        row.trigger,
        row.occurrence,
        row.user_id,
    )
    asked = f'Backfill {backfill} by {ANN.name}: Scheduled action "daily"'
    assert (asked, 1) == (row.triggered_by, row.fence)


def test_it_ends_when_all_is_final(engine: sa.Engine, uid: str, backfiller: Backfiller):
    """Not when the last was recorded."""
    backfill = start(engine, uid, at_once=7)
    backfiller.look()
    backfiller.look()
    assert get_backfill(engine, backfill).finished_at is None

    end_all(engine, "failed")
    backfiller.look()

    assert get_backfill(engine, backfill).finished_at is not None


def test_what_failed_or_never_ran_is_reopened_as_by_a_retry(
    engine: sa.Engine, uid: str, backfiller: Backfiller
):
    """The same row, and three more attempts; the revision stays that of the row."""
    for occurrence, state in zip(SEVENS, ["failed", "skipped", "canceled"]):  # noqa: B905
        record_state(engine, uid, occurrence, state, attempt=2, reason="x", error="y")
    backfill = start(engine, uid, until=SEVENS[3])

    backfiller.look()

    assert [("pending", "schedule", None, None, 5)] * 3 == [
        (r.state, r.trigger, r.reason, r.error, r.attempts_allowed)
        for r in fetch_all(engine)
    ]
    assert ["retried"] * 3 == fetch_outcomes(engine, backfill)


def test_what_ran_meanwhile_is_left_as_it_is(
    engine: sa.Engine, uid: str, backfiller: Backfiller
):
    """Somebody was faster than the backfill: by a retry, or another backfill."""
    backfill = start(engine, uid, until=SEVENS[3])
    record_state(engine, uid, SEVENS[0], "succeeded")
    record_state(engine, uid, SEVENS[1], "running")

    backfiller.look()

    assert ["left: it is succeeded", "left: it is running", "recorded"] == (
        fetch_outcomes(engine, backfill)
    )
    assert ["succeeded", "running", "pending"] == [r.state for r in fetch_all(engine)]


def test_what_failed_meanwhile_is_left_if_only_missing_ones_were_asked_for(
    engine: sa.Engine, uid: str, backfiller: Backfiller
):
    """As if it had failed before."""
    backfill = start(engine, uid, which=Which.MISSING, until=SEVENS[1])
    operation = record_state(engine, uid, SEVENS[0], "failed")

    backfiller.look()

    assert ["left: it is failed"] == fetch_outcomes(engine, backfill)
    assert "failed" == get(engine, operation).state


def test_two_backfills_of_the_same_run_each_occurrence_once(
    engine: sa.Engine, uid: str
):
    """Their ids are the same."""
    start(engine, uid, at_once=7)
    second = start(engine, uid, at_once=7)

    do_all(make_backfiller(engine).look)

    assert SEVENS == [row.occurrence for row in fetch_all(engine)]
    assert ["left: it is pending"] * 7 == fetch_outcomes(engine, second)


def test_the_revision_of_now_runs(engine: sa.Engine, uid: str, backfiller: Backfiller):
    """An edit does not change the list, but what each occurrence does."""
    start(engine, uid, at_once=1)
    backfiller.look()
    end_all(engine)
    post(engine, replace_it=True, uid=uid, when={"cron_rule": "0 9 * * *"})

    backfiller.look()

    first, second = fetch_all(engine)
    assert (SEVENS[1], first.action_revision + 1) == (
        second.occurrence,
        second.action_revision,
    )


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_runs_that_must_not_overlap_come_one_by_one(
    engine: sa.Engine, backfiller: Backfiller, overlap: str
):
    """However many at once were asked for, and whatever else of the action runs."""
    uid = post_daily(engine, overlap=overlap)
    start(engine, uid, at_once=5)
    other = make_operation(
        action_uid=uid, id=uuid4(), overlap=Overlap(overlap), occurrence=SEVENS[6] + DAY
    )
    record_all(engine, other)
    edit(engine, other.id, state="running")

    backfiller.look()
    alone = [row.id for row in fetch_all(engine)]
    end_all(engine)
    backfiller.look()
    send_all(engine)
    backfiller.look()

    assert [other.id] == alone
    assert SEVENS[:1] == [row.occurrence for row in fetch_all(engine)][:-1]


def record_former(engine: sa.Engine, uid: str, *, took: timedelta) -> None:
    """Record a run that began three hours ago and succeeded."""
    began = get_now(engine) - 3 * HOUR
    times = {"started_at": began, "finished_at": began + took}
    record_state(engine, uid, SEVENS[6] + DAY, "succeeded", **times)


def test_occurrence_to_come_is_not_skipped_for_a_backfill(
    engine: sa.Engine, backfiller: Backfiller
):
    """A run that takes an hour does not begin half an hour before."""
    uid = post_daily(engine, overlap="skip")
    now = get_now(engine)
    record_former(engine, uid, took=HOUR)
    start(engine, uid)
    edit_action(engine, uid, next_due_at=now + HOUR / 2)

    backfiller.look()
    before = len(fetch_all(engine))
    edit_action(engine, uid, next_due_at=now + 2 * HOUR)
    backfiller.look()

    assert (1, 2) == (before, len(fetch_all(engine)))


def test_runs_longer_than_their_interval_keep_nothing_waiting(
    engine: sa.Engine, backfiller: Backfiller
):
    """They are skipped one by one anyway; the backfill would never have a turn."""
    uid = post_daily(engine, overlap="skip", when={"cron_rule": "0 * * * *"})
    now = get_now(engine)
    record_former(engine, uid, took=2 * HOUR)
    start(engine, uid)
    edit_action(engine, uid, next_due_at=now + HOUR / 2)

    backfiller.look()

    assert 2 == len(fetch_all(engine))


def test_live_work_of_the_queue_goes_first(engine: sa.Engine, backfiller: Backfiller):
    """Nothing is recorded while anything else of it waits to be sent."""
    uid = post_daily(engine, operations=HOOK)
    start(engine, uid)
    other = make_operation(action_uid="other", app="other", id=uuid4())
    record_all(engine, other)

    backfiller.look()
    before = [row.id for row in fetch_all(engine)]
    edit(engine, other.id, state="queued")
    backfiller.look()

    assert [other.id] == before
    assert 4 == len(fetch_all(engine))


def test_what_may_not_be_sent_yet_keeps_no_backfill_waiting(
    engine: sa.Engine, uid: str, backfiller: Backfiller
):
    """Work of the other queue, and an attempt that is to come later."""
    start(engine, uid)
    record_all(
        engine,
        make_operation(1, app="other", queue=Queue.HEAVY, id=uuid4()),
        later := make_operation(2, app="other", id=uuid4()),
    )
    edit(engine, later.id, send_at=get_now(engine) + HOUR)

    backfiller.look()

    assert 5 == len(fetch_all(engine))


def test_live_work_that_came_later_is_sent_first(engine: sa.Engine, uid: str):
    """If it came between the recording and the sending, the leader sends it first."""
    sender = FakeSender()
    dispatcher = make_dispatcher(engine, sender)
    start(engine, uid, at_once=2)
    Backfiller(engine, dispatcher.leader).look()
    live = make_operation(action_uid="other", id=uuid4(), app="zoo")
    record_all(engine, live)

    do_all(dispatcher.send_waiting)

    backfilled = [make_operation_id(uid, each) for each in SEVENS[:2]]
    assert [live.id, *backfilled] == sender.ids


def test_the_slot_of_a_heavy_operation_is_for_live_work_first(engine: sa.Engine):
    """Only one of an app may be under way, and the backfill was there before."""
    uid = post_daily(engine, operations=REFRESH, overlap="allow")
    sender = FakeSender()
    dispatcher = make_dispatcher(engine, sender)
    start(engine, uid, at_once=2)
    Backfiller(engine, dispatcher.leader).look()
    live = make_operation(action_uid="other", id=uuid4(), queue=Queue.HEAVY)
    record_all(engine, live)

    do_all(dispatcher.send_waiting)

    assert [live.id] == sender.ids


def test_backfill_goes_to_a_lane_behind(engine: sa.Engine):
    """So that it takes none of the places that its app has in the first lane."""
    uid = post_daily(engine, operations=HOOK)
    sender = FakeSender()
    dispatcher = make_dispatcher(engine, sender, part=0.5)
    start(engine, uid, at_once=1)
    Backfiller(engine, dispatcher.leader).look()

    do_all(dispatcher.send_waiting)

    ((message,),) = sender.batches
    assert message.lane > 0


def pause(engine: sa.Engine, uid: str) -> None:
    write_by(engine, pause_action, uid)


def resume(engine: sa.Engine, uid: str) -> None:
    write_by(engine, resume_action, uid)


def switch_off(engine: sa.Engine, uid: str) -> None:
    edit_action(engine, uid, active=False)


def switch_on(engine: sa.Engine, uid: str) -> None:
    edit_action(engine, uid, active=True)


@pytest.mark.parametrize(
    ("stop", "go_on", "why"),
    [
        (pause, resume, "the action is paused"),
        (switch_off, switch_on, "the action is inactive"),
        (
            lambda engine, uid: edit_action(
                engine, uid, quarantined_at=get_now(engine), quarantine_reason="x"
            ),
            lambda engine, uid: edit_action(engine, uid, quarantined_at=None),
            "the action is quarantined",
        ),
    ],
    ids=["paused", "inactive", "quarantined"],
)
def test_backfill_waits_with_its_action(
    engine: sa.Engine,
    uid: str,
    backfiller: Backfiller,
    stop: Callable[[sa.Engine, str], None],
    go_on: Callable[[sa.Engine, str], None],
    why: str,
):
    """Whoever stopped the action wants no run of it; then it goes on."""
    start(engine, uid)
    stop(engine, uid)

    backfiller.look()
    before = fetch_all(engine)
    said = read_by(engine, find_wait, fetch_action(engine, uid))
    go_on(engine, uid)
    backfiller.look()

    assert ([], why) == (before, said)
    assert 3 == len(fetch_all(engine))


def test_deletion_ends_it_with_a_word(
    engine: sa.Engine, uid: str, backfiller: Backfiller
):
    """What is recorded already is canceled by whoever claims it."""
    backfill = start(engine, uid, at_once=1)
    backfiller.look()
    write_by(engine, delete_action, uid)

    backfiller.look()
    end_all(engine, "canceled")
    backfiller.look()

    assert ["recorded", *["left: the action was deleted"] * 6] == (
        fetch_outcomes(engine, backfill)
    )
    assert get_backfill(engine, backfill).finished_at is not None


def test_action_that_events_drive_now_ends_it(
    engine: sa.Engine, uid: str, backfiller: Backfiller
):
    """A run without a user would be for all recipients."""
    backfill = start(engine, uid)
    post(engine, replace_it=True, uid=uid, when={"on": "app.x"})

    backfiller.look()

    assert {"left: events drive the action now"} == {*fetch_outcomes(engine, backfill)}
    assert [] == fetch_all(engine)


def test_old_leader_records_nothing(
    engine: sa.Engine, uid: str, backfiller: Backfiller
):
    """It was frozen between the look and the recording, and another leads."""
    start(engine, uid)
    execute(engine, sa.text("update leases set fence = fence + 1"))

    with pytest.raises(LeadershipLostError):
        backfiller.look()

    assert [] == fetch_all(engine)


def test_killed_between_any_two_statements_it_loses_and_doubles_nothing(
    engine: sa.Engine, uid: str
):
    """Whoever leads next goes on as if nothing had happened."""
    record_state(engine, uid, SEVENS[1], "failed")
    backfill = start(engine, uid, at_once=7)
    deaths = 0
    while not outlives(engine, deaths, make_backfiller(engine).look):
        deaths += 1
        assert ["failed"] == [row.state for row in fetch_all(engine)]
        assert {None} == {*fetch_outcomes(engine, backfill)}
        execute(engine, sa.text("delete from leases"))

    assert deaths > 10
    assert SEVENS == [row.occurrence for row in fetch_all(engine)]
    assert ["recorded", "retried", *["recorded"] * 5] == fetch_outcomes(
        engine, backfill
    )


def test_all_have_their_turn(engine: sa.Engine, backfiller: Backfiller):
    """However many there are, a look takes one, and says whether others follow."""
    for number in range(3):
        uid = post_daily(engine, name=f"action {number}")
        start(engine, uid, at_once=2)

    looks = [(backfiller.look(), len(fetch_all(engine))) for _ in range(4)]

    assert [(True, 2), (True, 4), (False, 6), (True, 6)] == looks


def test_scheduler_looks_for_them_in_each_wake(engine: sa.Engine, uid: str):
    """And sends what was recorded in its next look."""
    clock, sender = Clock(), FakeSender()
    scheduler = make_scheduler(engine, sender, clock)
    scheduler.wake()

    def wake() -> list[Any]:
        clock.now += 1
        scheduler.next_tick_at = get_now(engine) + timedelta(seconds=50)
        scheduler.wake()
        return fetch_all(engine)

    wake()
    start(engine, uid, at_once=1)
    recorded = len(wake())
    sent = [wake() and len(sender.ids) for _ in range(2)]

    assert 1 == recorded
    assert [1, 1] == sent


def test_cancel_by_hand_counts_as_final(
    engine: sa.Engine, uid: str, backfiller: Backfiller
):
    """Whoever cancels a single run of it lets the next one come."""
    backfill = start(engine, uid, at_once=1)
    backfiller.look()
    (row,) = fetch_all(engine)
    write_by(engine, cancel, row.id, reason="canceled")

    backfiller.look()

    assert ["canceled", "pending"] == [row.state for row in fetch_all(engine)]
    with writing(engine) as connection:
        cancel_backfill(connection, backfill)
        assert reopen(connection, row.id)


def test_tick_and_backfill_of_one_occurrence_record_it_once(engine: sa.Engine):
    """A clock set back lets a tick decide again what a backfill has recorded."""
    uid = post_daily(engine, when=MINUTELY)
    now = get_now(engine).replace(second=0, microsecond=0)
    minutes = timedelta(minutes=3)
    start(engine, uid, since=now - minutes, until=now, at_once=100)
    dispatcher = make_dispatcher(engine)
    Backfiller(engine, dispatcher.leader).look()
    backdate(engine, uid, 3)

    tick(dispatcher, get_now(engine))

    found = [row.occurrence for row in fetch_all(engine)]
    assert sorted(set(found)) == found
    assert 4 <= len(found) <= 5


def test_what_is_pruned_meanwhile_is_left(
    engine: sa.Engine, uid: str, backfiller: Backfiller
):
    """Nobody knows whether it ran; and the scheduler goes on."""
    backfill = start(engine, uid, at_once=7)
    pruned = record_state(engine, uid, SEVENS[0], "failed")

    def prune(connection: sa.Connection, _cursor: Any, text: str, *_: Any) -> None:
        if text.startswith("UPDATE operations"):
            connection.execute(sa.delete(operations).where(operations.c.id == pruned))

    sa.event.listen(engine, "before_cursor_execute", prune)
    backfiller.look()

    outcomes = fetch_outcomes(engine, backfill)
    assert ["left: it is pruned", *["recorded"] * 6] == outcomes


def test_action_that_is_locked_has_its_turn_later(postgres_engine: sa.Engine):
    """The leader, for which all others wait, does not wait for one action."""
    uid = post_daily(postgres_engine)
    backfill = start(postgres_engine, uid, at_once=7)
    backfiller = make_backfiller(postgres_engine)

    with writing(postgres_engine) as connection:
        require_action(connection, uid, lock=True)
        backfiller.look()

        assert [None] * 7 == fetch_outcomes(postgres_engine, backfill)
    backfiller.look()
    assert ["recorded"] * 7 == fetch_outcomes(postgres_engine, backfill)
