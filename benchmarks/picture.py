"""
Draw the figures of a run, or the hours of a soak, as an SVG for docs/benchmarks.md.

Pure. Colours are readable on light and on dark backgrounds.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from benchmarks.case import Result

_WIDTH, _ROW, _LEFT = 760, 26, 150
_OURS, _OTHERS, _INK = "#d9480f", "#868e96", "#7b8794"
_HEIGHT, _AXIS, _RIGHT, _GAP = 110, 46, 220, 52
_COLOURS = ("#d9480f", "#1c7ed6", "#2f9e44", "#ae3ec9", "#f08c00", "#868e96")

_PANELS = {
    "Sent after the due instant, s": ("p50_s", "p99_s", "most_s"),
    "Memory, MB": "memory_mb",
    "Connections": "connections",
    "Largest tables, MB": "tables_mb",
}


def draw_rates(results: Sequence[Result]) -> str:
    """Return an SVG of *results*; medians where a case was run several times."""
    by_size: defaultdict[int, defaultdict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for each in results:
        if each.due == each.registered and each.per_s:
            by_size[each.registered][each.peer].append(each.per_s)
    if not by_size:
        return ""
    size = max(by_size, key=lambda registered: (len(by_size[registered]), registered))
    rates = {peer: statistics.median(all_) for peer, all_ in by_size[size].items()}
    title = f"Messages a second, {size:,} schedules all due (logarithmic)"
    parts, y = [_text(0, 20, title, bold=True)], 36
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
    return _frame(parts, y, 13)


def draw_soak(samples: Sequence[Mapping[str, Any]]) -> str:
    """Return an SVG of *samples*, in order."""
    last = max(each["minute"] for each in samples)
    parts: list[str] = []
    y = 0
    for title, asked in _PANELS.items():
        if isinstance(asked, str):
            rows = [each.get(asked, {}) for each in samples]
            end = next(row for row in reversed(rows) if row)
            names = sorted(end, key=lambda name, end=end: -end[name])[: len(_COLOURS)]
        else:
            rows, names = _without_leaps(samples), list(asked)
        curves = {
            name: [
                (each["minute"], row[name])
                for each, row in zip(samples, rows, strict=True)
                if row.get(name) is not None
            ]
            for name in names
        }
        parts += _draw_panel(y, title, curves, last)
        y += _HEIGHT + _GAP
    for each in samples:
        if happened := each.get("happened"):
            x = _place(each["minute"], last)
            parts.append(
                f'<line x1="{x:.1f}" y1="24" x2="{x:.1f}" y2="{y - 24}" '
                f'stroke="{_INK}" stroke-dasharray="2 4"><title>'
                f"{escape(str(happened))}</title></line>"
            )
    parts.append(_text(_AXIS, y - 6, f"0 to {last} minutes"))
    return _frame(parts, y, 12)


def _without_leaps(samples: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return them, but for the minutes that a clock's leap is seen in."""
    leaps = {
        each["minute"] + n
        for each in samples
        for n in range(6)
        if str(each.get("happened", "")).startswith("clock")
    }
    return [{} if each["minute"] in leaps else each for each in samples]


def _draw_panel(
    y: int, title: str, curves: Mapping[str, Sequence[tuple[int, float]]], last: int
) -> Sequence[str]:
    most = max((value for all_ in curves.values() for _, value in all_), default=1.0)
    most = most or 1.0
    bottom = y + 24 + _HEIGHT
    parts = [
        _text(_AXIS, y + 14, title, bold=True),
        _text(_AXIS - 6, y + 34, f"{most:,.3g}", anchor="end"),
        _text(_AXIS - 6, bottom, "0", anchor="end"),
        (
            f'<path d="M{_AXIS} {y + 24}V{bottom}H{_WIDTH - _RIGHT}" fill="none" '
            f'stroke="{_INK}"/>'
        ),
    ]
    for number, (name, points) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        line = " ".join(
            f"{_place(minute, last):.1f},{bottom - _HEIGHT * value / most:.1f}"
            for minute, value in points
        )
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{colour}" '
            'stroke-width="1.5"/>'
        )
        shown = f"{name} {points[-1][1]:,.3g}" if points else name
        x, at = _WIDTH - _RIGHT + 10, y + 36 + 17 * number
        parts.append(_text(x, at, shown, colour=colour))
    return parts


def _place(minute: int, last: int) -> float:
    return _AXIS + (_WIDTH - _AXIS - _RIGHT) * minute / max(last, 1)


def _frame(parts: Sequence[str], height: int, size: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'font-family="system-ui, sans-serif" font-size="{size}">\n'
        + "\n".join(parts)
        + "\n</svg>\n"
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
