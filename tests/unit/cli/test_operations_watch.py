"""What is told of an operation that is watched."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cli.operations_watch import describe, find_warnings
from models.operation_state import OperationState, StepState
from overview.operations import ShownOperation, ShownStep
from tests.shown import make_shown_operation, make_shown_step

THEN = datetime(2026, 11, 23, 6, tzinfo=UTC)
STARTED = make_shown_step("refresh", StepState.SUCCEEDED, started_at=THEN)


def make_shown(state: str, *steps: ShownStep) -> ShownOperation:
    return make_shown_operation(
        triggered_by="hello", state=OperationState(state), steps=steps
    )


FAILED = replace(STARTED, state=StepState.FAILED, error="no domain 'b'")
WAITING = make_shown_step("publish", StepState.PENDING)


@pytest.mark.parametrize(
    ("state", "steps", "lines"),
    [
        ("succeeded", [STARTED], ["  refresh: succeeded", "hello: succeeded"]),
        ("running", [STARTED, WAITING], ["hello: running", "  refresh: succeeded"]),
        ("failed", [FAILED], ["  refresh: failed: no domain 'b'", "hello: failed"]),
    ],
)
def test_operation_ends_after_its_last_step(
    state: str, steps: list[ShownStep], lines: list[str]
):
    """
    And begins before its first. A step that has not begun is not told of; one that
    failed says why.
    """
    assert lines == describe(make_shown(state, *steps))


def test_mail_to_nobody_is_told():
    """A step that succeeded without a mail may not be what its author meant."""
    result = {"sent": 0, "failed": [], "uncertain": [], "warnings": ["No group 'x'."]}
    silent = replace(STARTED, name="send_email", result=result)
    doubtful = replace(silent, result={**result, "warnings": [], "uncertain": ["ada"]})

    assert ["send_email: No group 'x'.", "send_email: nobody got a mail."] == (
        find_warnings(make_shown("succeeded", STARTED, silent))
    )
    assert [] == find_warnings(make_shown("succeeded", doubtful))
