"""The lanes of the timeline stand where the times are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from models.operation_state import OperationState
from web.timeline.lane_chart import (
    WIDE,
    LaneFrame,
    LaneRun,
    draw_planned,
    draw_runs,
    find_ticks,
)

_S = OperationState
NOON = datetime(2026, 10, 24, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LONDON = ZoneInfo("Europe/London")


def run(state: _S, begin: float, end: float) -> LaneRun:
    return LaneRun(state, NOON + begin * HOUR, NOON + end * HOUR)


FRAME = LaneFrame(NOON, NOON + 10 * HOUR)


def test_runs_are_as_long_as_they_took():
    """What leaves the window ends there."""
    runs = [
        run(_S.SUCCEEDED, 1, 3),
        run(_S.SUCCEEDED, -5, 1),
        run(_S.RUNNING, 4, 5),
        run(_S.FAILED, 9, 99),
    ]

    drawn = draw_runs(FRAME, runs)

    assert "M100 3h200v9h-200zM0 3h100v9h-100z" == drawn[_S.SUCCEEDED]
    assert "M400 3h100v9h-100z" == drawn[_S.RUNNING]
    assert "M900 14h100v9h-100z" == drawn[_S.FAILED]


def test_what_never_ran_is_a_mark_where_it_was_due():
    """And at the right edge it is still seen."""
    runs = [run(_S.MISSED, 1, 1), run(_S.PENDING, 2, 3)]

    drawn = draw_runs(FRAME, runs)
    edge = draw_runs(FRAME, [run(_S.SUCCEEDED, 10, 10)])

    assert "M100 14h2v9h-2z" == drawn[_S.MISSED]
    assert "M200 3h100v9h-100z" == drawn[_S.PENDING]
    assert f"M{WIDE - 2} 3h2v9h-2z" == edge[_S.SUCCEEDED]


def test_ticks_of_one_place_are_one():
    """A thousand are few; a line tells that more come."""
    planned = [NOON + number * timedelta(seconds=1) for number in range(1000)]
    drawn = draw_planned(FRAME, planned)

    assert drawn.count("M") <= 30
    assert drawn.endswith(f" 8H{WIDE}")
    assert "H" not in draw_planned(FRAME, planned[:-1])


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        (1, ["12:00", "12:10", "12:20", "12:30", "12:40", "12:50"]),
        (6, ["12:00", "13:00", "14:00", "15:00", "16:00", "17:00"]),
        (
            24,
            [
                "12:00",
                "15:00",
                "18:00",
                "21:00",
                "Sun 25 Oct",
                "03:00",
                "06:00",
                "09:00",
            ],
        ),
    ],
)
def test_the_axis_has_round_times_of_the_zone(hours: int, expected: list[str]):
    """Also behind a change of clocks, where they are an hour further."""
    start = NOON - HOUR  # 12:00 in London
    frame = LaneFrame(start, start + hours * HOUR)

    assert expected == [each.text for each in find_ticks(frame, LONDON)]
