"""What faces are told of an operation beside its columns."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from models.operation_state import OperationState, StepState
from operations.running.pace import Usual
from overview.operations import estimate_end
from tests.shown import make_shown_operation, make_shown_step

SIX = datetime(2026, 11, 23, 6, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def test_step_that_runs_ends_as_usual():
    """What it took before counts from when it began."""
    running = make_shown_step("refresh", StepState.RUNNING, started_at=SIX)
    usual = Usual(MINUTE, runs=3)

    assert SIX + MINUTE == estimate_end(running, usual).eta
    assert running.took is None
    assert estimate_end(replace(running, state=StepState.FAILED), usual).eta is None


def test_missed_row_stands_for_all_that_an_outage_took():
    """How many, and from which occurrence to which, as instants."""
    details = {
        "count": 1000,
        "more": True,
        "first": "2026-11-23T06:00:00Z",
        "last": "2026-11-23T22:39:00Z",
    }

    missed = make_shown_operation(state=OperationState.MISSED, details=details).missed

    assert missed is not None
    assert (1000, True, SIX) == (missed.count, missed.is_more, missed.first)


def test_other_details_are_nothing_missed():
    """A run that was forced has details, too."""
    assert make_shown_operation(details={"force": True}).missed is None
