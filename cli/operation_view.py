"""How an operation and its steps look on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from rich.table import Table
from rich.text import Text

from cli.output import format_both, make_table, style_state
from models.operation_state import StepState
from models.units import format_age
from overview.operations.shown import ShownStep, describe_result

#: Width of a progress bar, in characters.
_BAR = 16

_MINUTE = timedelta(minutes=1)


def format_progress(progress: Mapping[str, Any] | None) -> str:
    """Return how far a step has come, such as ``2/3 countries``, with a bar."""
    if not progress or not progress.get("total"):
        return ""
    done, total = progress["done"], progress["total"]
    filled = round(_BAR * done / total)
    bar = "━" * filled + "╌" * (_BAR - filled)
    return f"{bar} {done}/{total} {progress.get('note') or ''}".rstrip()


def make_steps_table(steps: Sequence[ShownStep]) -> Table:
    """Return *steps* as a table."""
    table = make_table(("step", "state", "attempt", "started", "took", "what"))
    for step in steps:
        what = step.error or describe_result(step.result)
        if step.state is StepState.RUNNING:
            told = (format_progress(step.progress), _describe_eta(step))
            what = "; ".join(each for each in told if each)
        table.add_row(
            step.name,
            style_state(step.state),
            str(step.attempt or "-"),
            format_both(step.started_at),
            format_took(step.took),
            Text(what, style="red" if step.error else ""),
        )
    return table


def _describe_eta(step: ShownStep) -> str:
    if step.eta is None or step.usual is None:
        return ""
    usual = step.usual.took
    took = f"{usual.total_seconds():.1f} s" if usual < _MINUTE else format_age(usual)
    return f"usually takes {took}, so should end about {format_both(step.eta)}"


def format_took(took: timedelta | None) -> str:
    """Return a duration in seconds; a dash if it has not begun or still runs."""
    return "-" if took is None else f"{took.total_seconds():.1f} s"
