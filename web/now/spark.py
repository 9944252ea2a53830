"""A line as small as a word. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

WIDTH, HEIGHT = 96, 20

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
