"""Posting, replacing, pausing and deleting actions, and what each does to the tick."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa

from actions.clock_set_back import recompute_due
from actions.posting.post import delete_action
from actions.posting.revisions import require_action
from models.database.engine import read_clock, writing
from models.database.tables import scheduled_action_revisions
from models.errors import ConflictError, NotFoundError
from models.occurrence import make_operation_id
from tests.database import fetch_rows, race, wait_for_lock, write_by
from tests.scheduling import (
    DAY,
    MINUTE,
    MINUTELY,
    REFRESH,
    add_app,
    at,
    edit_action,
    fetch_action,
    fetch_all,
    get_now,
    make_dispatcher,
    post,
    post_at,
    tick,
)

pytestmark = pytest.mark.usefixtures("small_app")


def due_date(instant: datetime) -> dict[str, str]:
    return {"due_date": instant.replace(microsecond=0).isoformat()}


def test_posted_action_is_due_from_now_on(engine: sa.Engine):
    """The next occurrence is its first; the first revision is kept."""
    posted = post(engine, when=MINUTELY)

    row = fetch_action(engine, posted.uid)
    assert (1, True, ()) == (posted.revision, posted.created, posted.superseded)
    assert row.created_at < row.next_due_at <= row.created_at + MINUTE
    assert row.created_at == row.effective_from
    kept = fetch_rows(engine, sa.select(scheduled_action_revisions)).one()
    assert (1, "posted", row.document) == (kept.revision, kept.change, kept.document)


def test_edit_of_the_rule_supersedes_what_was_due(engine: sa.Engine):
    uid = post_at(engine, at("06:58"), when=MINUTELY)
    due_at = get_now(engine).replace(second=0, microsecond=0) - 2 * MINUTE
    edit_action(engine, uid, next_due_at=due_at)

    posted = post(engine, replace_it=True, when=due_date(get_now(engine) + DAY))

    # a minute may have begun meanwhile
    dues = [due_at + n * MINUTE for n in range(4)]
    assert list(posted.superseded) in (dues[:3], dues)
    assert (uid, 2, False) == (posted.uid, posted.revision, posted.created)
    tick(make_dispatcher(engine), get_now(engine))
    assert [] == fetch_all(engine)


@pytest.mark.parametrize(
    "changes",
    [
        {"recipients": {"users": ["ann"]}},
        {"catch_up": {"runs": "all"}},
        {"operations": REFRESH},
        {"overlap": "queue"},
        {"name": "renamed", "uid": "given"},
    ],
)
def test_edit_of_anything_else_moves_no_schedule(
    engine: sa.Engine, changes: dict[str, Any]
):
    uid = post_at(engine, at("07:00"), when=MINUTELY, uid="given")

    posted = post(engine, replace_it=True, when=MINUTELY, **changes)

    row = fetch_action(engine, uid)
    assert (at("07:00"), at("07:00")) == (row.effective_from, row.next_due_at)
    assert (uid, 2, ()) == (posted.uid, posted.revision, posted.superseded)


AFTER = {"after": "app.x", "delay": "PT2H"}
BOUND = "2100-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("when", "changes"),
    [
        (MINUTELY, {"when": {"cron_rule": "* * * * *", "timezone": "Europe/Paris"}}),
        (MINUTELY, {"when": {"every": "PT1M"}}),
        (MINUTELY, {"when": MINUTELY, "ends_at": BOUND}),
        (MINUTELY, {"when": MINUTELY, "except": ["2100-01-01"]}),
        (MINUTELY, {"when": {"on": "app.x"}}),
        (AFTER, {"when": {**AFTER, "delay": "PT1H"}}),
        (AFTER, {"when": {**AFTER, "timezone": "Europe/Paris"}}),
        (AFTER, {"when": AFTER, "starts_at": BOUND}),
        (AFTER, {"when": AFTER, "ends_at": BOUND}),
    ],
)
def test_edit_of_the_schedule_starts_from_now(
    engine: sa.Engine, when: dict[str, str], changes: dict[str, Any]
):
    uid = post_at(engine, at("07:00"), when=when)
    before = get_now(engine)

    post(engine, replace_it=True, **changes)

    row = fetch_action(engine, uid)
    assert row.effective_from >= before
    assert row.next_due_at is None or row.next_due_at >= before


def test_interval_keeps_the_anchor_of_its_creation(engine: sa.Engine):
    post(engine, when={"every": "PT7M"})
    uid = post(engine, replace_it=True, when={"every": "PT7M"}).uid
    before = fetch_action(engine, uid)
    edit_action(engine, before.uid, created_at=before.created_at - 3 * MINUTE)
    moved = fetch_action(engine, before.uid)

    post(engine, replace_it=True, when={"every": "PT7M"}, name="daily")

    # an older creation is an older anchor: filled in from the row, not from now
    assert moved.timing != fetch_action(engine, before.uid).timing
    assert before.timing == moved.timing


def test_name_is_taken_until_replaced_or_deleted(engine: sa.Engine):
    add_app(engine, "other")
    uid = post(engine).uid
    with pytest.raises(ConflictError, match="--replace"):
        post(engine)
    assert uid != post(engine, "other").uid
    assert uid == post(engine, replace_it=True).uid
    write_by(engine, delete_action, uid)

    assert uid != post(engine).uid


def test_uid_is_never_used_again(engine: sa.Engine):
    add_app(engine, "other")
    post(engine, uid="given")
    with pytest.raises(ConflictError, match=r"^uid 'given' is taken\. Write another"):
        post(engine, "other", uid="given", replace_it=True)
    post(engine, name="second")
    with pytest.raises(ConflictError):
        post(engine, name="second", uid="given", replace_it=True)
    with pytest.raises(ConflictError):
        post(engine, name="second", uid="fresh", replace_it=True)
    write_by(engine, delete_action, "given")

    with pytest.raises(ConflictError, match="named 'daily', was deleted on") as caught:
        post(engine, uid="given", replace_it=True)
    assert str(caught.value).endswith("another uid, or leave it out to get a new one.")
    with pytest.raises(ConflictError, match="is taken"):
        post(engine, "other", uid="given")
    assert "daily" == fetch_action(engine, "given").name


def test_one_of_many_posts_of_a_name_wins(postgres_engine: sa.Engine):
    def run(_number: int) -> str:
        try:
            post(postgres_engine)
        except ConflictError:
            return "conflict"
        return "posted"

    assert ["conflict"] * 5 + ["posted"] == sorted(race(6, run))


def test_unknown_app_is_not_found(engine: sa.Engine):
    with pytest.raises(NotFoundError, match="apps list"):
        post(engine, "nowhere")


@pytest.mark.parametrize("jitter", [None, "PT2M"])
def test_due_date_within_the_window_runs(engine: sa.Engine, jitter: str | None):
    date = (get_now(engine) - 2 * MINUTE).replace(microsecond=0)
    uid = post(engine, when=due_date(date), jitter=jitter).uid
    dispatcher = make_dispatcher(engine)
    for later in range(3):
        tick(dispatcher, get_now(engine) + later * MINUTE)

    assert [(make_operation_id(uid, date), "queued")] == [
        (row.id, row.state) for row in fetch_all(engine)
    ]


def test_due_date_that_ran_may_be_renamed(engine: sa.Engine):
    """Only a date that is new must lie ahead."""
    date = get_now(engine) + DAY
    uid = post(engine, uid="given", when=due_date(date)).uid
    edit_action(engine, uid, next_due_at=None)

    post(engine, uid="given", name="new", replace_it=True, when=due_date(date))

    assert fetch_action(engine, uid).next_due_at is None


def test_decision_about_an_older_revision_writes_nothing(engine: sa.Engine):
    uid = post_at(engine, at("07:00"), when=MINUTELY)
    dispatcher = make_dispatcher(engine)
    tick(
        dispatcher,
        at("07:02"),
        meanwhile=lambda: post(engine, replace_it=True, when=MINUTELY, overlap="queue"),
    )
    assert [] == fetch_all(engine)
    assert at("07:00") == fetch_action(engine, uid).next_due_at

    tick(dispatcher, at("07:02"))

    assert [2] * 3 == [row.action_revision for row in fetch_all(engine)]


def test_clock_set_back_looks_at_every_action_again(engine: sa.Engine):
    """
    Due instants move back with the clock, but never before an action took effect; what
    was not decided yet stays due.
    """
    early = post_at(engine, at("06:00"), when=MINUTELY, name="early")
    late = post_at(engine, at("07:30"), when=MINUTELY, name="late")
    event = post_at(engine, at("06:00"), when={"on": "app.x"}, name="event")
    broken = post_at(engine, at("06:00"), when=MINUTELY, name="broken")
    edit_action(engine, broken, timing="no timing")
    for uid in (early, late, event, broken):
        edit_action(engine, uid, next_due_at=at("08:00"))
    undecided = post_at(engine, at("06:00"), when=MINUTELY, name="undecided")
    with writing(engine) as connection:
        until = recompute_due(connection, now=at("07:00"), after="", at_most=2)
        assert until is not None
        end = recompute_due(connection, now=at("07:00"), after=until, at_most=2)

    assert end is None
    assert at("06:00") == fetch_action(engine, undecided).next_due_at
    assert at("07:00") == fetch_action(engine, early).next_due_at
    assert at("07:30") == fetch_action(engine, late).next_due_at
    assert at("08:00") == fetch_action(engine, event).next_due_at


def test_an_edit_that_waits_for_a_tick_takes_effect_after_it(
    postgres_engine: sa.Engine,
):
    """Nothing is decided twice."""
    engine = postgres_engine
    uid = post_at(engine, when=MINUTELY)
    edit = threading.Thread(
        target=post, args=[engine], kwargs={"uid": uid, "replace_it": True}
    )
    with writing(engine) as connection:
        require_action(connection, uid, lock=True)
        edit.start()
        wait_for_lock(engine)
        decided_at = read_clock(connection)
    edit.join()

    assert decided_at < fetch_action(engine, uid).effective_from
