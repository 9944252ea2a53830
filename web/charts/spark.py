"""Lines as small as a word. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

WIDTH, HEIGHT = 96, 20

DEPTH_WIDTH, DEPTH_HEIGHT = 150, 32
_DEPTH_MARGIN = 2.0

#: Room for the line and the dot at its end.
_MARGIN = 3.0


@dataclass(frozen=True, slots=True)
class Spark:
    """
    A line of values over time.

    Args:
        path: Of the line; one point if there is one value.
        x: Of the last value.
        y: The same.
        least: The least value, seconds.
        most: The largest one.
    """

    path: str
    x: float
    y: float
    least: float
    most: float


def draw_spark(
    values: Mapping[datetime, timedelta], since: datetime, until: datetime
) -> Spark | None:
    """
    Return the line of *values* from *since* to *until*; None if there is no value.

    The bottom is zero, so that the line of small values lies low.
    """
    points = sorted((at, each.total_seconds()) for at, each in values.items())
    if not points:
        return None
    most = max(each for _at, each in points)
    span = max((until - since).total_seconds(), 1.0)

    def place(at: datetime, value: float) -> tuple[float, float]:
        part = min(max((at - since).total_seconds() / span, 0.0), 1.0)
        x = _MARGIN + part * (WIDTH - 2 * _MARGIN)
        y = HEIGHT - _MARGIN - value / (most or 1.0) * (HEIGHT - 2 * _MARGIN)
        return round(x, 1), round(y, 1)

    placed = [place(*point) for point in points]
    path = "M" + "L".join(f"{x:g} {y:g}" for x, y in placed)
    x, y = placed[-1]
    return Spark(path, x, y, min(each for _at, each in points), most)


@dataclass(frozen=True, slots=True)
class Depth:
    """
    How many waited in a queue, minute by minute.

    Args:
        path: Of the line.
        x: Of the last value.
        y: The same.
        most: The largest value.
    """

    path: str
    x: float
    y: float
    most: int


def draw_depth(values: Sequence[int]) -> Depth:
    """
    Return the line of *values*, at least one, evenly spaced, the latest at the right.

    The bottom is zero.

    >>> draw_depth([0, 2, 1]).path
    'M2 30L74 2L146 16'
    """
    most = max(values)
    margin = _DEPTH_MARGIN
    step = (DEPTH_WIDTH - 2 * margin - 2) / max(len(values) - 1, 1)
    scale = (DEPTH_HEIGHT - 2 * margin) / (most or 1)
    points = [
        (
            round(margin + step * place, 1),
            round(DEPTH_HEIGHT - margin - value * scale, 1),
        )
        for place, value in enumerate(values)
    ]
    path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
    return Depth(path, *points[-1], most)
