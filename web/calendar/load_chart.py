"""The load ahead as bars, an hour each: where they stand. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

#: The picture, and the room in it that the bars have.
WIDTH, HEIGHT = 1232, 128
_LEFT, _RIGHT, _TOP, _FLOOR = 40, 1224, 22, 104

#: Hours that the table tells.
_TOLD = 24

_HOUR = timedelta(hours=1)
_HOURS = 7 * 24


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the grid: where, and what it says."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
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
        hours: For those who read tables: when each hour begins, and its counts.
    """

    paths: Mapping[str, str]
    width: float
    rows: Sequence[Line]
    days: Sequence[Line]
    marks: Sequence[Mark]
    most: int
    least: int
    hours: Sequence[tuple[datetime, Mapping[str, int]]]

    @property
    def fullest(self) -> Sequence[tuple[datetime, Mapping[str, int]]]:
        """The hours with the most, the fullest first: as many as are worth reading."""
        return sorted(self.hours, key=lambda each: -sum(each[1].values()))[:_TOLD]


def draw_load(
    minutes: Sequence[tuple[datetime, Mapping[str, int]]],
    hot: Sequence[datetime],
    since: datetime,
    zone: ZoneInfo,
) -> LoadChart:
    """
    Return the bars of seven days.

    Args:
        minutes: Each minute with occurrences (aware), and how many in each queue.
        hot: The hottest minutes that are marked, the hottest first.
        since: The first minute, aware.
        zone: Whose days are told.
    """
    counts: list[dict[str, int]] = [{} for _ in range(_HOURS)]
    for at, by_queue in minutes:
        number = (at - since) // _HOUR
        if 0 <= number < _HOURS:
            for queue, count in by_queue.items():
                counts[number][queue] = counts[number].get(queue, 0) + count
    totals = [sum(each.values()) for each in counts]
    most = max(totals)
    top = _round_up(most)
    step = (_RIGHT - _LEFT) / _HOURS
    per = (_FLOOR - _TOP) / top
    queues = sorted({queue for each in counts for queue in each})
    base = [0] * _HOURS
    paths = {}
    for queue in queues:
        parts = []
        for number, each in enumerate(counts):
            count = each.get(queue, 0)
            if count:
                x = _LEFT + (number + 0.5) * step
                parts.append(
                    f"M{x:.1f} {_FLOOR - base[number] * per:.1f}v{-count * per:.1f}"
                )
                base[number] += count
        paths[queue] = "".join(parts)
    marks = []
    for rank, at in enumerate(hot, 1):
        number = min(max((at - since) // _HOUR, 0), _HOURS - 1)
        y = _FLOOR - totals[number] * per
        marks.append(Mark(_LEFT + (number + 0.5) * step, y, rank))
    return LoadChart(
        paths=paths,
        width=round(step - 2, 1),
        rows=[Line(_FLOOR - each * per, f"{each:,}") for each in (0, top // 2, top)],
        days=list(_find_days(since, zone, step)),
        marks=marks,
        most=most,
        least=min(totals),
        hours=[(since + n * _HOUR, each) for n, each in enumerate(counts)],
    )


def _find_days(since: datetime, zone: ZoneInfo, step: float) -> list[Line]:
    """Return where local days begin, to the hour."""
    found = []
    for number in range(1, _HOURS):
        before = (since + (number - 1) * _HOUR).astimezone(zone).date()
        day = (since + number * _HOUR).astimezone(zone).date()
        if day != before:
            found.append(Line(_LEFT + number * step, f"{day:%a} {day.day}"))
    return found


def _round_up(count: int) -> int:
    """Return a round even number that is not less than *count*, and at least 2."""
    size = 1
    while True:
        for each in (2, 4, 6, 10):
            if each * size >= count:
                return each * size
        size *= 10
