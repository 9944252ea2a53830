"""``scheduler``: the program of scheduler_server.py."""

from __future__ import annotations

from typing import Annotated

import typer

import scheduler_server
from cli.connection import get_settings
from models.errors import UsageError
from settings import Settings


def scheduler(
    *,
    no_wait: Annotated[
        bool,
        typer.Option("--no-wait", help="Exit with code 5 if another scheduler leads."),
    ] = False,
) -> None:
    """
    Run a scheduler.

    Of many that run, one leads; the others stand by.
    """
    refuse_memory_broker(get_settings())
    raise typer.Exit(scheduler_server.main(["--no-wait"] if no_wait else []))


def refuse_memory_broker(settings: Settings) -> None:
    """
    Refuse a broker that ends at the border of a process.

    Raises:
        UsageError: *settings* name none other.
    """
    if settings.broker_url.startswith("memory"):
        msg = (
            "MINUTEHAND_BROKER_URL: memory:// carries messages within one process. "
            "Name a broker (redis://host:6379/0), or run everything in one process: "
            "minutehand up."
        )
        raise UsageError(msg)
