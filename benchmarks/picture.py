"""
Draw the hours of a soak as an SVG for docs/benchmarks.md.

Pure. Colours are readable on light and on dark backgrounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_WIDTH, _HEIGHT, _AXIS, _RIGHT, _GAP = 760, 110, 46, 220, 52
_INK = "#7b8794"
_COLOURS = ("#d9480f", "#1c7ed6", "#2f9e44", "#ae3ec9", "#f08c00", "#868e96")

_LAGS = "Sent after the due instant, s"
_PANELS = {
    "Memory, MB": "memory_mb",
    "Connections": "connections",
    "Largest tables, MB": "tables_mb",
}


def draw_soak(samples: Sequence[Mapping[str, Any]]) -> str:
    happened = {s["minute"]: s["happened"] for s in samples if s.get("happened")}
    leaps = [at for at, what in happened.items() if what.startswith("clock")]
    names = ("p50_s", "p99_s", "most_s")
    lags = [
        # of minutes in which the clock leapt, nothing
        {n: s[n] for n in names if s.get(n) is not None}
        if not any(0 <= s["minute"] - at < 6 for at in leaps)
        else {}
        for s in samples
    ]
    panels = {_LAGS: lags}
    panels |= {title: [s.get(n, {}) for s in samples] for title, n in _PANELS.items()}
    minutes = [s["minute"] for s in samples]
    scale = (_WIDTH - _AXIS - _RIGHT) / max(*minutes, 1)
    parts, y = [], 0
    for title, rows in panels.items():
        parts += _draw_panel(y, title, list(zip(minutes, rows, strict=True)), scale)
        y += _HEIGHT + _GAP
    for minute, what in happened.items():
        x = _AXIS + scale * minute
        parts.append(
            f'<line x1="{x:.1f}" y1="24" x2="{x:.1f}" y2="{y - 24}" stroke="{_INK}" '
            f'stroke-dasharray="2 4"><title>{escape(what)}</title></line>'
        )
    parts.append(_text(_AXIS, y - 6, f"0 to {max(minutes)} minutes"))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" '
    head += 'font-family="system-ui, sans-serif" font-size="12">'
    return "\n".join((head, *parts, "</svg>\n"))


def _draw_panel(
    y: int, title: str, rows: Sequence[tuple[int, Mapping[str, Any]]], scale: float
) -> list[str]:
    last = next((row for _, row in reversed(rows) if row), {})
    names = sorted(last, key=last.__getitem__, reverse=True)[: len(_COLOURS)]
    most = max((row.get(n, 0) for _, row in rows for n in names), default=0) or 1.0
    bottom = y + 24 + _HEIGHT
    axis = f"M{_AXIS} {y + 24}V{bottom}H{_WIDTH - _RIGHT}"
    parts = [
        _text(_AXIS, y + 14, title, ' font-weight="600"'),
        _text(_AXIS - 6, y + 34, f"{most:,.3g}", ' text-anchor="end"'),
        _text(_AXIS - 6, bottom, "0", ' text-anchor="end"'),
        f'<path d="{axis}" fill="none" stroke="{_INK}"/>',
    ]
    for number, (name, colour) in enumerate(zip(names, _COLOURS, strict=False)):
        line = " ".join(
            f"{_AXIS + scale * minute:.1f},{bottom - _HEIGHT * row[name] / most:.1f}"
            for minute, row in rows
            if name in row
        )
        stroke = f'fill="none" stroke="{colour}" stroke-width="1.5"'
        parts.append(f'<polyline points="{line}" {stroke}/>')
        x, at = _WIDTH - _RIGHT + 10, y + 36 + 17 * number
        parts.append(_text(x, at, f"{name} {last[name]:,.3g}", colour=colour))
    return parts


def _text(x: float, y: float, text: str, how: str = "", *, colour: str = _INK) -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}"{how}>{escape(text)}</text>'
