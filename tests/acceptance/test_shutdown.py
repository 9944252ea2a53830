"""Workers that are told to stop: what they run goes on elsewhere (real processes)."""

from __future__ import annotations

import signal

import pytest

from celery_app.app import make_app
from celery_app.routing import EXECUTE_SCHEDULED_ACTION_QUICK
from models.operation_state import OperationState, Queue
from tests.chaos.installation import Installation
from tests.scheduling import get
from tests.servers import PATIENCE_S


@pytest.fixture
def installation(scheduled: Installation) -> Installation:
    """Give that with a scheduler."""
    return scheduled


def test_warm_shutdown_finishes_what_runs(installation: Installation) -> None:
    """SIGTERM: nothing new is begun, and the worker ends when its operations have."""
    gate = installation.folder / "gate"
    running = installation.run("wait_for", str(gate))
    with installation.worker("first", concurrency=1) as first:
        installation.wait_for_effects(running)
        waiting = installation.run("sleep", 0)
        installation.wait_for_state(waiting, "queued")
        first.send_signal(signal.SIGTERM)
        installation.wait_for_log("first", "Warm shutdown")

        assert first.poll() is None
        gate.touch()
        assert first.wait(PATIENCE_S) == 0
    with installation.worker("second", concurrency=1):
        rows = [installation.wait_until_final(each) for each in (running, waiting)]

    assert [OperationState.SUCCEEDED] * 2 == [row.state for row in rows]
    assert [1, 1] == [row.attempt for row in rows]
    assert [1, 1] == [installation.count_effects(each) for each in (running, waiting)]
    assert rows[1].worker.startswith("second@tests")


def test_cold_shutdown_gives_back_what_runs(installation: Installation) -> None:
    """SIGQUIT: what does not end in time is pending, and no attempt is counted."""
    installation.options["TEST_SOFT_SHUTDOWN_S"] = "8"
    gate, short_gate = installation.folder / "gate", installation.folder / "short"
    running = installation.run("wait_deaf", str(gate))
    short = installation.run("wait_deaf", str(short_gate))
    with installation.worker("first") as first:
        installation.wait_for_effects(running)
        installation.wait_for_effects(short)
        first.send_signal(signal.SIGQUIT)
        short_gate.touch()
        first.wait(PATIENCE_S)
        left = get(installation.engine, running)
        gate.touch()
        with installation.worker("second", concurrency=1):
            row = installation.wait_until_final(running)

    assert left.state in {OperationState.PENDING, OperationState.QUEUED}
    assert left.attempt == 0
    assert (row.state, row.attempt) == (OperationState.SUCCEEDED, 1)
    assert row.worker.startswith("second@tests")
    # The other one came through in the seconds that a soft shutdown waits.
    assert get(installation.engine, short).state == OperationState.SUCCEEDED
    assert installation.count_effects(short) == 1


def test_cold_shutdown_ends_what_came_twice(installation: Installation) -> None:
    """A second message, which found its operation running, saves no child."""
    gate = installation.folder / "gate"
    running = installation.run("wait_deaf", str(gate))
    with installation.worker("first") as first:
        installation.wait_for_effects(running)
        make_app(installation.settings).send_task(
            EXECUTE_SCHEDULED_ACTION_QUICK,
            kwargs={"triggerrer": "a test"},
            task_id=str(running),
            queue=Queue.QUICK.value,
        )
        installation.wait_for_log("first", "operation_not_claimed")
        # It has the slot of the second, which is done with in the parent, too.
        installation.wait_until_final(installation.run("sleep", 0))
        first.send_signal(signal.SIGQUIT)
        first.wait(PATIENCE_S)
        left = get(installation.engine, running)
        gate.touch()

    assert left.state in {OperationState.PENDING, OperationState.QUEUED}
    assert left.attempt == 0


def test_second_interrupt_gives_back_what_runs(installation: Installation) -> None:
    """Ctrl-C twice: the same as SIGQUIT."""
    gate = installation.folder / "gate"
    running = installation.run("wait_deaf", str(gate))
    with installation.worker("first", concurrency=1) as first:
        installation.wait_for_effects(running)
        first.send_signal(signal.SIGINT)
        # Two that wait for it at once would be one to it.
        installation.wait_for_log("first", "Warm shutdown")
        first.send_signal(signal.SIGINT)
        first.wait(PATIENCE_S)
        left = get(installation.engine, running)

    assert left.state in {OperationState.PENDING, OperationState.QUEUED}
    assert left.attempt == 0
