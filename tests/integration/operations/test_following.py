"""What follows an operation that ends, whoever ends it: once, in that transaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from actions.explaining.why import Verdict
from actions.pausing.pause_and_resume import pause_many, resume_many
from actions.posting.post import delete_action
from models.database.engine import writing
from models.database.tables import operations, scheduled_action_revisions
from models.decision import NewOperation
from models.errors import StepError
from models.occurrence import make_after_id
from models.operation_state import Trigger
from models.requests.notes import PauseModel
from operations.cancel_and_retry import cancel, cancel_each, reopen
from operations.fleet.processes import fetch_secret
from operations.foreign_tasks import TaskAnswer, make_token
from operations.rescue import (
    KILLS_ALLOWED,
    count_kill,
    date_back,
    fail_at_time_limit,
    reclaim_lost_workers,
)
from operations.task_ends import end_overdue, fetch_overdue, record_answers
from overview.auditing import audit_all
from overview.why.instant import explain_asked
from tests.database import execute, read_by, write_by
from tests.scheduling import (
    MINUTE,
    MONDAY,
    add_app,
    edit,
    edit_action,
    fetch_action,
    fetch_all,
    find_sendable,
    get,
    get_now,
    make_operation,
    must_claim,
    post,
    put,
    record_all,
    run_attempt,
)
from tests.unit.operations.fakes import World

HOOK = {"call_webhook": {"url": "https://example.com/hook"}}
TASK = {"name": "shop.report", "queue": "reports", "wait": True, "within": "PT10M"}
FIRST = make_operation(action_uid="first")
WORKER = "celery@host (1234abcd)"


@pytest.fixture
def first(engine: sa.Engine) -> sa.Engine:
    """Give the database with an action, and its operation that waits for a worker."""
    add_app(engine)
    post(engine, uid="first", name="first", operations=HOOK)
    edit_action(engine, "first", next_due_at=None)
    record_all(engine, FIRST)
    return engine


def follow(engine: sa.Engine, uid: str = "next", **changes: Any) -> UUID:
    """Post an action after the first one; return the id of what follows FIRST."""
    when = {"after_action": "first", **changes.pop("when", {})}
    post(engine, uid=uid, name=uid, operations=HOOK, when=when, **changes)
    return make_after_id(uid, FIRST.id)


def run(engine: sa.Engine, error: Exception | None = None) -> None:
    """Let a worker run FIRST to its end."""

    def step(_context: object, _arguments: object) -> dict[str, Any]:
        if error is not None:
            raise error
        return {}

    ports = World(Path("unused")).make_context().ports
    run_attempt(engine, FIRST.id, ports, steps={"call_webhook": step})


def fail(engine: sa.Engine) -> None:
    run(engine, StepError("no such address", permanent=True))


def do_cancel(engine: sa.Engine) -> None:
    assert write_by(engine, cancel, FIRST.id, reason="canceled")


def retry(engine: sa.Engine) -> None:
    assert write_by(engine, reopen, FIRST.id)


def find_followers(engine: sa.Engine) -> list[tuple[str, str]]:
    """Return the action and state of all that followed."""
    rows = [row for row in fetch_all(engine) if row.trigger == Trigger.ACTION]
    return sorted((row.action_uid, row.state) for row in rows)


def test_success_starts_what_follows_at_once(first: sa.Engine):
    """It is recorded with what ended, under an id made from that."""
    expected = follow(first)

    run(first)

    row, ended = get(first, expected), get(first, FIRST.id)
    assert ("action", "pending", 1) == (row.trigger, row.state, row.action_revision)
    assert ended.finished_at.replace(microsecond=0) == row.occurrence
    assert row.occurrence <= row.send_at
    after = {"operation": str(FIRST.id), "action": "first", "name": "first"}
    assert {"after": after | {"state": "succeeded"}} == row.details
    assert [expected] == find_sendable(first)


def lose_worker(engine: sa.Engine) -> None:
    must_claim(engine, FIRST.id, worker=WORKER)
    edit(
        engine, FIRST.id, lease_expires_at=get_now(engine) - MINUTE, attempts_allowed=1
    )
    assert (0, 1) == write_by(engine, reclaim_lost_workers)


def exceed_limit(engine: sa.Engine) -> None:
    must_claim(engine, FIRST.id, worker=WORKER)
    write_by(engine, fail_at_time_limit, FIRST.id, worker_suffix="(1234abcd)")


def kill(engine: sa.Engine) -> None:
    must_claim(engine, FIRST.id, worker=WORKER)
    edit(engine, FIRST.id, kills=KILLS_ALLOWED - 1)
    write_by(engine, count_kill, FIRST.id, worker_suffix="(1234abcd)", cause="SIGKILL")


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (run, ["on-end", "on-success"]),
        (do_cancel, ["on-end"]),
        (fail, ["on-end", "on-failure"]),
        # which no worker reports: whoever ends it records what follows
        (lose_worker, ["on-end", "on-failure"]),
        (exceed_limit, ["on-end", "on-failure"]),
        (kill, ["on-end", "on-failure"]),
    ],
)
def test_only_those_follow_that_wait_for_such_an_end(
    first: sa.Engine, end: Callable[[sa.Engine], None], expected: list[str]
):
    """Success, failure, or whichever end: a cancellation is only the last."""
    for on in ("success", "failure", "end"):
        follow(first, f"on-{on}", when={"on": on})

    end(first)

    assert [(uid, "pending") for uid in expected] == find_followers(first)


def test_tasks_that_end_in_one_batch_each_start_what_follows(engine: sa.Engine):
    """Answers and deadlines end many at once; each end counts."""
    add_app(engine)
    post(engine, uid="first", name="first", operations={"run_task": TASK})
    edit_action(engine, "first", next_due_at=None)
    follow(engine, when={"on": "end"})
    runs = [make_operation(n, action_uid="first") for n in range(4)]
    record_all(engine, *runs)
    for each in runs:
        deadline = get_now(engine) + MINUTE
        awaiting = {"reason": "waits for a task: shop.report", "send_at": deadline}
        edit(engine, each.id, attempt=1, **awaiting)
    secret = read_by(engine, fetch_secret)

    told = [
        TaskAnswer(make_token(secret, each.id, 1), succeeded, None)
        for each, succeeded in zip(runs[:3], (True, False, True), strict=True)
    ]
    assert (3, {}) == record_answers(engine, told)
    edit(engine, runs[3].id, send_at=get_now(engine) - MINUTE)
    overdue = [(each, None) for each in read_by(engine, fetch_overdue, limit=10)]
    assert 1 == end_overdue(engine, overdue)

    expected = {make_after_id("next", each.id) for each in runs}
    rows = [row for row in fetch_all(engine) if row.trigger == Trigger.ACTION]
    assert expected == {row.id for row in rows}


def test_many_that_are_canceled_together_each_start_what_follows(first: sa.Engine):
    """A bulk change ends many in one statement."""
    follow(first, when={"on": "end"})
    more = [make_operation(n, action_uid="first") for n in range(1, 5)]
    record_all(first, *more)

    write_by(first, cancel_each, [FIRST.id, *(each.id for each in more)])

    assert [("next", "pending")] * 5 == find_followers(first)


def test_retry_that_ends_again_starts_nothing_twice(first: sa.Engine):
    """One that failed, and succeeds when retried, has one end of each kind."""
    for on in ("success", "failure", "end"):
        follow(first, f"on-{on}", when={"on": on})

    fail(first)
    retry(first)
    fail(first)
    retry(first)
    run(first)

    expected = [(f"on-{on}", "pending") for on in ("end", "failure", "success")]
    assert expected == find_followers(first)


def test_delay_is_waited_for_in_the_calendar_of_the_zone(first: sa.Engine):
    """It is recorded at once, and sent when the delay is over, whoever sets clocks."""
    when = {"delay": "P1DT2H", "timezone": "Europe/Paris"}
    expected = follow(first, when=when)

    run(first)
    write_by(first, date_back, lease=MINUTE, at_most=10)

    row, ended = get(first, expected), get(first, FIRST.id)
    waits = row.send_at - ended.finished_at
    assert timedelta(hours=24) < waits <= timedelta(hours=27)
    assert row.send_at == row.occurrence
    assert [] == find_sendable(first)


def test_backfill_and_what_was_skipped_start_nothing(first: sa.Engine):
    """A backfill repeats the past; what was skipped or missed never began."""
    follow(first, when={"on": "end"})
    edit(first, FIRST.id, trigger=Trigger.BACKFILL)
    more = make_operation(1, action_uid="first", overlap="skip")

    record_all(first, more)
    run(first)

    assert "skipped" == get(first, more.id).state
    assert [] == find_followers(first)


def pause(engine: sa.Engine) -> None:
    write_by(engine, pause_many, ["next"], PauseModel())


def pause_and_resume_after(engine: sa.Engine) -> None:
    pause(engine)
    run(engine)
    write_by(engine, resume_many, ["next"], None)


def deactivate(engine: sa.Engine) -> None:
    post(
        engine,
        replace_it=True,
        uid="next",
        name="next",
        active=False,
        operations=HOOK,
        when={"after_action": "first"},
    )


def delete(engine: sa.Engine) -> None:
    write_by(engine, delete_action, "next")


@pytest.mark.parametrize("out", [pause, pause_and_resume_after, deactivate, delete])
def test_action_that_is_out_follows_nothing(
    first: sa.Engine, out: Callable[[sa.Engine], None]
):
    """What ends during a pause is not made up for, as with all occurrences."""
    follow(first)
    out(first)

    if get(first, FIRST.id).finished_at is None:
        run(first)

    assert [] == find_followers(first)
    assert fetch_action(first, "next").next_due_at is None


def test_end_before_an_action_was_posted_is_not_followed(first: sa.Engine):
    """Only ends after it took effect count."""
    run(first)
    follow(first)

    write_by(first, cancel_each, [FIRST.id])

    assert [] == find_followers(first)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"starts_at": "2100-01-01T00:00:00Z"}, 0),
        ({"ends_at": "2100-01-01T00:00:00Z"}, 1),
        ({"ends_at": "2026-01-01T00:00:00Z"}, 0),
    ],
)
def test_bounds_hold(first: sa.Engine, bounds: dict[str, str], expected: int):
    """What would begin before starts_at, or at or after ends_at, does not."""
    follow(first, **bounds)

    run(first)

    assert expected == len(find_followers(first))


def test_overlap_of_what_follows_is_its_own(first: sa.Engine):
    """By default each end starts a run; with skip, none beside a live one."""
    follow(first, "each", when={"on": "end"})
    follow(first, "one", when={"on": "end"}, overlap="skip")
    more = put(first, 1, action_uid="first")

    do_cancel(first)
    write_by(first, cancel_each, [more])

    expected = [("each", "pending")] * 2 + [("one", "pending"), ("one", "skipped")]
    assert expected == find_followers(first)


def test_chain_goes_on(first: sa.Engine):
    """What follows may itself be followed."""
    middle = follow(first, "middle", when={"on": "end"})
    when = {"after_action": "middle", "on": "end"}
    post(first, uid="last", name="last", operations=HOOK, when=when)

    do_cancel(first)
    write_by(first, cancel_each, [middle])

    assert [("last", "pending"), ("middle", "canceled")] == find_followers(first)


def test_end_that_is_rolled_back_starts_nothing(first: sa.Engine):
    """Both are in one transaction."""
    follow(first, when={"on": "end"})

    def end() -> None:
        with writing(first) as connection:
            cancel_each(connection, [FIRST.id])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        end()

    assert [] == find_followers(first)
    assert "pending" == get(first, FIRST.id).state


def test_why_tells_the_end_that_was_not_followed(first: sa.Engine):
    """What ran last, and why nothing came of the latest end."""
    ran = follow(first, when={"timezone": "Europe/Paris"})
    run(first)
    edit(first, ran, state="succeeded", finished_at=get_now(first))
    again = make_operation(1, action_uid="first")
    record_all(first, again)
    edit(first, again.id, state="failed", finished_at=get_now(first))
    # Their occurrences are long past, so the minute of now has none.
    edit(first, ran, occurrence=FIRST.occurrence)

    last, following = read_by(first, explain_asked, "next", None)

    told = (
        f"it succeeded; it follows another action: 'first' succeeded ({_name(FIRST)})"
    )
    assert (Verdict.RAN, told) == (last.verdict, last.text)
    assert Verdict.NOT_DUE == following.verdict
    assert following.text.startswith("it starts after 'first' succeeded; no run led")
    assert "The latest of 'first' failed at " in following.text
    assert following.text.endswith(f" ({_name(again)})")


def _name(of: NewOperation) -> str:
    return f"operation {of.id}"


@pytest.mark.parametrize("delay", ["PT0S", "PT10M"])
def test_audit_finds_the_end_that_nothing_follows(first: sa.Engine, delay: str):
    """By the id that a run after it would have."""
    id_, now = follow(first, when={"delay": delay}), get_now(first)
    times = dict.fromkeys(("recorded_at", "effective_from"), now - 60 * MINUTE)
    execute(first, sa.update(scheduled_action_revisions).values(times))
    run(first)
    edit(first, FIRST.id, finished_at=now - 30 * MINUTE)

    def find() -> list[str]:
        found = audit_all(
            first, app="app", since=MONDAY, until=None, lookback=5 * MINUTE
        )
        return [each.fault for each in found.faults if each.action_uid == "next"]

    assert [] == find()
    execute(first, sa.delete(operations).where(operations.c.id == id_))
    assert ["miss"] == find()
