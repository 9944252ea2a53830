"""Bulk changes: counted, stored, done in batches by whoever is there, once."""

from __future__ import annotations

import threading
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from actions.pausing.pause_and_resume import pause_action
from actions.pausing.targets import pause_target
from dispatch.bulk import runner
from dispatch.bulk.requests import (
    ShownBulk,
    cancel_bulk,
    count_bulk,
    end_bulk_changes,
    fetch_shown_bulk,
    start_bulk,
)
from dispatch.bulk.runner import BulkRunner
from dispatch.manual_runs import run_now
from models.database.engine import Author, writing
from models.database.tables import bulk_changes
from models.errors import ConflictError, NotFoundError, UsageError
from models.operation_state import Queue
from models.requests.bulk_changes import BulkChangeModel
from tests.database import execute, fetch_rows, outlives, race, read_by, write_by
from tests.scheduling import (
    REFRESH,
    add_app,
    edit,
    edit_action,
    fetch_action,
    fetch_all,
    fetch_noted,
    get,
    get_now,
    make_operation,
    post,
    record_all,
)

ANN = Author("ann@example", "key1", "request1")


@pytest.fixture(autouse=True)
def _apps(engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every test two small apps, and batches of two."""
    add_app(engine, "shop")
    add_app(engine, "books")
    monkeypatch.setattr(runner, "ACTIONS_AT_ONCE", 2)
    monkeypatch.setattr(runner, "RUNS_AT_ONCE", 2)
    monkeypatch.setattr(runner, "OPERATIONS_AT_ONCE", 2)


def make(kind: str, *, expected: int = 0, **given: Any) -> BulkChangeModel:
    return BulkChangeModel.model_validate(
        {"kind": kind, "filter": {}, "expected_count": expected, **given}
    )


def post_many(engine: sa.Engine, count: int, app: str = "shop", **changes: Any) -> None:
    for number in range(count):
        name = f"{app} {number}"
        post(engine, app, name=name, uid=f"{app}-{number}", **changes)


def start(engine: sa.Engine, asked: BulkChangeModel, app: str | None = None) -> UUID:
    with writing(engine, author=ANN) as connection:
        return start_bulk(connection, asked, app=app)


def finish(engine: sa.Engine, runner_: BulkRunner | None = None) -> None:
    runner_ = runner_ or BulkRunner(engine)
    while runner_.look():
        pass


def show(engine: sa.Engine, bulk_id: UUID) -> ShownBulk:
    return read_by(engine, fetch_shown_bulk, bulk_id)


def find_paused(engine: sa.Engine, app: str = "shop", count: int = 5) -> list[int]:
    """Return the numbers of the actions that are paused."""
    return [
        number
        for number in range(count)
        if fetch_action(engine, f"{app}-{number}").paused_at is not None
    ]


def record_states(engine: sa.Engine, *states: str, **changes: Any) -> list[UUID]:
    ids = []
    for number, state in enumerate(states):
        made = make_operation(number, id=uuid4(), **changes)
        record_all(engine, made)
        edit(engine, made.id, state=state)
        ids.append(made.id)
    return ids


def get_states(engine: sa.Engine) -> list[str]:
    return [row.state for row in fetch_all(engine)]


def test_actions_are_paused_as_one_by_one(engine: sa.Engine):
    """With note and end, by who asked for it; other apps' actions go on."""
    post_many(engine, 5)
    post_many(engine, 2, "books")
    until = get_now(engine).replace(microsecond=0) + timedelta(hours=1)
    asked = make(
        "pause",
        expected=5,
        filter={"app": "shop"},
        note="moving",
        until=until.isoformat(),
    )

    bulk = start(engine, asked)
    assert [] == find_paused(engine)
    finish(engine)

    assert [0, 1, 2, 3, 4] == find_paused(engine)
    assert [] == find_paused(engine, "books", 2)
    row = fetch_action(engine, "shop-3")
    assert (until, "moving", ANN.name) == (
        row.paused_until,
        row.pause_note,
        row.paused_by,
    )
    shown = show(engine, bulk)
    assert ("finished", 5, 5, {}) == (
        shown.state,
        shown.total,
        shown.done,
        shown.refused,
    )


def test_refused_ones_are_counted_and_stop_nobody(engine: sa.Engine):
    """By reason, which is the same for all."""
    post_many(engine, 6)
    with writing(engine) as connection:
        for number in (1, 2, 3):
            pause_action(connection, f"shop-{number}")
        pause_target(connection, "shop")
    edit_action(engine, "shop-2", timing='{"when": 1}')
    edit_action(engine, "shop-5", paused_at=None, pause_scope=None)

    bulk = start(engine, make("resume", expected=6))
    finish(engine)

    shown = show(engine, bulk)
    assert 2 == shown.done
    assert {
        "its rule cannot be read": 1,
        "not paused": 1,
        "paused with its app or the installation": 2,
    } == shown.refused


def test_runs_are_recorded_once_each(engine: sa.Engine):
    """Under ids of the bulk change, so that a repeated batch runs nothing twice."""
    post_many(engine, 5)
    post_many(engine, 1, "books", operations=REFRESH)
    post(engine, "books", name="events", when={"on": "app.x"})
    run_now(engine, "books-0")
    bulk = start(engine, make("run", expected=7))
    forgetful = BulkRunner(engine)
    forgetful.look()
    with writing(engine) as connection:
        connection.execute(sa.update(bulk_changes).values(position=None, done=0))
        connection.execute(sa.update(bulk_changes).values(refused=None))

    finish(engine, forgetful)

    assert 6 == len(fetch_all(engine))
    shown = show(engine, bulk)
    of_events = "driven by events, so a run would be for all its recipients"
    assert (5, {"already running": 1, of_events: 1}) == (shown.done, shown.refused)


def test_note_that_is_refused_today_holds_up_no_run(engine: sa.Engine):
    """Another version stored it; it was fit when somebody asked."""
    post_many(engine, 1)
    bulk = start(engine, make("run", expected=1))
    noted = sa.update(bulk_changes).values(arguments={"note": "one\ntwo"})
    execute(engine, noted)

    finish(engine)

    assert 1 == show(engine, bulk).done
    assert ["one\ntwo"] == [row.details["note"] for row in fetch_all(engine)]


@pytest.mark.parametrize(
    ("kind", "names"), [("pause", ["uid"]), ("cancel", ["id", "recorded_at"])]
)
def test_place_of_the_next_batch_has_names(
    engine: sa.Engine, kind: str, names: list[str]
):
    """Other versions read it, too: programs are replaced one after the other."""
    post_many(engine, 3)
    record_states(engine, *["pending"] * 3)
    start(engine, make(kind, expected=3))

    BulkRunner(engine).look()

    position = fetch_rows(engine, sa.select(bulk_changes.c.position)).scalar_one()
    assert names == sorted(position)


def test_operations_are_canceled_and_retried(engine: sa.Engine):
    """As by the filters of the command line."""
    record_states(engine, "pending", "running", "succeeded", "queued", "pending")
    record_states(engine, *["pending"] * 2, app="books", queue=Queue.HEAVY)

    asked = make("cancel", expected=4, filter={"queue": "quick"})
    canceled = start(engine, asked)
    finish(engine)
    retried = start(
        engine, make("retry", expected=4, filter={"state": ["canceled", "failed"]})
    )
    finish(engine)

    assert (4, 4) == (show(engine, canceled).done, show(engine, retried).done)
    assert ["pending"] * 6 + ["succeeded"] == sorted(get_states(engine))


def test_failures_of_one_cause_are_retried(engine: sa.Engine):
    """All of them, although the one that was named has no cause any more by then."""
    ids = record_states(engine, *["failed"] * 4)
    for number, each in enumerate(ids):
        error = "nothing is staged" if number == 1 else f"version {number} is gone"
        edit(engine, each, reason="step failed: publish", error=error)

    named = {"same_as": str(ids[3])}
    retried = start(engine, make("retry", expected=3, filter=named))
    BulkRunner(engine).finish(retried)

    assert (3, {}) == (show(engine, retried).done, show(engine, retried).refused)
    assert "failed" == get(engine, ids[1]).state


def test_actions_are_chosen_by_filters(engine: sa.Engine):
    """As lists are, of one app and of all; deleted ones never are."""
    post_many(engine, 2)
    post_many(engine, 2, "books", operations=REFRESH)
    post(engine, "shop", name="gone", uid="gone")
    edit_action(engine, "gone", deleted_at=get_now(engine))

    free: dict[str, Any] = {"expected_count": None, "dry_run": True}
    found = [
        read_by(engine, count_bulk, make("run", filter=wanted, **free)).by_app
        for wanted in ({}, {"app": "shop"}, {"queue": "heavy", "text": "BOOKS 1"})
    ]

    assert [{"shop": 2, "books": 2}, {"shop": 2}, {"books": 1}] == found


def test_another_count_than_expected_is_refused(engine: sa.Engine):
    """Both are named, and nothing is stored."""
    post_many(engine, 3)

    with pytest.raises(ConflictError, match="now match 3, but 2 were expected"):
        start(engine, make("pause", expected=2))

    assert not BulkRunner(engine).look()


def test_what_comes_later_is_not_part_of_it(engine: sa.Engine):
    """Nobody has counted it."""
    post_many(engine, 2)
    start(engine, make("pause", expected=2))
    post(engine, "shop", name="later", uid="shop-2")

    finish(engine)

    assert [0, 1] == find_paused(engine, count=3)


def test_cancel_stops_before_the_next_batch(engine: sa.Engine):
    """What was done stays done."""
    post_many(engine, 5)
    bulk = start(engine, make("pause", expected=5))
    runner_ = BulkRunner(engine)
    runner_.look()

    with writing(engine, author=ANN) as connection:
        cancel_bulk(connection, bulk)
    finish(engine, runner_)

    assert [0, 1] == find_paused(engine)
    shown = show(engine, bulk)
    assert ("canceled", 2) == (shown.state, shown.done)
    assert shown.finished_at is not None
    with pytest.raises(ConflictError, match="already canceled"):
        write_by(engine, cancel_bulk, bulk)


def test_killed_runner_is_taken_over_where_it_was(engine: sa.Engine):
    """Nobody else touches it while the claim lasts."""
    post_many(engine, 5)
    bulk = start(engine, make("pause", expected=5))
    killed, other = BulkRunner(engine), BulkRunner(engine)
    killed.look()

    assert not other.look()
    execute(
        engine,
        sa.update(bulk_changes).values(
            lease_expires_at=get_now(engine) - timedelta(seconds=1)
        ),
    )
    finish(engine, other)

    shown = show(engine, bulk)
    assert ("finished", 5, {}) == (shown.state, shown.done, shown.refused)
    assert [0, 1, 2, 3, 4] == find_paused(engine)


@pytest.mark.parametrize("kind", ["pause", "run", "cancel"])
def test_killed_between_any_two_statements_it_does_each_once(
    engine: sa.Engine, kind: str
):
    """Each is counted once, whoever did it."""
    post_many(engine, 3)
    if kind == "cancel":
        record_states(engine, *["pending"] * 3)
    bulk = start(engine, make(kind, expected=3))
    deaths = 0
    while not outlives(engine, deaths, partial(finish, engine)):
        execute(engine, sa.update(bulk_changes).values(claim_token=None))
        deaths += 1

    assert deaths > 10
    shown = show(engine, bulk)
    assert ("finished", 3, {}) == (shown.state, shown.done, shown.refused)
    assert {"pause": 0, "run": 3, "cancel": 3}[kind] == len(fetch_all(engine))


def test_two_take_turns(engine: sa.Engine):
    """A small one does not wait for a large one that came before."""
    post_many(engine, 5)
    post_many(engine, 2, "books")
    start(engine, make("pause", expected=5, filter={"app": "shop"}))
    start(engine, make("pause", expected=2, filter={"app": "books"}))
    runner_ = BulkRunner(engine)

    runner_.look()
    runner_.look()

    assert ([0, 1], [0, 1]) == (find_paused(engine), find_paused(engine, "books", 2))


def test_runners_side_by_side_do_each_once(engine: sa.Engine):
    """However many processes there are."""
    post_many(engine, 5)
    record_states(engine, *["pending"] * 5)
    pause = start(engine, make("pause", expected=5))
    cancel = start(engine, make("cancel", expected=5))

    race(3, lambda _number: finish(engine))
    finish(engine)

    for bulk in (pause, cancel):
        shown = show(engine, bulk)
        assert (5, {}) == (shown.done, shown.refused)


def test_error_that_would_come_again_ends_it(engine: sa.Engine):
    """Such as an action that its filter names and that is gone."""
    post_many(engine, 1)
    (made,) = record_states(engine, "pending", action_uid="shop-0", app="shop")
    asked = make("cancel", expected=1, filter={"action": "shop 0"})
    bulk = start(engine, asked)
    edit_action(engine, "shop-0", name="renamed")

    finish(engine)

    shown = show(engine, bulk)
    assert "failed" == shown.state
    assert "there is no scheduled action 'shop 0'" in (shown.error or "")
    assert made == fetch_all(engine)[0].id


def test_tenant_reaches_only_its_own(engine: sa.Engine):
    """Whatever the filter says, or leaves out."""
    post_many(engine, 2)
    post_many(engine, 2, "books")
    record_states(engine, "pending", "pending", app="books")

    with pytest.raises(ConflictError, match="now match 0"):
        start(engine, make("cancel", expected=2), app="shop")
    bulk = start(engine, make("pause", expected=2), app="shop")
    finish(engine)

    assert ([0, 1], []) == (
        find_paused(engine, count=2),
        find_paused(engine, "books", 2),
    )
    with pytest.raises(NotFoundError):
        read_by(engine, fetch_shown_bulk, bulk, app="books")
    with pytest.raises(NotFoundError, match="no bulk"):
        write_by(engine, cancel_bulk, bulk, app="books")


def test_unfit_requests_are_refused_before_they_are_stored(engine: sa.Engine):
    """In the words of the command line."""
    past = (get_now(engine) - timedelta(hours=1)).isoformat()
    with pytest.raises(UsageError, match="has passed"):
        start(engine, make("pause", until=past))
    with pytest.raises(UsageError, match="does not apply to succeeded"):
        start(engine, make("cancel", filter={"state": ["succeeded"]}))
    with pytest.raises(NotFoundError, match="Did you mean 'shop'"):
        start(engine, make("pause", filter={"app": "shopp"}))


def test_it_is_on_record(engine: sa.Engine):
    """Its start and its end, by who asked for it over HTTP."""
    post_many(engine, 1)
    bulk = start(engine, make("pause", expected=1, note="why"))
    finish(engine)

    rows = fetch_noted(engine, "bulk")
    assert ["started", "finished"] == [row.change for row in rows]
    who = {(row.by, row.key_id, row.request_id, row.subject) for row in rows}
    assert {("ann@example", "key1", "request1", str(bulk))} == who


def test_restored_backup_ends_all(engine: sa.Engine):
    """What they would still do may have been done after the backup was made."""
    post_many(engine, 3)
    bulk = start(engine, make("pause", expected=3))

    write_by(engine, end_bulk_changes, "a backup was restored")
    finish(engine)

    shown = show(engine, bulk)
    assert ("failed", "a backup was restored") == (shown.state, shown.error)
    assert [] == find_paused(engine, count=3)


def test_runner_stops_when_it_is_told(engine: sa.Engine):
    """It does what there is, and goes on looking."""
    post_many(engine, 3)
    bulk = start(engine, make("pause", expected=3))
    stop = threading.Event()
    thread = threading.Thread(target=BulkRunner(engine).run, args=(stop,))
    thread.start()
    try:
        for _ in range(600):
            if show(engine, bulk).finished_at is not None:
                break
            stop.wait(0.1)
    finally:
        stop.set()
        thread.join(60)

    assert "finished" == show(engine, bulk).state
    assert not thread.is_alive()


def test_leader_has_its_turn_after_each_batch(engine: sa.Engine):
    """A batch keeps it out; the next one waits as long as that took."""
    post_many(engine, 3)
    start(engine, make("pause", expected=3))
    waits: list[float] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0)
            if len(waits) == 3:
                self.set()
            return self.is_set()

    times = iter([0.0, 2.5, 10.0, 10.25, 20.0])
    BulkRunner(engine, clock=lambda: next(times)).run(Stop())

    assert [2.5, 0.25, runner.PAUSE_S] == waits


@pytest.mark.parametrize("kind", ["pause", "cancel"])
def test_filter_that_cannot_be_read_ends_it_with_words(engine: sa.Engine, kind: str):
    """Another version stored it; the runner goes on with others."""
    post_many(engine, 1)
    record_states(engine, "pending")
    bulk = start(engine, make(kind, expected=1))
    other = start(engine, make("pause", expected=1))
    execute(
        engine,
        sa.update(bulk_changes)
        .where(bulk_changes.c.id == bulk)
        .values(filter={"colour": "red"}),
    )

    finish(engine)

    shown = show(engine, bulk)
    assert "failed" == shown.state
    assert "another version" in str(shown.error)
    assert "colour" in str(shown.error)
    assert "finished" == show(engine, other).state
