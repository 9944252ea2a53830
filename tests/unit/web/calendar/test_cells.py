"""The calendar says what is special about its days, and each hour what it has."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from actions.load.counting import LoadedMinute
from actions.load.foresee import Whose
from models.operation_state import OperationState, Queue
from web.calendar.cells import draw_load, make_rows, say, tell
from web.calendar.fetch_calendar import Calendar
from web.calendar.local_days import CalendarHour, find_local_days

_S = OperationState
LONDON = ZoneInfo("Europe/London")
AUTUMN, SPRING, USUAL = date(2026, 10, 19), date(2026, 3, 23), date(2026, 9, 28)


def make(first: date, at: datetime, **hours: dict[str, int]) -> Calendar:
    """Return a week in London; *hours* by day and shown hour, such as d0h7."""
    days = find_local_days(first, 7, LONDON)
    for number, day in enumerate(days):
        for hour in day.hours:
            fill(hour, **hours.get(f"d{number}h{hour.shown}", {}))
    return Calendar(at, LONDON, days, at, is_partial=False)


def fill(hour: CalendarHour, planned: int = 0, **states: int) -> CalendarHour:
    hour.planned = planned
    hour.states.update({_S(name): n for name, n in states.items()})
    return hour


NOW = datetime(2026, 10, 20, 2, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("first", "at", "hours", "expected"),
    [
        (AUTUMN, NOW, {}, "19 to 25 October. The clocks go back on Sunday."),
        (
            AUTUMN,
            NOW + timedelta(days=9),
            {},
            "19 to 25 October. The clocks went back on Sunday.",
        ),
        (SPRING, datetime(2026, 3, 1, tzinfo=UTC), {}, "The clocks go forward on"),
        (
            USUAL,
            NOW,
            {"d0h7": {"failed": 1, "missed": 2}},
            "28 September to 4 October. 1 run failed and 2 were missed.",
        ),
        (USUAL, NOW, {"d0h7": {"succeeded": 1}}, "Nothing failed or was missed."),
        (USUAL, NOW, {"d0h7": {"planned": 3}}, "3 runs are planned."),
        (USUAL, NOW, {}, "Nothing is due."),
    ],
)
def test_the_largest_line_says_what_is_special(
    first: date, at: datetime, hours: dict[str, dict[str, int]], expected: str
):
    """Clocks first, then trouble, then what there is."""
    large, _lead = say(make(first, at, **hours))

    assert expected in large


def test_trouble_is_told_beside_the_clocks():
    """Neither hides the other."""
    assert "1 run failed." == say(make(AUTUMN, NOW, d0h7={"failed": 1}))[1]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"succeeded": 25}, "25 ran, all succeeded"),
        ({"succeeded": 2, "failed": 1}, "2 succeeded, 1 failed"),
        (
            {"planned": 18, "succeeded": 2, "running": 3},
            "2 succeeded, 3 running, 18 planned",
        ),
        ({}, "nothing due"),
    ],
)
def test_an_hour_tells_what_it_has(counts: dict[str, int], expected: str):
    """In the words of the states."""
    assert expected == tell(fill(CalendarHour(NOW, NOW, 2), **counts))


def test_days_are_told_by_their_clocks():
    """Today, and a day of 25 hours, whose hour that comes twice has two cells."""
    rows = make_rows(make(AUTUMN, NOW, d6h1={"planned": 4}), Whose())

    assert "today" == rows[1].note
    assert ("25 hours", True) == (rows[6].note, rows[6].is_changed)
    assert [1, 2, 1] == [len(cells) for cells in rows[6].cells[:3]]
    assert ["4: Sun 01:00 +01:00, 4 planned", "4: Sun 01:00 +00:00, 4 planned"] == [
        each.told for each in rows[6].cells[1]
    ]
    assert [True] == [
        e.is_now for row in rows for c in row.cells for e in c if e.is_now
    ]


def test_an_hour_that_clocks_skip_has_no_cell():
    """In the spring."""
    rows = make_rows(make(SPRING, NOW), Whose())

    assert [1, 0, 1] == [len(cells) for cells in rows[6].cells[:3]]
    assert "23 hours" == rows[6].note


def test_a_cell_leads_to_its_operations_or_to_what_is_planned():
    """Of the same app and queue; an outage is listed where it began."""
    week = make(AUTUMN, NOW, d0h7={"failed": 1}, d5h7={"planned": 2})
    missed = fill(week.days[1].hours[1], missed=1)
    missed.missed_since = NOW - timedelta(hours=9)
    whose = Whose("shop", Queue.QUICK)

    rows = make_rows(week, whose)

    filters = "&app=shop&queue=quick"
    assert (
        "/operations?from=2026-10-19T06%3A00%3A00Z&until=2026-10-19T07%3A00%3A00Z"
        + filters
        == rows[0].cells[7][0].path
    )
    assert (
        "/calendar/planned?from=2026-10-24T06%3A00%3A00Z"
        "&until=2026-10-24T07%3A00%3A00Z" + filters == rows[5].cells[7][0].path
    )
    assert "from=2026-10-19T17%3A02%3A00Z" in str(rows[1].cells[1][0].path)
    assert rows[0].cells[0][0].path is None


@pytest.mark.parametrize(
    ("planned", "expected"),
    [(999, "999"), (3_600, "3.6k"), (36_000, "36k"), (3_600_000, "3600k")],
)
def test_a_large_number_has_room_in_its_cell(planned: int, expected: str):
    """Of what is due each second; the whole number is told in words."""
    (row, *_others) = make_rows(make(USUAL, NOW, d0h7={"planned": planned}), Whose())
    (cell,) = row.cells[7]

    assert expected == cell.short
    assert f"{planned:,} planned" in cell.told


NOON = datetime(2026, 10, 24, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


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
