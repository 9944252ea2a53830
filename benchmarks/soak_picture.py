"""
Draw the samples of a soak as an SVG for docs/benchmarks.md. Pure.

One panel below the other, each a curve for each kind of thing over the minutes of the
run; dashed lines are what happened. Colours are readable on light and on dark
backgrounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _GAP = 760, 110, 46, 170, 52
_INK = "#7b8794"
_COLOURS = ("#d9480f", "#1c7ed6", "#2f9e44", "#ae3ec9", "#f08c00", "#868e96")

_PANELS = {
    "Sent after the due instant, s": ("p50_s", "p99_s", "most_s"),
    "Memory, MB": "memory_mb",
    "Connections": "connections",
    "Largest tables, MB": "tables_mb",
}


def draw(samples: Sequence[Mapping[str, Any]]) -> str:
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
            rows, names = list(samples), list(asked)
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
    parts.append(_text(_LEFT, y - 6, f"0 to {last} minutes", anchor="start"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" '
        'font-family="system-ui, sans-serif" font-size="12">\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _draw_panel(
    y: int, title: str, curves: Mapping[str, Sequence[tuple[int, float]]], last: int
) -> Sequence[str]:
    most = max((value for all_ in curves.values() for _, value in all_), default=1.0)
    most = most or 1.0
    bottom = y + 24 + _HEIGHT
    parts = [
        _text(_LEFT, y + 14, title, anchor="start", bold=True),
        _text(_LEFT - 6, y + 34, f"{most:,.3g}"),
        _text(_LEFT - 6, bottom, "0"),
        f'<path d="M{_LEFT} {y + 24}V{bottom}H{_WIDTH - _RIGHT}" fill="none" '
        f'stroke="{_INK}"/>',
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
        parts.append(_text(x, at, shown, anchor="start", colour=colour))
    return parts


def _place(minute: int, last: int) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * minute / max(last, 1)


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "end",
    bold: bool = False,
    colour: str = _INK,
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}" '
        f'text-anchor="{anchor}"{weight}>{escape(text)}</text>'
    )
