"""``web``: serves the HTTP API and the pages."""

from __future__ import annotations

import threading
from collections.abc import Callable

from starlette.types import ASGIApp

from celery_app.worker_start import PAUSE_S, keep_trying
from cli.connection import get_engine, get_settings
from cli.keys import tell_how_to_sign_in
from cli.output import err
from cli.web_app import make_app
from migrations.schema_revisions import check_schema
from models.errors import UsageError
from serving.server import WebServer
from serving.services import Services
from settings import Settings, is_color_wanted
from telemetry import configure_logging


def web() -> None:
    """
    Serve the HTTP API and the pages.

    It listens on MINUTEHAND_WEB_ADDRESS, and never ticks. Ctrl-C stops it.
    """
    serve(make_app, "The pages and the HTTP API answer")


def log_as_set(settings: Settings) -> None:
    """Log as *settings* say, for whoever sits at the terminal."""
    configure_logging(
        level=settings.log_level,
        log_format=settings.log_format,
        color=is_color_wanted(),
    )


def serve(make: Callable[[Services], ASGIApp], what: str) -> None:
    """
    Serve the application that *make* returns until a signal comes.

    Args:
        make: A function of a module.
        what: Said of it, with where it answers.
    """
    settings = get_settings()
    if not settings.web_address:
        msg = "MINUTEHAND_WEB_ADDRESS is none. Set it to 127.0.0.1:8400, for example."
        raise UsageError(msg)
    log_as_set(settings)
    engine = get_engine()
    # It may start before its database, or during a failover; Ctrl-C ends the wait.
    keep_trying(lambda: check_schema(engine), threading.Event(), PAUSE_S)
    server = WebServer(settings, make)
    err().say(f"{what} at {server.url}. Ctrl-C stops it.")
    tell_how_to_sign_in(server.url)
    server.run()
