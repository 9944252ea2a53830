"""The days of some weeks as a map, and how long runs took as a curve. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from models.units import format_count
from web.charts import Outcome, judge

#: Units: the side of a day, from day to day, and where the first one is.
SIDE, STEP = 15, 19
LEFT, TOP = 40, 18

_WEEK = 7

_WEEKDAYS = {0: "Mon", 2: "Wed", 4: "Fri", 6: "Sun"}


@dataclass(frozen=True, slots=True)
class Cell:
    """One day; *told* says what became of it."""

    x: int
    y: int
    kind: Outcome
    told: str


@dataclass(frozen=True, slots=True)
class Label:
    """A word beside the map."""

    x: int
    y: int
    text: str


@dataclass(frozen=True, slots=True)
class DayMap:
    """
    The map.

    Args:
        kinds: That it has, in the order of the legend.
        label: What it shows, in words.
    """

    width: int
    height: int
    side: int
    cells: tuple[Cell, ...]
    months: tuple[Label, ...]
    weekdays: tuple[Label, ...]
    kinds: tuple[Outcome, ...]
    label: str


def draw_days(days: Sequence[tuple[date, Mapping[str, int]]]) -> DayMap:
    """
    Return the map of *days*: in order, without gaps, the first a Monday.

    >>> found = draw_days([(date(2026, 6, 29), {"succeeded": 1})])
    >>> found.label
    '1 week: 1 day succeeded'
    >>> found.cells[0].told
    'Mon 29 Jun: 1 succeeded'
    """
    cells = []
    months: list[Label] = []
    for number, (day, counts) in enumerate(days):
        x, y = LEFT + number // _WEEK * STEP, TOP + number % _WEEK * STEP
        told = ", ".join(f"{n} {state}" for state, n in counts.items() if n)
        shown = f"{day:%a} {day.day} {day:%b}: {told or 'no run'}"
        cells.append(Cell(x, y, judge(counts), shown))
        # of a column, where it has the first day of a month, if there is room
        is_new = day.day <= _WEEK and number % _WEEK == 0
        if is_new and (not months or x - months[-1].x > STEP):
            months.append(Label(x, 11, f"{day:%b}"))
    weeks = -(-len(days) // _WEEK)
    used = {cell.kind for cell in cells}
    return DayMap(
        width=LEFT + weeks * STEP,
        height=TOP + _WEEK * STEP + 1,
        side=SIDE,
        cells=tuple(cells),
        months=tuple(months),
        weekdays=tuple(
            Label(LEFT - STEP // 2 + 1, TOP + each * STEP + 11, name)
            for each, name in _WEEKDAYS.items()
        ),
        kinds=tuple(each for each in Outcome if each in used),
        label=_tell(weeks, cells),
    )


def count_weeks(
    days: Sequence[tuple[date, Mapping[str, int]]],
) -> list[tuple[date, Mapping[str, int]]]:
    """Return the same week by week: its Monday, and the counts of each state."""
    found: defaultdict[date, Counter[str]] = defaultdict(Counter)
    for day, counts in days:
        found[day - timedelta(days=day.weekday())].update(counts)
    return list(found.items())


def _tell(weeks: int, cells: Sequence[Cell]) -> str:
    counts = Counter(cell.kind for cell in cells)
    told = [
        f"{format_count(counts[kind], 'day', 'days')} {kind}"
        for kind in Outcome
        if counts[kind] and kind is not Outcome.NONE
    ]
    period = format_count(weeks, "week", "weeks")
    return f"{period}: {', '.join(told) or 'no run'}"


#: Units: the area of the line, and its size as a small one.
LEFT, RIGHT, TOP, BOTTOM = 52, 366, 22, 118

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0

#: What a line of the grid may be a multiple of, and the unit that its text is in.
_STEPS = (
    *((each, 1.0, "s") for each in (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)),
    *((each * _MINUTE, _MINUTE, "min") for each in (1, 2, 5, 10, 15, 30)),
    *((each * _HOUR, _HOUR, "h") for each in (1, 2, 4, 8, 12)),
    *((each * _DAY, _DAY, "d") for each in (1, 2, 5, 10, 30)),
)

_MOST_LINES = 4


@dataclass(frozen=True, slots=True)
class Point:
    """One run; *told* says what it is."""

    x: float
    y: float
    is_bad: bool
    told: str


@dataclass(frozen=True, slots=True)
class DurationLine:
    """A line of the grid, and what it stands for."""

    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Trend:
    """
    The picture.

    Args:
        path: Through all points.
        median: Where the median is. None: nothing succeeded.
    """

    path: str
    points: tuple[Point, ...]
    grid: tuple[DurationLine, ...]
    median: float | None


def draw_trend(
    runs: Sequence[tuple[float, bool, str]], median: float | None
) -> Trend | None:
    """
    Return the picture of some runs, in the order of time; None: there are not two.

    Args:
        runs: How many seconds each took, whether it failed, and what it is called.
        median: Of those that succeeded, in seconds.

    >>> trend = draw_trend([(60, False, "a"), (300, True, "b")], 60)
    >>> [(line.y, line.text) for line in trend.grid]
    [(118.0, '0'), (79.6, '2 min'), (41.2, '4 min')]
    >>> trend.path
    'M52 98.8L366 22'
    """
    if len(runs) < 2:
        return None
    longest = max(took for took, _, _ in runs) or 1.0

    def place(took: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * took / longest, 1)

    step, unit, name = next(
        (each for each in _STEPS if longest / each[0] <= _MOST_LINES), _STEPS[-1]
    )
    lines = [
        DurationLine(place(n * step), f"{n * step / unit:g} {name}" if n else "0")
        for n in range(int(longest // step) + 1)
    ]
    gap = (RIGHT - LEFT) / (len(runs) - 1)
    points = tuple(
        Point(round(LEFT + number * gap, 1), place(took), is_bad, told)
        for number, (took, is_bad, told) in enumerate(runs)
    )
    path = "M" + "L".join(f"{each.x:g} {each.y:g}" for each in points)
    middle = None if median is None else place(median)
    return Trend(path, points, tuple(lines), middle)
