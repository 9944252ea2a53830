"""What the demo tells."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from cli.demo.teller import find_news
from models.operation_state import OperationState, StepState
from tests.shown import make_shown_operation, make_shown_step

TICK_AT = datetime(2026, 11, 23, 6, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_lines_have_the_time_at_which_it_happened():
    """
    What an occurrence of long ago led to stands behind the tick that found it, and
    its end behind its last step.
    """
    step = make_shown_step(
        "send_email",
        StepState.SUCCEEDED,
        finished_at=TICK_AT + 3 * SECOND,
        result={"sent": 1},
    )
    operation = make_shown_operation(
        triggered_by='Scheduled action "bring back"',
        occurrence=TICK_AT - 39 * SECOND,
        recorded_at=TICK_AT,
        finished_at=TICK_AT + 2 * SECOND,
        state=OperationState.SUCCEEDED,
        steps=(step,),
    )
    tick: Any = SimpleNamespace(now=TICK_AT, due=1, recorded=1)

    news = find_news([tick], [operation])

    assert [
        (TICK_AT, "tick: 1 due, 1 recorded"),
        (TICK_AT + 3 * SECOND, "bring back: send_email: sent 1"),
        (TICK_AT + 3 * SECOND, "bring back: succeeded"),
    ] == news


def test_what_never_ran_ended_when_it_was_recorded():
    """A skipped operation has no time at which it was finished."""
    operation = make_shown_operation(
        triggered_by='Scheduled action "hourly"',
        recorded_at=TICK_AT,
        state=OperationState.SKIPPED,
        reason="overlap",
    )

    news = find_news([], [operation])

    assert [(TICK_AT, "hourly: skipped (overlap)")] == news
