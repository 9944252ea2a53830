"""When a run may end, from how long its steps usually take."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from models.operation_state import StepState
from operations.running.pace import Usual
from web.now.fetch_running import Estimate, estimate_end

NOW = datetime(2026, 10, 20, 2, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
USUAL = {"refresh": Usual(8 * MINUTE, 3), "publish": Usual(2 * MINUTE, 3)}


class SeenStep(NamedTuple):
    """What is read of a row."""

    name: str
    state: StepState
    started_at: datetime | None = None
    progress: dict[str, int] | None = None


def refresh(minutes: float, done: int = 0, total: int = 0) -> SeenStep:
    """Return a refresh that has run for so many minutes."""
    began = NOW - minutes * MINUTE
    return SeenStep("refresh", StepState.RUNNING, began, {"done": done, "total": total})


PUBLISH = SeenStep("publish", StepState.PENDING)


def test_rest_takes_as_long_as_usual():
    """What is left of the step that runs, and the steps after it."""
    found = estimate_end([refresh(3), PUBLISH], USUAL, NOW)

    assert Estimate(NOW + 7 * MINUTE, 0.3) == found


def test_steps_that_ended_count_for_the_share():
    """The run began with the first of them."""
    ended = SeenStep("refresh", StepState.SUCCEEDED, NOW - 9 * MINUTE)
    runs = SeenStep("publish", StepState.RUNNING, NOW - MINUTE)
    found = estimate_end([ended, runs], USUAL, NOW)

    assert Estimate(NOW + MINUTE, 0.9) == found


def test_step_that_takes_longer_goes_by_its_progress():
    """After 12 minutes 6 of 9 are done: 6 minutes are left."""
    found = estimate_end([refresh(12, 6, 9)], USUAL, NOW)

    assert found is not None
    assert NOW + 6 * MINUTE == found.eta


@pytest.mark.parametrize(
    ("steps", "usual"),
    [
        ([refresh(9)], USUAL),  # longer than usual, and says nothing
        ([refresh(9, 9, 9)], USUAL),  # all is done, and it goes on
        ([refresh(1)], {}),  # never succeeded
        (
            [refresh(1), PUBLISH],
            {"refresh": USUAL["refresh"]},
        ),  # what follows is unknown
        ([PUBLISH], USUAL),  # nothing runs
        ([], USUAL),
    ],
)
def test_nothing_is_foretold_without_ground(
    steps: list[SeenStep], usual: dict[str, Usual]
):
    """No end is better than a wrong one."""
    assert estimate_end(steps, usual, NOW) is None
