"""Which operations a command is about, and how one is shown; once for all commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from cli.options import (
    ActionOption,
    AppOption,
    OccurrencesFromOption,
    OccurrencesUntilOption,
    QueueOption,
    ReasonOption,
    StatesOption,
    read_period,
    takes,
)
from cli.output import format_both, make_table, style_state
from models.operation_state import StepState, Trigger
from models.requests.operations import OperationFilterModel
from models.units import format_age
from overview.operations import ShownStep, describe_result

#: By the names of ``OperationFilterModel``, in the order of the help.
_OPTIONS: Mapping[str, Any] = {
    "app": AppOption,
    "action": ActionOption,
    "state": StatesOption,
    "queue": QueueOption,
    "trigger": Annotated[
        Trigger | None,
        typer.Option("--trigger", help="Only operations that this caused."),
    ],
    "reason": ReasonOption,
    "text": Annotated[
        str | None,
        typer.Option(
            "--text",
            help="Only operations with this text in what triggered them, the uid of"
            " their action, their user, reason or error; or with this id.",
        ),
    ],
    "since": OccurrencesFromOption,
    "until": OccurrencesUntilOption,
}


def _make_filter(**given: Any) -> OperationFilterModel:
    given["since"], given["until"] = read_period(given["since"], given["until"])
    said = {name: value for name, value in given.items() if value is not None}
    return OperationFilterModel(**said)


#: Gives a command, which takes ``wanted``, the options that this is made of.
takes_filter = takes("wanted", _make_filter, _OPTIONS)

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
