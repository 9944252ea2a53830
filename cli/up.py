"""``up``: runs everything in one process."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated

import sqlalchemy as sa
import structlog
import typer

from actions.lease import expire_lease
from actions.tick import TickReport
from celery_app.worker import EmbeddedWorker
from celery_app.worker_start import prepare_workspace
from cli.connection import get_settings, write_database
from cli.keys import tell_how_to_sign_in
from cli.output import err
from cli.web import log_as_set
from cli.web_app import make_app
from migrations.schema import migrate
from models.database.engine import make_engine
from models.database.sqlite_place import find_sqlite_file, name_lock
from models.errors import ConflictError, UsageError
from operations.rescue import take_over_all
from scheduler_server import Scheduler, run
from serving.server import WebServer
from settings import Settings
from telemetry import Event, serve_metrics

log = structlog.get_logger()

#: Operations at the same time; at most one of them heavy for each small app.
CONCURRENCY = 4


def run_embedded(
    settings: Settings,
    stop: threading.Event,
    *,
    on_start: Callable[[WebServer | None], None] | None,
    on_tick: Sequence[Callable[[TickReport], None]] = (),
    concurrency: int = CONCURRENCY,
) -> bool:
    """
    Migrate the database, then run a scheduler and a worker until *stop* is set.

    Args:
        settings: Any. A broker in memory belongs to this process.
        stop: Set by a signal handler or another thread.
        on_start: Called once, when everything has started, with what serves the HTTP
            API; None: nothing does.
        on_tick: Called with the report of each tick, in the calling thread.
        concurrency: Operations at the same time.

    Returns:
        False if a step is still busy, so that only ``os._exit`` ends this process. The
        step's operation was given back, and what it still writes is ignored.

    Raises:
        ConflictError: Another process runs on the same embedded database.
        UsageError: The workspace, or the embedded database, cannot be kept where the
            settings say.
    """
    # First, since they refuse a place where nothing can be kept.
    engine = make_engine(settings.database_url, timeout=settings.database_timeout)
    prepare_workspace(settings.workspace)
    with _owning(settings) as alone:
        migrate(engine)
        if alone:
            _take_over(engine)
        engine.dispose()
        scheduler = Scheduler.make(settings)
        scheduler.on_tick.extend(on_tick)
        worker = EmbeddedWorker(settings, concurrency=concurrency)
        worker.start()
        web = start_web(settings)
        if on_start is not None:
            on_start(web)
        try:
            _run(scheduler, stop)
        finally:
            ended = worker.stop()
            if web is not None:
                web.end()
    return ended


def start_web(settings: Settings) -> WebServer | None:
    """Serve the HTTP API in a thread; None if that is not wanted, or not possible."""
    if not settings.web_address:
        return None
    try:
        server = WebServer(settings, make_app)
    except UsageError as error:
        # Ticks do not wait for a port.
        log.warning(Event.WEB_NOT_STARTED, error=str(error))
        return None
    server.start()
    return server


def _run(scheduler: Scheduler, stop: threading.Event) -> None:
    # A step in a tight loop can keep this thread from the interpreter for a while.
    with suppress(KeyboardInterrupt):
        run(scheduler, stop)


@contextmanager
def _owning(settings: Settings) -> Iterator[bool]:
    """
    Keep other processes off the embedded database until the context ends.

    Yields:
        Whether this process alone uses the database. Its broker is then in this
        process's memory, so all messages of an earlier process are gone.
    """
    path = find_sqlite_file(settings.database_url)
    if path is None or not settings.is_embedded:
        yield False
        return
    with _lock(path):
        yield True


def _lock(path: Path) -> FileIO:
    """Return the open lock of *path*, with our pid for whoever comes next."""
    lock = name_lock(path)
    try:
        file = FileIO(lock, "a+")
    except OSError as error:
        raise UsageError(
            f"{lock} cannot be made: {error.strerror}. Free some space there, or set"
            " MINUTEHAND_HOME to another folder."
        ) from None
    try:
        # The kernel releases it when this process ends, even after kill -9.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ConflictError(
            f"minutehand up is already running on {path}"
            f" (pid {lock.read_text().strip()})"
        ) from None
    file.truncate(0)
    with suppress(OSError):  # on a full disk, the other one learns no pid
        file.write(str(os.getpid()).encode())
    return file


def _take_over(engine: sa.Engine) -> None:
    """Take over from a killed process at once, without waiting for its leases."""
    with write_database(engine) as connection:
        expire_lease(connection)
        take_over_all(connection)


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
    log_as_set(settings)
    if settings.metrics_port is not None:
        serve_metrics(settings.metrics_address, settings.metrics_port)

    def tell_where(web: WebServer | None) -> None:
        if web is not None:
            err().say(f"The pages and the HTTP API answer at {web.url}.")
            tell_how_to_sign_in(web.url)
        if settings.is_embedded:
            err().say(f"All data is in {settings.home}. Ctrl-C stops everything.")

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
    asked: SimpleQueue[int | None] = SimpleQueue()

    def obey() -> None:
        while (number := asked.get()) is not None:
            if stop.is_set():
                leave_at_once(128 + number)
            stop.set()

    # A handler interrupts the main thread wherever it is, such as in another handler or
    # in stop.wait, which may have locked what stop.set needs. This queue has no lock.
    thread = threading.Thread(target=obey, name="signals", daemon=True)
    thread.start()
    before = {
        number: signal.signal(number, lambda number, _frame: asked.put(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        asked.put(None)
        thread.join()


def leave_at_once(code: int) -> None:
    """End the process even if a thread is busy; Python would wait for that thread."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
