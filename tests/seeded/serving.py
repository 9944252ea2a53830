"""The web process on a seeded installation, with a clock that may stand still."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import uvicorn

from cli.web_app import make_app
from models.database.engine import Clock, make_engine
from overview.doctor import checks
from serving.limits import Rate, RequestClass, RequestLimits
from serving.server import EdgeServer
from serving.services import Services
from settings import Settings, read_settings
from tests.servers import wait_until

#: For those who look at every page in a minute.
UNLIMITED = RequestLimits(
    dict.fromkeys(RequestClass, Rate(10**9)), clock=time.monotonic
)

#: Looks of doctor at what is not there.
_APART = ("clock", "broker", "tasks")


def find_database(home: Path) -> str:
    """Return the URL of the database in *home*."""
    return f"sqlite:///{home}/minutehand.sqlite3"


def make_settings(home: Path, more: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of a seeded installation in *home*, and *more* of them."""
    given = {
        "MINUTEHAND_HOME": str(home),
        "MINUTEHAND_DATABASE_URL": find_database(home),
        "MINUTEHAND_TIMEZONE": "Europe/London",
        # Nobody asks it; with the one in memory, tasks of others would be refused.
        "MINUTEHAND_BROKER_URL": "redis://127.0.0.1:1/0",
        "MINUTEHAND_TASK_QUEUE": "reports",
        **(more or {}),
    }
    return read_settings(given, None)


@contextmanager
def serve(
    home: Path, *, clock: Clock, port: int = 0, more: Mapping[str, str] | None = None
) -> Iterator[str]:
    """
    Serve the pages and the API of the installation in *home*; give the address.

    Args:
        home: Of the installation.
        clock: Of SQLite: what it shows is now. Nothing else has a clock of its own.
        port: Of 127.0.0.1. 0: any.
        more: Settings, by the names of their variables.
    """
    settings = make_settings(home, more)
    engine = make_engine(settings.database_url, clock=clock)
    services = Services(settings, engine, UNLIMITED)
    # Bound here and now: a port that is only looked for may be another's by then. The
    # protocol is named as in serving/server.py, or each answer would take 40 ms longer.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    config = uvicorn.Config(
        make_app(services),
        ws="none",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=2,
    )
    # It ends the streams in its own thread: in another, a listener that leaves at that
    # moment would change what is walked through.
    server = EdgeServer(config, before_shutdown=services.send_away)
    run = partial(server.run, sockets=[listener])
    thread = threading.Thread(target=run, name="seeded web", daemon=True)
    thread.start()
    # The host's own clock, and a broker, are not part of the scene.
    scene = patch.dict(checks.LOOKS, dict.fromkeys(_APART, lambda _view: iter(())))
    scene.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive(), what="the pages")
        assert thread.is_alive(), "the pages did not start"
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        scene.stop()
        server.should_exit = True
        thread.join(30)
