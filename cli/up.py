"""``up``: runs everything in one process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer

from cli.connection import get_settings
from cli.embedded import CONCURRENCY, run_embedded
from cli.keys import tell_how_to_sign_in
from cli.output import print_note
from serving.server import WebServer
from settings import is_color_wanted
from telemetry import configure_logging, serve_metrics


def up(
    *,
    concurrency: Annotated[
        int,
        typer.Option("--concurrency", "-c", min=1, help="Operations at the same time."),
    ] = CONCURRENCY,
) -> None:
    """
    Run everything in one process.

    Without any settings, that is a scheduler, a worker, a broker in memory, the HTTP
    API, and one SQLite file in MINUTEHAND_HOME. Ctrl-C stops it.
    """
    settings = get_settings()
    configure_logging(
        level=settings.log_level,
        log_format=settings.log_format,
        color=is_color_wanted(),
    )
    if settings.metrics_port is not None:
        serve_metrics(settings.metrics_address, settings.metrics_port)

    def tell_where(web: WebServer | None) -> None:
        if web is not None:
            print_note(f"The pages and the HTTP API answer at {web.url}.")
            tell_how_to_sign_in(web.url)
        if settings.broker_url.startswith("memory"):
            print_note(f"All data is in {settings.home}. Ctrl-C stops everything.")

    stop = threading.Event()
    with stopping_on_signals(stop):
        ended = run_embedded(
            settings, stop, on_start=tell_where, concurrency=concurrency
        )
    if not ended:
        leave_at_once(0)


@contextmanager
def stopping_on_signals(stop: threading.Event) -> Iterator[None]:
    """Set *stop* on Ctrl-C and SIGTERM; a second one ends the process at once."""

    def ask(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            leave_at_once(128 + number)
        stop.set()

    before = {
        number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave_at_once(code: int) -> None:
    """End the process even if a thread is busy; Python would wait for that thread."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
