"""
The worker of this process, which its tasks share.

Made in the process that runs the tasks, never in the parent of a prefork pool:
neither database connections nor Polars survive a fork.
"""

from __future__ import annotations

import os
import threading

import tracing
from celery_app.assembly import make_worker
from migrations.schema_revisions import check_schema
from operations.claiming.heart import Worker
from settings import find_collector, read_settings

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
