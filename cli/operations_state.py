"""``operations state``: the state of an operation, in one word, for programs."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.connection import read_database, use_engine
from cli.ids import read_operation_id
from cli.options import (
    JsonOption,
    OperationArgument,
    read_elapsed,
)
from cli.output import out, print_json
from models.errors import UsageError
from operations.list_operations import make_unknown
from operations.state import make_reached, require_operation_state, wait_for_state


def state(
    operation: OperationArgument,
    *,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the operation is final.")
    ] = False,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            help="With --wait: for at most this long, such as PT5M.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """
    Print the state of an operation, in one word.

    Exits with 0 whatever the state is, and with 4 if there is no such operation.
    """
    if timeout is not None and not wait:
        msg = "--timeout needs --wait."
        raise UsageError(msg)
    longest = None if timeout is None else read_elapsed("--timeout", timeout)
    operation_id = read_operation_id(operation)
    if wait:
        with use_engine() as engine:
            found = wait_for_state(engine, operation_id, timeout=longest)
    else:
        with read_database() as connection:
            found = require_operation_state(connection, operation_id)
    if found is None:
        raise make_unknown(operation_id)
    if json:
        print_json(make_reached(operation_id, found))
    else:
        out().print(found.value, markup=False)
