"""Runs for which somebody chose some of the action's steps."""

from __future__ import annotations

from uuid import UUID

import pytest
import sqlalchemy as sa

from dispatch.manual_runs import run_now
from models.errors import InvalidDocumentError, StepError, UsageError
from models.requests.actions import RunModel
from operations.cancel_and_retry import reopen, retry_or_refuse
from operations.ports import Ports, StepContext, StepFunction, StepResult
from overview.operations import fetch_shown_operation
from tests.database import fetch_rows, read_by, write_by
from tests.scheduling import (
    MONDAY,
    add_app,
    edit,
    get,
    get_steps,
    must_claim,
    post,
    run_attempt,
)

STEPS = {
    "refresh": True,
    "publish": {"data": True},
    "send_execsum": True,
    "call_webhook": {"url": "https://example.com"},
}


@pytest.fixture
def uid(engine: sa.Engine) -> str:
    add_app(engine)
    return post(engine, operations=STEPS).uid


def attempt(
    engine: sa.Engine, ports: Ports, operation_id: UUID, *, failing: str = ""
) -> list[str]:
    """Let a worker take the operation; return the steps that it ran."""
    ran = []

    def make(name: str) -> StepFunction:
        def run(_context: StepContext, _arguments: object) -> StepResult:
            ran.append(name)
            if name == failing:
                raise StepError("no", permanent=True)
            return {}

        return run

    run_attempt(engine, operation_id, ports, steps={name: make(name) for name in STEPS})
    return ran


def fetch_states(engine: sa.Engine, operation_id: UUID) -> dict[str, str]:
    rows = get_steps(engine, operation_id)
    return {row.name: row.state for row in rows}


def test_only_the_chosen_steps_run(engine: sa.Engine, ports: Ports, uid: str):
    """In the order of the action, not of the choice; the others are skipped."""
    chosen = ["call_webhook", "publish", "publish"]

    operation_id = run_now(engine, uid, RunModel(steps=tuple(chosen), note="mended"))

    assert ["publish", "call_webhook"] == attempt(engine, ports, operation_id)
    row = get(engine, operation_id)
    assert "succeeded" == row.state
    assert {"steps": ["publish", "call_webhook"], "note": "mended"} == row.details
    assert {
        "refresh": "skipped",
        "publish": "succeeded",
        "send_execsum": "skipped",
        "call_webhook": "succeeded",
    } == fetch_states(engine, operation_id)


def test_choice_survives_a_retry(engine: sa.Engine, ports: Ports, uid: str):
    """A retry goes on at the chosen step that failed, and runs no other."""
    operation_id = run_now(engine, uid, RunModel(steps=("publish", "send_execsum")))
    attempt(engine, ports, operation_id, failing="send_execsum")
    assert "failed" == get(engine, operation_id).state
    assert write_by(engine, reopen, operation_id)

    assert ["send_execsum"] == attempt(engine, ports, operation_id)
    assert "skipped" == fetch_states(engine, operation_id)["call_webhook"]
    assert "succeeded" == get(engine, operation_id).state


def test_choice_survives_a_worker_that_dies(engine: sa.Engine, ports: Ports, uid: str):
    """If a worker dies right after its claim, the next one knows of the choice, too."""
    operation_id = run_now(engine, uid, RunModel(steps=("send_execsum",)))
    claim = must_claim(engine, operation_id)
    assert 0 == claim.begun
    edit(engine, operation_id, lease_expires_at=MONDAY)

    assert ["send_execsum"] == attempt(engine, ports, operation_id)


def test_choice_is_shown_before_a_worker_takes_it(engine: sa.Engine, uid: str):
    """Whoever looks sees which steps will run."""
    operation_id = run_now(engine, uid, RunModel(steps=("publish",)))

    shown = read_by(engine, fetch_shown_operation, operation_id)

    assert ["skipped", "pending", "skipped", "skipped"] == [
        step.state for step in shown.steps
    ]


def test_steps_must_be_those_of_the_action(engine: sa.Engine, uid: str):
    """Others are refused, with those that there are; nothing is recorded."""
    with pytest.raises(InvalidDocumentError, match=r"/steps/1: 'send_email'.*publish"):
        run_now(engine, uid, RunModel(steps=("publish", "send_email")), key="k")

    count = sa.select(sa.func.count()).select_from(sa.table("operations"))
    assert 0 == fetch_rows(engine, count).scalar()


def test_retry_begins_at_a_chosen_step(engine: sa.Engine, ports: Ports, uid: str):
    """Steps that were not chosen do not stand in its way, and cannot be begun with."""
    operation_id = run_now(engine, uid, RunModel(steps=("publish", "call_webhook")))
    attempt(engine, ports, operation_id, failing="call_webhook")

    with pytest.raises(UsageError):
        write_by(engine, retry_or_refuse, operation_id, from_step="send_execsum")
    write_by(engine, retry_or_refuse, operation_id, from_step="publish")

    assert ["publish", "call_webhook"] == attempt(engine, ports, operation_id)
