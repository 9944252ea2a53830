"""What was canceled is its worker's until that has stopped: nothing runs beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from celery_app.tasks import execute
from models.database.engine import writing
from models.operation_state import Overlap, Queue
from operations.cancel_and_retry import cancel, reopen
from operations.claiming.claim import claim_operation, let_go, renew
from operations.claiming.claimed import Claim
from operations.claiming.heart import Heart, Worker
from operations.foreign_tasks import ForeignTask
from operations.rescue import expire_claim, reclaim_lost_workers, take_over_all
from tests.database import write_by
from tests.scheduling import (
    MINUTE,
    REFRESH,
    add_revision,
    add_runs,
    edit,
    expire,
    find_sendable,
    get,
    get_now,
    make_operation,
    must_claim,
    record_all,
)
from tests.unit.operations.fakes import FakeTaskSender, World

WORKER = "celery@host (1234abcd)"
HEAVY = make_operation(1, queue=Queue.HEAVY)
NEXT = make_operation(2, queue=Queue.HEAVY)


@pytest.fixture
def canceled(engine: sa.Engine) -> Claim:
    """Give the claim of a worker that has not noticed yet that it was canceled."""
    add_runs(engine, HEAVY, operations=REFRESH)
    claim = must_claim(engine, HEAVY.id, worker=WORKER)
    do_cancel(engine)
    record_all(engine, NEXT)
    return claim


def do_cancel(engine: sa.Engine) -> None:
    assert write_by(engine, cancel, HEAVY.id, reason="canceled")


def do_reopen(engine: sa.Engine) -> None:
    assert write_by(engine, reopen, HEAVY.id)


def stop(engine: sa.Engine, claim: Claim) -> None:
    write_by(engine, let_go, claim)


def test_no_heavy_operation_runs_beside_one_that_was_canceled(
    engine: sa.Engine, canceled: Claim
):
    """Its worker may write the same staging: the next waits until it stopped."""
    assert [] == find_sendable(engine)
    assert claim_operation(engine, NEXT.id, worker="w") is None

    stop(engine, canceled)

    assert [NEXT.id] == find_sendable(engine)
    must_claim(engine, NEXT.id)


def test_a_retry_waits_for_the_worker_that_was_canceled(engine: sa.Engine):
    """
    Whatever the queue: it is pending at once, and a second attempt begins when the
    first has ended.
    """
    add_revision(engine)
    quick = HEAVY._replace(queue=Queue.QUICK)
    record_all(engine, quick)
    claim = must_claim(engine, quick.id)
    do_cancel(engine)
    do_reopen(engine)
    assert "pending" == get(engine, quick.id).state
    assert [] == find_sendable(engine)
    assert claim_operation(engine, quick.id, worker="w") is None

    stop(engine, claim)

    assert [quick.id] == find_sendable(engine)
    again = must_claim(engine, quick.id)
    assert 2 == again.attempt


def test_queued_runs_of_an_action_wait_as_well(engine: sa.Engine):
    """With ``overlap: queue`` nothing of the action runs beside what was canceled."""
    add_revision(engine)
    first, second = (make_operation(n, overlap=Overlap.QUEUE) for n in (1, 2))
    record_all(engine, first, second)
    claim = must_claim(engine, first.id, worker=WORKER)
    do_cancel(engine)
    assert [] == find_sendable(engine)

    stop(engine, claim)

    assert [second.id] == find_sendable(engine)


def test_the_heart_keeps_the_claim_of_what_was_canceled(
    engine: sa.Engine, canceled: Claim
):
    """A step may go on for longer than a lease before its next progress point."""
    edit(engine, HEAVY.id, lease_expires_at=get_now(engine))

    assert {canceled.token} == renew(engine, [canceled.token])
    assert get(engine, HEAVY.id).lease_expires_at > get_now(engine)


def test_a_worker_that_died_does_not_hold_it_for_ever(
    engine: sa.Engine, canceled: Claim
):
    """While the lease holds, the leader leaves it alone; then it frees it."""
    write_by(engine, reclaim_lost_workers)
    assert canceled.token == get(engine, HEAVY.id).claim_token
    expire(engine, HEAVY.id)
    assert (0, 0) == write_by(engine, reclaim_lost_workers)

    row = get(engine, HEAVY.id)
    assert ("canceled", None, None) == (
        row.state,
        row.claim_token,
        row.lease_expires_at,
    )
    must_claim(engine, NEXT.id)


@pytest.mark.parametrize("how", ["child died", "process restarted"])
def test_a_worker_known_to_be_dead_is_freed_at_once(
    engine: sa.Engine, canceled: Claim, how: str
):
    """Its parent, or the next embedded process, ends the lease."""
    del canceled
    with writing(engine) as connection:
        if how == "child died":
            expire_claim(connection, HEAVY.id, worker_suffix="(1234abcd)")
        else:
            take_over_all(connection)
    write_by(engine, reclaim_lost_workers)

    assert get(engine, HEAVY.id).claim_token is None


@dataclass
class CancelingTasks(FakeTaskSender):
    """A broker that cancels the operation that sends to it, and may retry it."""

    cancel: Callable[[], None] = lambda: None
    breaks: bool = False

    def send(self, task: ForeignTask) -> ForeignTask:
        """Send nothing."""
        self.cancel()
        if self.breaks:
            raise RuntimeError("nobody expected this")
        return task


def run_canceled(
    engine: sa.Engine, folder: Path, *, retry: bool = False, breaks: bool = False
) -> list[object]:
    """Run an operation that is canceled meanwhile; return its log lines."""
    add_runs(engine, HEAVY)

    def cancel_it() -> None:
        do_cancel(engine)
        if retry:
            do_reopen(engine)

    tasks = CancelingTasks(cancel=cancel_it, breaks=breaks)
    ports = replace(World(folder).make_context().ports, tasks=tasks)
    heart = Heart(engine, lease=MINUTE, every=MINUTE)
    with capture_logs() as lines:
        execute(Worker(engine, ports, heart), str(HEAVY.id), WORKER)
    heart.stop()
    return [(line["event"], line.get("state")) for line in lines]


@pytest.mark.parametrize(
    ("what", "state", "expected"),
    [
        (
            {},
            "canceled",
            [("operation_canceled", None), ("operation_finished", "canceled")],
        ),
        # the attempt ends without a state of its own: nothing was finished
        ({"retry": True}, "pending", [("claim_lost", None)]),
        ({"breaks": True}, "canceled", [("operation_crashed", None)]),
    ],
    ids=["canceled", "tried again", "its step breaks"],
)
def test_the_worker_lets_go(
    engine: sa.Engine,
    tmp_path: Path,
    what: dict[str, bool],
    state: str,
    expected: list[object],
):
    """At its next write it notices, stops, and says so."""
    lines = run_canceled(engine, tmp_path, **what)

    row = get(engine, HEAVY.id)
    assert (state, None) == (row.state, row.claim_token)
    assert expected == lines


@pytest.mark.parametrize(("beats", "warnings"), [(1, 0), (2, 1), (3, 1)])
def test_the_heart_tells_once_of_a_claim_that_was_lost(
    engine: sa.Engine, canceled: Claim, beats: int, warnings: int
):
    """At its second beat without it: what just ended is removed before that."""
    stop(engine, canceled)
    heart = Heart(engine, lease=timedelta(minutes=1), every=timedelta(hours=1))
    heart.add(canceled)
    with capture_logs() as lines:
        for _beat in range(beats):
            heart.beat()
    heart.stop()

    assert ["claim_lost"] * warnings == [line["event"] for line in lines]
