"""``operations log``: what the steps of an operation said while they ran."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Annotated
from uuid import UUID

import typer
from rich.text import Text

from cli.connection import read_database
from cli.ids import read_operation_id
from cli.options import JsonOption, OperationArgument
from cli.output import format_both, out, print_json, print_note
from models.operation_state import FINAL_STATES
from operations.operation_log import LogLevel, LogLine, fetch_log
from operations.state import get_operation_state

#: Seconds between two looks.
_EVERY_S = 0.5

_STYLES = {LogLevel.INFO: "", LogLevel.WARNING: "yellow", LogLevel.ERROR: "red"}


def log(
    operation: OperationArgument,
    *,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Go on until the operation is final."),
    ] = False,
    after: Annotated[
        int,
        typer.Option("--after", min=0, help="Only lines with a greater number."),
    ] = 0,
    json: JsonOption = False,
) -> None:
    """
    Show what the steps of an operation said while they ran.

    The first 100 and the last 400 lines are kept. --json prints an array, and with
    --follow one object per line.
    """
    operation_id = read_operation_id(operation)
    if follow:
        for lines in _follow(operation_id, after):
            _print(lines, after, json=json, is_array=False)
            after = lines[-1].number
        return
    with read_database() as connection:
        lines = fetch_log(connection, operation_id, after=after)
    _print(lines, after, json=json, is_array=True)
    if not lines and not json:
        print_note(f"Nothing was said. See: minutehand operations show {operation}")


def _follow(operation_id: UUID, after: int) -> Iterator[Sequence[LogLine]]:
    """Yield lines as they are written, until the operation is final."""
    while True:
        with read_database() as connection:
            # In this order: what is said before the end is read.
            state = get_operation_state(connection, operation_id)
            lines = fetch_log(connection, operation_id, after=after)
        if lines:
            yield lines
            after = lines[-1].number
        elif state in FINAL_STATES:
            return
        else:
            time.sleep(_EVERY_S)


def _print(lines: Sequence[LogLine], after: int, *, json: bool, is_array: bool) -> None:
    if json and is_array:
        print_json(lines)
        return
    for line in lines:
        if json:
            print_json(line)
            continue
        if line.number > after + 1:
            print_note(f"({line.number - after - 1:,} lines were not kept)")
        after = line.number
        told = (
            f"{format_both(line.at)}  {line.attempt}  {line.step or '-'}  {line.text}"
        )
        out().print(Text(told, style=_STYLES[line.level]), soft_wrap=True)
