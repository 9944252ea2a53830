"""``scheduler``: starts the program of scheduler_server.py."""

from __future__ import annotations

from typing import Annotated

import typer

import scheduler_server
from celery_app.worker_start import refuse_memory_broker
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
    refuse_memory_broker(get_settings())
    raise typer.Exit(scheduler_server.main(["--no-wait"] if no_wait else []))
