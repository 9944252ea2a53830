"""``operations state``, ``log`` and ``watch``: what one operation does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from uuid import UUID
from zoneinfo import ZoneInfo

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from cli.connection import ask_database, read_database, use_engine
from cli.operations import make_steps_table
from cli.options import OperationArgument, flag, read_operation_id, takes_json, value
from cli.output import err, format_both, out, style_state
from models.decision import get_action_name
from models.errors import UsageError
from models.fields.duration import read_elapsed
from models.fields.zone import load_zone
from models.operation_state import FINAL_STATES, OperationState
from models.units import format_count
from operations.list_operations import make_unknown
from operations.operation_log import LogLevel, LogLine, fetch_log
from operations.state import (
    get_operation_state,
    make_reached,
    outlast,
    require_operation_state,
    wait_for_state,
)
from overview.operations import ShownOperation, fetch_shown_operation

#: Seconds between two looks: short enough to look alive, long enough to cost nothing.
_EVERY_S = 0.3


@takes_json
def watch(operation: OperationArgument) -> None:
    """
    Follow an operation until it is final.

    Exits with 0 if it succeeded, else with 1.
    """
    raise typer.Exit(follow(read_operation_id(operation)))


def follow(operation_id: UUID) -> int:
    """
    Show an operation on standard error until it is final.

    Args:
        operation_id: Of an operation.

    Returns:
        0 if it succeeded, else 1.

    Raises:
        NotFoundError: No operation has this id.
    """
    follow_it = _follow_on_terminal if err().is_terminal else _follow_in_lines
    try:
        shown = follow_it(_look_at(operation_id))
    except KeyboardInterrupt:
        err().say(f"It goes on. To end it: minutehand operations cancel {operation_id}")
        raise
    for warning in find_warnings(shown):
        err().warn(warning)
    out().gave_json(shown)
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
    return ask_database(fetch_shown_operation, operation_id)


def _look_at(operation_id: UUID) -> Iterator[ShownOperation]:
    """Yield the operation again and again, until it is final."""
    shown = _read(operation_id)
    yield shown
    while not shown.is_final:
        time.sleep(_EVERY_S)
        shown = outlast(partial(_read, operation_id))
        yield shown


def _follow_on_terminal(looks: Iterator[ShownOperation]) -> ShownOperation:
    shown = next(looks)
    with Live(_draw(shown), console=err(), refresh_per_second=8) as live:
        for shown in looks:
            live.update(_draw(shown))
    return shown


def _draw(shown: ShownOperation) -> Group:
    name = get_action_name(shown.triggered_by)
    line = Text(f"{name}: ").append(style_state(shown.state))
    if shown.reason:
        line.append(f" ({shown.reason})")
    return Group(line, make_steps_table(shown.steps, load_zone(shown.zone)))


def _follow_in_lines(looks: Iterator[ShownOperation]) -> ShownOperation:
    told: set[str] = set()
    for shown in looks:
        for line in describe(shown):
            if line not in told:
                told.add(line)
                err().say(line)
    return shown


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


_STYLES = {LogLevel.INFO: "", LogLevel.WARNING: "yellow", LogLevel.ERROR: "red"}


@takes_json
def log(
    operation: OperationArgument,
    *,
    follow: bool = flag("--follow", "Go on until the operation is final."),
    after: int = value(
        "--after", "Only lines with a greater number.", default=0, min=0
    ),
) -> None:
    """
    Show what the steps of an operation said while they ran.

    The first 100 and the last 400 lines are kept. --json prints an array, and with
    --follow one object per line.
    """
    operation_id = read_operation_id(operation)
    zone = load_zone(_read(operation_id).zone)
    if follow:
        for lines in _follow(operation_id, after):
            _print(lines, after, zone, is_array=False)
            after = lines[-1].number
        return
    lines = ask_database(fetch_log, operation_id, after=after)
    _print(lines, after, zone, is_array=True)
    if not lines and not out().wants_json:
        err().say(f"Nothing was said. See: minutehand operations show {operation}")


def _follow(operation_id: UUID, after: int) -> Iterator[Sequence[LogLine]]:
    """Yield lines as they are written, until the operation is final."""

    def look() -> tuple[OperationState | None, Sequence[LogLine]]:
        with read_database() as connection:
            # In this order: what is said before the end is read.
            state = get_operation_state(connection, operation_id)
            return state, fetch_log(connection, operation_id, after=after)

    while True:
        state, lines = outlast(look)
        if lines:
            yield lines
            after = lines[-1].number
        elif state in FINAL_STATES:
            return
        else:
            time.sleep(_EVERY_S)


def _print(
    lines: Sequence[LogLine], after: int, zone: ZoneInfo, *, is_array: bool
) -> None:
    if is_array and out().gave_json(lines):
        return
    for line in lines:
        if out().gave_json(line):
            continue
        if line.number > after + 1:
            many = format_count(line.number - after - 1, "line was", "lines were")
            err().say(f"({many} not kept)")
        after = line.number
        at = format_both(line.at, zone)
        told = f"{at}  {line.attempt}  {line.step or '-'}  {line.text}"
        out().print(Text(told, style=_STYLES[line.level]), soft_wrap=True)


@takes_json
def state(
    operation: OperationArgument,
    *,
    wait: bool = flag("--wait", "Wait until the operation is final."),
    timeout: str | None = value(
        "--timeout DURATION", "With --wait: for at most this long, such as PT5M."
    ),
) -> None:
    """
    Print the state of an operation, in one word.

    Exits with 0 whatever the state is, and with 4 if there is no such operation.
    """
    if timeout is not None and not wait:
        raise UsageError("--timeout needs --wait.")
    longest = None if timeout is None else read_elapsed("--timeout", timeout)
    operation_id = read_operation_id(operation)
    found: OperationState | None = ask_database(require_operation_state, operation_id)
    if wait:
        with use_engine() as engine:
            found = wait_for_state(engine, operation_id, timeout=longest)
    if found is None:  # it was pruned meanwhile
        raise make_unknown(operation_id)
    if not out().gave_json(make_reached(operation_id, found)):
        out().say(found.value)
