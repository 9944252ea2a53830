"""``scheduler``: starts the program of scheduler_server.py."""

from __future__ import annotations

from typing import Annotated

import typer

import scheduler_server
from cli.connection import get_settings


def scheduler(
    *,
    no_wait: Annotated[
        bool,
        typer.Option("--no-wait", help="Exit with code 5 if another scheduler leads."),
    ] = False,
) -> None:
    """
    Run a scheduler.

    You may run several: one leads, the others stand by.
    """
    scheduler_server.serve(get_settings(), wait_for_lease=not no_wait)
