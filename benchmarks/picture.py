"""
Draw the figures of a run as an SVG for docs/benchmarks.md. Pure.

Two panels: how many messages a second, at the largest size that all have tried with
all due; and what one look around costs with nothing due, by how many are registered.
Both scales are logarithmic. Colours are readable on light and on dark backgrounds.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from benchmarks.case import Result

_WIDTH, _ROW, _LEFT = 760, 26, 150
_HEIGHT, _RIGHT, _LINE = 180, _WIDTH - 150, 14
_OURS, _OTHERS, _INK, _FAINT = "#d9480f", "#868e96", "#7b8794", "#adb5bd"
#: Of the line of each scheduler.
COLOURS = {
    "minutehand": _OURS,
    "minutehand-steps": "#f08c00",
    "redbeat": "#1c7ed6",
    "apscheduler": "#2b8a3e",
    "django-celery-beat": "#9c36b5",
    "celery-beat": "#868e96",
    "procrastinate": "#0c8599",
    "huey": "#b08900",
    "rq-scheduler": "#c2255c",
    "periodiq": "#6741d9",
    "apscheduler-4": "#66a80f",
}


def draw(results: Sequence[Result]) -> str:
    """Return an SVG of *results*; medians where a case was run several times."""
    parts: list[str] = []
    y = _draw_rates(parts, results, 20)
    y = _draw_idle(parts, results, y + 30)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" '
        'font-family="system-ui, sans-serif" font-size="13">\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _draw_rates(parts: list[str], results: Sequence[Result], y: float) -> float:
    """Draw a bar for each scheduler; return where the panel ends."""
    by_size: defaultdict[int, defaultdict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for each in results:
        if each.due == each.registered and each.per_s:
            by_size[each.registered][each.peer].append(each.per_s)
    if not by_size:
        return y
    size = max(by_size, key=lambda registered: (len(by_size[registered]), registered))
    rates = {peer: statistics.median(all_) for peer, all_ in by_size[size].items()}
    title = f"Messages a second, {size:,} schedules all due (logarithmic)"
    parts.append(_text(0, y, title, bold=True))
    y += 16
    most = math.log10(max(rates.values()))
    for peer, rate in sorted(rates.items(), key=lambda item: -item[1]):
        length = max(2.0, (_WIDTH - _LEFT - 80) * math.log10(max(rate, 1.0)) / most)
        colour = _OURS if peer.startswith("minutehand") else _OTHERS
        parts.append(
            f'<rect x="{_LEFT}" y="{y}" width="{length:.0f}" height="{_ROW - 8}" '
            f'rx="3" fill="{colour}"/>'
        )
        parts.append(_text(_LEFT - 8, y + 14, peer, anchor="end"))
        parts.append(_text(_LEFT + length + 6, y + 14, f"{rate:,.0f}"))
        y += _ROW
    return y


def _draw_idle(parts: list[str], results: Sequence[Result], y: float) -> float:
    """Draw a line for each scheduler; return where the panel ends."""
    found: defaultdict[str, defaultdict[int, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for each in results:
        if each.due == 0 and each.idle_wake_s:
            found[each.peer][each.registered].append(each.idle_wake_s * 1000)
    if not found:
        return y
    points = {
        peer: sorted((n, statistics.median(all_)) for n, all_ in sizes.items())
        for peer, sizes in found.items()
    }
    sizes = sorted({n for line in points.values() for n, _ in line})
    costs = [ms for line in points.values() for _, ms in line]
    low, high = math.floor(math.log10(min(costs))), math.ceil(math.log10(max(costs)))
    high = max(high, low + 1)
    parts.append(_text(0, y, "One look around with nothing due, ms", bold=True))
    frame = _Frame(top=y + 14, low=low, high=high, least=sizes[0], most=sizes[-1])
    _draw_axes(parts, frame, sizes)
    taken: list[float] = []
    for peer, line in sorted(points.items(), key=lambda item: item[1][-1][1]):
        colour = COLOURS.get(peer, _OTHERS)
        placed = [frame.place(*point) for point in line]
        parts += [_line(a, b, colour, width=2) for a, b in pairwise(placed)]
        parts += [
            f'<circle cx="{x:.0f}" cy="{y_:.0f}" r="3" fill="{colour}"/>'
            for x, y_ in placed
        ]
        x, label_y = placed[-1]
        while any(abs(label_y - other) < _LINE for other in taken):
            label_y -= 4
        taken.append(label_y)
        parts.append(_text(x + 8, label_y + 4, peer, colour=colour))
    return frame.top + _HEIGHT + 48


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where a panel is, and the powers of ten and the sizes between its borders."""

    top: float
    low: int
    high: int
    least: int
    most: int

    def place(self, n: int, ms: float) -> tuple[float, float]:
        """Return the point of *ms* at size *n*."""
        span = math.log10(self.most / self.least) or 1.0
        across = math.log10(n / self.least) / span
        up = (math.log10(ms) - self.low) / (self.high - self.low)
        return _LEFT + across * (_RIGHT - _LEFT), self.top + _HEIGHT * (1 - up)


def _draw_axes(parts: list[str], frame: _Frame, sizes: Sequence[int]) -> None:
    for power in range(frame.low, frame.high + 1):
        _x, y = frame.place(frame.least, 10.0**power)
        parts.append(_line((_LEFT, y), (_RIGHT, y), _FAINT, width=0.5))
        parts.append(_text(_LEFT - 8, y + 4, f"{10.0**power:g}", anchor="end"))
    below = frame.top + _HEIGHT
    for n in sizes:
        x, _y = frame.place(n, 10.0**frame.low)
        parts.append(_text(x, below + 18, f"{n:,}", anchor="middle"))
    middle = (_LEFT + _RIGHT) / 2
    parts.append(_text(middle, below + 38, "registered", anchor="middle"))


def _line(
    start: tuple[float, float], end: tuple[float, float], colour: str, *, width: float
) -> str:
    (x1, y1), (x2, y2) = start, end
    return (
        f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" '
        f'stroke="{colour}" stroke-width="{width:g}"/>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    bold: bool = False,
    colour: str = _INK,
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}" '
        f'text-anchor="{anchor}"{weight}>{escape(text)}</text>'
    )
