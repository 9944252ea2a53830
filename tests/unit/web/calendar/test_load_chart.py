"""The bars of the load ahead stand where the times are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from actions.load.counting import LoadedMinute
from web.calendar.cells import draw_load

NOON = datetime(2026, 10, 24, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LONDON = ZoneInfo("Europe/London")


def test_bars_have_what_their_hour_has():
    """Each queue stands on the former one; hot minutes are marked above."""
    minutes = [
        LoadedMinute(NOON, 3, {"heavy": 2, "quick": 1}),
        LoadedMinute(NOON + timedelta(minutes=5), 3, {"quick": 3}),
        LoadedMinute(NOON + 50 * HOUR, 1, {"quick": 1}),
        LoadedMinute(NOON + 999 * HOUR, 70, {"quick": 70}),
    ]

    chart = draw_load(minutes, [NOON], NOON, LONDON)

    assert (6, 0) == (chart.most, chart.least)
    assert ["heavy", "quick"] == list(chart.paths)
    assert 2 == chart.paths["quick"].count("M")
    assert ["1"] == [each.text for each in chart.marks]
    assert ["Sun 25", "Mon 26"] == [each.text for each in chart.days[:2]]
    assert {"heavy": 2, "quick": 4} == chart.fullest[0][1]
    assert ["0", "3", "6"] == [each.text for each in chart.rows]


def test_nothing_planned_is_a_picture_as_well():
    """Without bars."""
    assert {} == draw_load([], [], NOON, LONDON).paths
