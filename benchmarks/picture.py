"""
Draw the figures of a run as an SVG for docs/benchmarks.md. Pure.

How many messages a second, at the largest size that all have tried with all due, on a
logarithmic scale. Colours are readable on light and on dark backgrounds.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from html import escape

from benchmarks.case import Result

_WIDTH, _ROW, _LEFT = 760, 26, 150
_OURS, _OTHERS, _INK = "#d9480f", "#868e96", "#7b8794"


def draw(results: Sequence[Result]) -> str:
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
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" '
        'font-family="system-ui, sans-serif" font-size="13">\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" fill="{_INK}" '
        f'text-anchor="{anchor}"{weight}>{escape(text)}</text>'
    )
