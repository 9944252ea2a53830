"""How many waited in a queue, minute by minute, as a line. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 150, 32

_MARGIN = 2.0


@dataclass(frozen=True, slots=True)
class Depth:
    """
    A line.

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
    step = (WIDTH - 2 * _MARGIN - 2) / max(len(values) - 1, 1)
    points = [
        (
            round(_MARGIN + step * place, 1),
            round(HEIGHT - _MARGIN - value / (most or 1) * (HEIGHT - 2 * _MARGIN), 1),
        )
        for place, value in enumerate(values)
    ]
    path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
    return Depth(path, *points[-1], most)
