"""Runs by hand: recorded like any other, once for each key, or not at all."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
import sqlalchemy as sa

from actions.pausing.pause_and_resume import pause_action
from actions.posting.post import delete_action
from dispatch.manual_runs import find_requested_id, run_now
from models.database.engine import reading
from models.errors import ConflictError, NotFoundError, UsageError
from models.occurrence import make_manual_id
from models.requests.actions import RunModel
from tests.database import race, write_by
from tests.scheduling import (
    MINUTELY,
    REFRESH,
    FakeSender,
    at,
    edit,
    fetch_action,
    fetch_all,
    get,
    get_now,
    make_dispatcher,
    post,
    post_at,
    tick,
)

pytestmark = pytest.mark.usefixtures("small_app")


def test_run_is_recorded_and_sent_and_moves_no_schedule(engine: sa.Engine):
    """It says that it was asked for by hand, and when."""
    uid = post(engine).uid
    before = fetch_action(engine, uid)

    operation_id = run_now(engine, uid, RunModel(force=True))

    row = get(engine, operation_id)
    assert ("pending", "manual", 'Scheduled action "daily"', {"force": True}) == (
        row.state,
        row.trigger,
        row.triggered_by,
        row.details,
    )
    assert row.occurrence <= get_now(engine)
    assert before == fetch_action(engine, uid)
    sender = FakeSender()
    make_dispatcher(engine, sender).send_waiting()
    assert [operation_id] == sender.ids


def test_runs_have_the_attempts_of_their_action(engine: sa.Engine):
    """Of the revision that was recorded, whoever asked for them."""
    uid = post_at(engine, at("12:01"), when=MINUTELY, retries=5)

    run_now(engine, uid)
    tick(make_dispatcher(engine), at("12:01"))

    assert [6, 6] == [row.attempts_allowed for row in fetch_all(engine)]


def test_the_same_key_is_the_same_run(engine: sa.Engine):
    """Whoever repeats a request gets the run that there is, whatever became of it."""
    uid = post(engine, operations=REFRESH).uid
    first = run_now(engine, uid, key="today")
    assert first == run_now(engine, uid, key="today")
    edit(engine, first, state="failed")

    assert first == run_now(engine, uid, key="today") == make_manual_id(uid, "today")
    assert ["failed"] == [row.state for row in fetch_all(engine)]


def test_same_request_is_another_run_the_next_day(engine: sa.Engine):
    """A client may use its Idempotency-Key again once no answer is repeated."""
    uid = post(engine, overlap="queue").uid
    first = run_now(engine, uid, request="digest")
    assert first == run_now(engine, uid, request="digest")
    assert first != run_now(engine, uid, request="other")

    recorded_at = get(engine, first).recorded_at
    with reading(engine) as connection:
        soon, later = (
            find_requested_id(
                connection, uid, "digest", recorded_at + timedelta(hours=hours)
            )
            for hours in (23, 25)
        )
    assert first == soon
    assert first != later


def test_collision_is_refused_and_leaves_no_row(engine: sa.Engine):
    """The caller is told, so nothing has to be recorded."""
    uid = post(engine, operations=REFRESH).uid
    first = run_now(engine, uid)

    with pytest.raises(ConflictError, match="overlap"):
        run_now(engine, uid)

    assert [first] == [row.id for row in fetch_all(engine)]
    edit(engine, first, state="succeeded")
    run_now(engine, uid)


def test_collision_is_judged_by_user(engine: sa.Engine):
    """As the runs of events are."""
    uid = post(engine, overlap="skip", when={"on": "app.x"}).uid
    run_now(engine, uid, RunModel(user="ann"))

    run_now(engine, uid, RunModel(user="bob"))
    with pytest.raises(ConflictError):
        run_now(engine, uid, RunModel(user="ann"))


def test_user_triggers_no_action_of_time(engine: sa.Engine):
    """Its runs would not be seen to overlap, for each would have a user of its own."""
    uid = post(engine, overlap="skip").uid
    run_now(engine, uid)

    with pytest.raises(UsageError, match="not driven by an event"):
        run_now(engine, uid, RunModel(user="ann"))

    assert 1 == len(fetch_all(engine))


def test_paused_action_runs_by_hand_and_a_deleted_one_does_not(engine: sa.Engine):
    """Pause stops the clock, not people."""
    uid = post(engine).uid
    write_by(engine, pause_action, uid)
    run_now(engine, uid)
    write_by(engine, delete_action, uid)

    with pytest.raises(NotFoundError):
        run_now(engine, uid)


def test_one_of_many_requests_at_once_runs(postgres_engine: sa.Engine):
    """Others get a conflict, or the same run if they have the same key."""
    skip = post(postgres_engine, name="skip", overlap="skip").uid
    keyed = post(postgres_engine, name="keyed", overlap="skip").uid

    def ask(number: int) -> UUID | None:
        if number % 2:
            return run_now(postgres_engine, keyed, key="k")
        try:
            return run_now(postgres_engine, skip)
        except ConflictError:
            return None

    ids = race(8, ask)

    assert 3 == ids[::2].count(None)
    assert [make_manual_id(keyed, "k")] * 4 == ids[1::2]
    assert 2 == len(fetch_all(postgres_engine))
