"""Workers that die, freeze, take too long or get a message twice (real processes)."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import redis

from dispatch.manual_runs import run_now
from models.database.engine import db_now
from models.operation_state import OperationState, Queue, Reason, StepState
from operations.cancel_and_retry import cancel
from operations.list_operations import fetch_steps
from tests.chaos.installation import SHORT, Installation, freeze, kill, thaw
from tests.database import read_by, write_by
from tests.scheduling import edit, edit_action, get
from tests.servers import wait_until


def fetch_step_states(installation: Installation, operation_id: UUID) -> list[str]:
    steps = read_by(installation.engine, fetch_steps, [operation_id])
    return [step.state for step in steps[operation_id]]


def test_poison_and_time_limits_end_in_a_final_state(scheduled: Installation) -> None:
    """Each lost child is noticed at once; both limits fail with the reason, once."""
    # Far enough from each other for a machine that has much else to do; what is not
    # about them is heavy, and has others.
    scheduled.options |= {"QUICK_SOFT_LIMIT": "PT3S", "QUICK_HARD_LIMIT": "PT9S"}
    never = str(scheduled.folder / "never")
    soft = scheduled.run("wait_for", never)
    hard = scheduled.run("wait_deaf", never)
    with scheduled.worker(concurrency=3):
        poison = run_heavy(scheduled, "die")
        for attempt in (1, 2, 3):
            scheduled.wait_for_effects(poison, attempt)
            wait_until(
                lambda: get(scheduled.engine, poison).reason == Reason.WORKER_LOST,
                what="the loss to be noticed",
            )
            scheduled.hurry()
        row = scheduled.wait_until_final(poison)
        healthy = run_heavy(scheduled, "sleep", 0)

        assert scheduled.wait_until_final(healthy).state == OperationState.SUCCEEDED
        rows = [scheduled.wait_until_final(each) for each in (soft, hard)]
    assert (row.state, row.reason) == (OperationState.FAILED, Reason.WORKER_LOST)
    assert row.attempt == 3
    assert scheduled.count_effects(poison) == 3
    assert fetch_step_states(scheduled, poison) == [StepState.FAILED]
    assert [OperationState.FAILED] * 2 == [row.state for row in rows]
    assert [Reason.TIME_LIMIT] * 2 == [row.reason for row in rows]
    assert [1, 1] == [scheduled.count_effects(each) for each in (soft, hard)]
    for each in (soft, hard):
        assert fetch_step_states(scheduled, each) == [StepState.FAILED], each
    assert "soft" in rows[0].error
    assert "hard" in rows[1].error


def run_heavy(installation: Installation, name: str, *args: int) -> UUID:
    """Record a run of a new action that is heavy; return the operation's id."""
    uid = installation.add(name, *args)
    edit_action(installation.engine, uid, queue=Queue.HEAVY)
    return run_now(installation.engine, uid)


def test_worker_that_was_killed_is_replaced(scheduled: Installation) -> None:
    """When its lease has run out, another worker does the operation again."""
    gate = scheduled.folder / "gate"
    scheduled.options |= SHORT
    with scheduled.worker("first", concurrency=1) as first:
        asked = scheduled.run("wait_for", str(gate))
        scheduled.wait_for_effects(asked)
        kill(first)
    gate.touch()
    scheduled.options.clear()
    with scheduled.worker("second", concurrency=1):
        wait_until(
            lambda: get(scheduled.engine, asked).state != OperationState.RUNNING,
            what="the loss to be noticed",
        )
        scheduled.hurry()
        row = scheduled.wait_until_final(asked)

    assert row.state == OperationState.SUCCEEDED
    assert row.attempt == 2
    assert row.worker.startswith("second@tests")


def test_worker_frozen_past_its_lease_writes_nothing(scheduled: Installation) -> None:
    """Another one has finished; what the first writes when it wakes is refused."""
    gate = scheduled.folder / "gate"
    scheduled.options |= SHORT
    with scheduled.worker("first", concurrency=1) as first:
        asked = scheduled.run("wait_deaf", str(gate))
        scheduled.wait_for_effects(asked)
        freeze(first)
        gate.touch()
        scheduled.options.clear()
        with scheduled.worker("second", concurrency=1):
            wait_until(
                lambda: get(scheduled.engine, asked).state != OperationState.RUNNING,
                what="the lease to run out",
            )
            scheduled.hurry()
            done = scheduled.wait_until_final(asked)
            thaw(first)
            scheduled.wait_for_log("first", "claim_lost")
    after = get(scheduled.engine, asked)

    assert done.state == OperationState.SUCCEEDED
    assert done.worker.startswith("second@tests")
    assert done == after


def test_message_that_comes_again_runs_nothing(scheduled: Installation) -> None:
    """Copies while it runs, and one afterwards: one run, and Redis is empty."""
    gate = scheduled.folder / "gate"
    with scheduled.worker("first"), scheduled.worker("second"):
        asked = scheduled.run("wait_for", str(gate))
        scheduled.wait_for_effects(asked)
        # The worker acknowledges it beside the process that has begun.
        wait_until(lambda: not fetch_messages(scheduled), what="the acknowledgement")
        scheduled.send(*[asked] * 3)
        wait_until(
            lambda: count_drops(scheduled) >= 3, what="three copies to be dropped"
        )
        gate.touch()
        row = scheduled.wait_until_final(asked)
        scheduled.send(asked)
        wait_until(lambda: count_drops(scheduled) >= 4, what="a fourth")
        wait_until(lambda: not fetch_messages(scheduled), what="nothing to be left")

    assert (row.state, row.attempt) == (OperationState.SUCCEEDED, 1)
    assert scheduled.count_effects(asked) == 1
    assert 4 == count_drops(scheduled)


def fetch_messages(installation: Installation) -> list[str]:
    """Return the keys under which Redis holds messages, taken or not."""
    with redis.Redis.from_url(installation.broker_url) as client:
        keys = [key.decode() for key in client.scan_iter()]
    return [key for key in keys if not key.startswith("_kombu.binding")]


def count_drops(installation: Installation) -> int:
    logs = installation.read_log("first") + installation.read_log("second")
    return logs.count('"operation_not_claimed"')


def test_operation_is_canceled_in_any_state(scheduled: Installation) -> None:
    """One that has not begun never does; one that runs stops at its next progress."""
    never = str(scheduled.folder / "never")
    pending, queued, running = (scheduled.run("wait_for", never) for _ in range(3))
    scheduled.wait_for_state(pending, "queued")
    later = db_now(timedelta(hours=1))
    edit(scheduled.engine, pending, state="pending", send_at=later)
    do_cancel(scheduled, pending)
    scheduled.wait_for_state(queued, "queued")
    do_cancel(scheduled, queued)
    with scheduled.worker(concurrency=1):
        scheduled.wait_for_effects(running)
        do_cancel(scheduled, running)
        scheduled.wait_until_final(scheduled.run("sleep", 0))
    asked = (pending, queued, running)

    assert {OperationState.CANCELED} == {get(scheduled.engine, i).state for i in asked}
    assert [0, 0, 1] == [scheduled.count_effects(each) for each in asked]
    assert [0, 0, 0] == [scheduled.count_effects(each, done=True) for each in asked]


def do_cancel(installation: Installation, operation_id: UUID) -> None:
    assert write_by(installation.engine, cancel, operation_id, reason=Reason.CANCELED)
