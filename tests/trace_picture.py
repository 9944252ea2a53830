"""
Draw a trace as docs/images/trace.svg, out of spans that a collector has received.

Run it as ``python -m tests.trace_picture``: real processes, on servers of its own. A
first run warms them up; the second one is drawn, so that takes a minute or two.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path

from migrations.schema import migrate
from models.database.engine import make_engine
from tests.chaos.servers import run_postgres, run_redis
from tests.collector import Collector, Received, collecting
from tests.integration.test_tracing import SCHEDULER, WORKER, Installation, read_task
from tests.servers import ROOT, run_process

PICTURE = ROOT / "docs" / "images" / "trace.svg"

_WIDTH, _ROW, _LEFT, _RIGHT = 860, 24, 170, 90
_INK = "#7b8794"
_COLOURS = ("#ae3ec9", "#1c7ed6", "#d9480f")

#: Keys that tell a reader something.
_SHOWN = ("due", "recorded", "sent", "messages", "queue", "attempt", "state")


def draw(groups: Sequence[tuple[str, Sequence[Received]]], end: str) -> str:
    """Return an SVG of traces, each with its title, below each other; then *end*."""
    parts: list[str] = []
    y = 8
    for (title, spans), colour in zip(groups, _COLOURS, strict=True):
        parts.append(_text(4, y + 14, title, bold=True))
        y += _ROW
        began = min(each.began_ns for each in spans)
        whole = max(each.ended_ns for each in spans) - began
        scale = (_WIDTH - _LEFT - _RIGHT) / whole
        for each in sorted(spans, key=lambda each: (each.parent != "", each.began_ns)):
            x = _LEFT + (each.began_ns - began) * scale
            width = max(2.0, (each.ended_ns - each.began_ns) * scale)
            told = [f"{key} {each.facts[key]}" for key in _SHOWN if key in each.facts]
            name = "\u2003" * bool(each.parent) + each.name
            took = f"{(each.ended_ns - each.began_ns) / 1e6:,.0f} ms"
            parts += [
                _text(16, y + 13, name),
                (
                    f'<rect x="{x:.1f}" y="{y + 2}" width="{width:.1f}" '
                    f'height="{_ROW - 9}" rx="3" fill="{colour}">'
                    f"<title>{escape(', '.join(told))}</title></rect>"
                ),
                _text(_WIDTH - _RIGHT + 8, y + 13, took),
            ]
            y += _ROW
        y += 8
    parts.append(_text(16, y + 8, end))
    y += _ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" '
        f'font-family="system-ui, sans-serif" font-size="13">{"".join(parts)}</svg>\n'
    )


def _text(x: float, y: float, text: str, *, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x}" y="{y}" fill="{_INK}"{weight}>{escape(text)}</text>'


def receive(collector: Collector, folder: Path) -> tuple[str, str]:
    """Run two operations; return the span that the second one's task comes from."""
    with run_postgres() as postgres, run_redis() as broker:
        engine = make_engine(postgres)
        migrate(engine)
        installation = Installation(folder, engine, broker, collector.url)
        log, environ = folder / "log", installation.environ
        with (
            run_process(SCHEDULER, log=log, environ=environ),
            run_process(WORKER, log=log, environ=environ),
        ):
            for name in ("warm up", "daily"):
                installation.post_due(name=name)
                message = installation.run()
        engine.dispose()
    return read_task(message)


def main() -> int:
    """Write the picture; return the exit code."""
    with collecting() as collector, tempfile.TemporaryDirectory() as folder:
        trace_id, span_id = receive(collector, Path(folder))
    by_place = {each.place: each for each in collector.spans}
    of_operation = [each for each in collector.spans if each.trace_id == trace_id]
    (operation,) = (each for each in of_operation if not each.parent)
    sent, posted = (by_place[link] for link in operation.links)
    of_tick = [each for each in collector.spans if each.trace_id == sent.trace_id]
    (task,) = (each for each in of_operation if each.span_id == span_id)
    picture = draw(
        [
            (f"post: trace {posted.trace_id}", [posted]),
            (f"tick: trace {sent.trace_id}; its send links to the operation", of_tick),
            (f"operation: trace {trace_id}; links to send and post", of_operation),
        ],
        f"\u2192 your task, in the same trace: its header names {task.name}",
    )
    PICTURE.write_text(picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
