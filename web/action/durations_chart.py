"""How long the last runs took, as a line. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

#: Units: the area of the line, and its size as a small one.
LEFT, RIGHT, TOP, BOTTOM = 52, 366, 22, 118
SMALL = (96, 20)

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
        DurationLine(place(number * step), _tell(number * step / unit, name))
        for number in range(int(longest // step) + 1)
    ]
    gap = (RIGHT - LEFT) / (len(runs) - 1)
    points = tuple(
        Point(round(LEFT + number * gap, 1), place(took), is_bad, told)
        for number, (took, is_bad, told) in enumerate(runs)
    )
    return Trend(
        _join(points), points, tuple(lines), None if median is None else place(median)
    )


def draw_spark(took: Sequence[float]) -> str:
    """
    Return the path of the same as a small line; empty: there are not two.

    >>> draw_spark([1, 2])
    'M1 19L95 1'
    """
    if len(took) < 2:
        return ""
    width, height = SMALL
    low, high = min(took), max(took)
    span = high - low
    gap = (width - 2) / (len(took) - 1)
    found = [
        Point(
            round(1 + number * gap, 1),
            round(height - 1 - (height - 2) * (each - low) / span, 1)
            if span
            else height / 2,
            is_bad=False,
            told="",
        )
        for number, each in enumerate(took)
    ]
    return _join(found)


def _join(points: Sequence[Point]) -> str:
    first = points[0]
    rest = "".join(f"L{each.x:g} {each.y:g}" for _, each in pairwise(points))
    return f"M{first.x:g} {first.y:g}{rest}"


def _tell(number: float, name: str) -> str:
    return f"{number:g} {name}" if number else "0"
