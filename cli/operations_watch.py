"""``operations watch``: follows an operation until it is final."""

from __future__ import annotations

import time
from uuid import UUID

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from cli.connection import read_database
from cli.ids import read_operation_id
from cli.operation_view import make_steps_table
from cli.options import JsonOption, OperationArgument
from cli.output import err, print_json, print_note, print_warning, style_state
from models.decision import get_action_name
from models.operation_state import OperationState
from overview.operations.shown import ShownOperation, fetch_shown_operation

#: Seconds between two looks: short enough to look alive, long enough to cost nothing.
_EVERY_S = 0.3


def watch(operation: OperationArgument, *, json: JsonOption = False) -> None:
    """
    Follow an operation until it is final.

    Exits with 0 if it succeeded, else with 1.
    """
    raise typer.Exit(follow(read_operation_id(operation), json=json))


def follow(operation_id: UUID, *, json: bool) -> int:
    """
    Show an operation on standard error until it is final.

    Args:
        operation_id: Of an operation.
        json: Whether to print the final operation as JSON.

    Returns:
        0 if it succeeded, else 1.

    Raises:
        NotFoundError: No operation has this id.
    """
    shown = _follow_on_terminal(operation_id) if err().is_terminal else None
    shown = shown or _follow_in_lines(operation_id)
    for warning in find_warnings(shown):
        print_warning(warning)
    if json:
        print_json(shown)
    return int(shown.state is not OperationState.SUCCEEDED)


def find_warnings(shown: ShownOperation) -> list[str]:
    """Return what its steps warn of, and which of them mailed to nobody."""
    found: list[str] = []
    for step in shown.steps:
        result = step.result if isinstance(step.result, dict) else {}
        warnings = result.get("warnings")
        if isinstance(warnings, list):
            found += [f"{step.name}: {each}" for each in warnings]
        lost = result.get("failed") or result.get("uncertain")
        if result.get("sent") == 0 and not lost:
            found.append(f"{step.name}: nobody got a mail.")
    return found


def _read(operation_id: UUID) -> ShownOperation:
    with read_database() as connection:
        return fetch_shown_operation(connection, operation_id)


def _follow_on_terminal(operation_id: UUID) -> ShownOperation:
    shown = _read(operation_id)
    with Live(_draw(shown), console=err(), refresh_per_second=8) as live:
        while not shown.is_final:
            time.sleep(_EVERY_S)
            shown = _read(operation_id)
            live.update(_draw(shown))
    return shown


def _draw(shown: ShownOperation) -> Group:
    name = get_action_name(shown.triggered_by)
    line = Text(f"{name}: ").append(style_state(shown.state))
    if shown.reason:
        line.append(f" ({shown.reason})")
    return Group(line, make_steps_table(shown.steps))


def _follow_in_lines(operation_id: UUID) -> ShownOperation:
    told: set[str] = set()
    while True:
        shown = _read(operation_id)
        for line in describe(shown):
            if line not in told:
                told.add(line)
                print_note(line)
        if shown.is_final:
            return shown
        time.sleep(_EVERY_S)


def describe(shown: ShownOperation) -> list[str]:
    """Return a line for the operation and each begun step, in order of time."""
    reason = f" ({shown.reason})" if shown.reason else ""
    whole = f"{get_action_name(shown.triggered_by)}: {shown.state}{reason}"
    steps = [
        f"  {step.name}: {step.state}" + (f": {step.error}" if step.error else "")
        for step in shown.steps
        if step.started_at is not None
    ]
    # It ends after its last step, as it began before its first.
    return [*steps, whole] if shown.is_final else [whole, *steps]
