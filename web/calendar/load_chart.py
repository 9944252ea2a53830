"""The load ahead as bars, an hour each: where they stand. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from actions.load.counting import LoadedMinute

#: The room that the bars have in the picture.
_LEFT, _RIGHT, _TOP, _FLOOR = 40, 1224, 22, 104

#: Hours that the table tells.
_TOLD = 24

_HOUR = timedelta(hours=1)
_HOURS = 7 * 24
_STEP = (_RIGHT - _LEFT) / _HOURS


@dataclass(frozen=True, slots=True)
class GridLine:
    """A line of the grid: where, and what it says."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class HotMark:
    """A hot minute: where, how high its hour stands, and its rank."""

    x: float
    y: float
    rank: int


@dataclass(frozen=True, slots=True)
class LoadChart:
    """
    Bars of hours.

    Args:
        paths: Of each queue the strokes; the first stands on the floor, each next on
            the former.
        width: Of a bar.
        rows: Lines of the grid, and how many they stand for.
        days: Where local days begin.
        marks: The hot minutes.
        most: How many the highest bar has.
        least: How many the lowest has.
        fullest: For those who read tables: the hours with the most and their counts,
            the fullest first, as many as are worth reading.
    """

    paths: Mapping[str, str]
    width: float
    rows: Sequence[GridLine]
    days: Sequence[GridLine]
    marks: Sequence[HotMark]
    most: int
    least: int
    fullest: Sequence[tuple[datetime, Mapping[str, int]]]


def draw_load(
    minutes: Sequence[LoadedMinute],
    hot: Sequence[datetime],
    since: datetime,
    zone: ZoneInfo,
) -> LoadChart:
    """
    Return the bars of seven days.

    Args:
        minutes: Those with occurrences.
        hot: The hottest minutes that are marked, the hottest first.
        since: The first minute, aware.
        zone: Whose days are told.
    """
    counts = [Counter[str]() for _ in range(_HOURS)]
    for each in minutes:
        number = (each.at - since) // _HOUR
        if 0 <= number < _HOURS:
            counts[number].update(each.by_queue)
    totals = [each.total() for each in counts]
    top = _round_up(max(totals))
    per = (_FLOOR - _TOP) / top
    base = [0] * _HOURS
    paths = {}
    for queue in sorted({queue for each in counts for queue in each}):
        parts = []
        for number, of_hour in enumerate(counts):
            if count := of_hour[queue]:
                y = _FLOOR - base[number] * per
                parts.append(f"M{_middle(number):.1f} {y:.1f}v{-count * per:.1f}")
                base[number] += count
        paths[queue] = "".join(parts)
    at_hours = [min(max((at - since) // _HOUR, 0), _HOURS - 1) for at in hot]
    hours = [(since + number * _HOUR, each) for number, each in enumerate(counts)]
    return LoadChart(
        paths=paths,
        width=round(_STEP - 2, 1),
        rows=[GridLine(_FLOOR - n * per, f"{n:,}") for n in (0, top // 2, top)],
        days=_find_days(since, zone),
        marks=[
            HotMark(_middle(number), _FLOOR - totals[number] * per, rank)
            for rank, number in enumerate(at_hours, 1)
        ],
        most=max(totals),
        least=min(totals),
        fullest=sorted(hours, key=lambda each: -each[1].total())[:_TOLD],
    )


def _middle(hour: int) -> float:
    return _LEFT + (hour + 0.5) * _STEP


def _find_days(since: datetime, zone: ZoneInfo) -> list[GridLine]:
    """Return where local days begin, to the hour."""
    dates = [(since + n * _HOUR).astimezone(zone).date() for n in range(_HOURS)]
    return [
        GridLine(_LEFT + number * _STEP, f"{day:%a} {day.day}")
        for number, day in enumerate(dates)
        if number and day != dates[number - 1]
    ]


def _round_up(count: int) -> int:
    """Return a round even number that is not less than *count*, and at least 2."""
    size = 1
    while True:
        for each in (2, 4, 6, 10):
            if each * size >= count:
                return each * size
        size *= 10
