"""
The worker of this process, which its tasks share, and one in threads of it.

Made in the process that runs the tasks, never in the parent of a prefork pool:
neither database connections nor Polars survive a fork.
"""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

from celery.worker import WorkController
from celery.worker import state as worker_state

import tracing
from celery_app.app import app, make_config
from celery_app.assembly import make_worker
from celery_app.signs_of_life import PresenceStep
from migrations.schema_revisions import check_schema
from models.operation_state import WORKER_QUEUES
from operations.claiming.heart import Worker
from settings import Settings, find_collector, read_settings

_lock = threading.Lock()
_worker: Worker | None = None


def get_worker() -> Worker:
    """
    Return the worker of this process, made at its first task.

    Raises:
        UsageError: This program does not work on the schema of the database.
        UnreachableError: The database is away.
    """
    global _worker  # noqa: PLW0603 - one per process, and Celery offers no place for it
    with _lock:
        if _worker is None or _worker.pid != os.getpid():
            tracing.configure(find_collector("TRACES"))
            made = make_worker(read_settings())
            check_schema(made.engine)
            _worker = made
        return _worker


def set_worker(worker: Worker) -> None:
    """Let the tasks of this process use *worker*; for a worker in another program."""
    global _worker  # noqa: PLW0603 - as above
    with _lock:
        _worker = worker


def stop_worker() -> None:
    """Give back what this process runs, if it runs anything."""
    if _worker is not None and _worker.pid == os.getpid():
        _worker.heart.stop()
        tracing.stop()


#: How long a stop waits for the worker's threads. Celery notices a stop within two
#: seconds; by then the operations have been given back.
STOP_WITHIN = timedelta(seconds=2.2)


class EmbeddedWorker:
    """
    A Celery worker in threads of this process.

    Args:
        settings: The settings of this process.
        concurrency: How many operations run at the same time.
    """

    def __init__(self, settings: Settings, *, concurrency: int) -> None:
        """Make it the worker of this process; start nothing yet."""
        app.conf.update(_make_config(settings))
        # Without a program of its own, Celery tells tasks the host alone.
        node = f"up@{socket.gethostname()}"
        set_worker(replace(make_worker(settings), node=node))
        self._controller = WorkController(
            app=app,
            hostname=node,
            pool="threads",
            concurrency=concurrency,
            queues=[queue.value for queue in WORKER_QUEUES],
            without_heartbeat=True,  # our table has it
            quiet=True,
            minutehand_settings=settings,
        )
        self._thread = threading.Thread(
            target=self._controller.start, name="celery-worker", daemon=True
        )

    def start(self) -> None:
        """Consume in a thread."""
        worker_state.should_stop = None
        self._thread.start()

    def stop(self) -> bool:
        """
        Give back the running operations, and wait a moment for the threads.

        Returns:
            False if a step is still busy; what it writes no longer counts.
        """
        # An exit code: 0 means "stop", too; only None means "go on".
        worker_state.should_stop = os.EX_OK
        stop_worker()
        # We do it here: the thread may not get to it before the process ends.
        for step in self._controller.steps:
            if isinstance(step, PresenceStep):
                step.stop(self._controller)
        self._thread.join(STOP_WITHIN.total_seconds())
        return not self._thread.is_alive()


def _make_config(settings: Settings) -> dict[str, Any]:
    config = make_config(settings)
    if settings.broker_url == "memory://":
        # kombu warns of an address without a host, though memory has none.
        config["broker_url"] = "memory://localhost"
    return config
