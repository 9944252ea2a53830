"""Processes that give a sign of life without running: rows as they would write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from migrations.schema import get_newest_revision
from models.database.engine import db_now, read_host_clock, writing
from models.database.tables import processes
from models.operation_state import WORKER_QUEUES
from operations.fleet.processes import (
    Process,
    ProcessRole,
    describe_settings,
    record_sign,
)
from settings import read_settings

#: Those of an installation that says nothing.
SETTINGS = read_settings({"MINUTEHAND_HOME": "/data"}, env_file=None)


def make_worker(
    host: str = "a", queues: Iterable[str] = tuple(WORKER_QUEUES), **changes: Any
) -> Process:
    """Return a worker of *host* that takes *queues*, four operations at a time."""
    worker = Process(
        role=ProcessRole.WORKER,
        name=f"celery@{host}",
        hostname=host,
        pid=1,
        version="0",
        revision=get_newest_revision(),
        settings=describe_settings(SETTINGS, ProcessRole.WORKER),
        queues=tuple(queues),
        concurrency=4,
        free_bytes=50 * 1024**3,
    )
    return replace(worker, **changes)


def give_sign(
    engine: sa.Engine,
    process: Process,
    *,
    age: timedelta = timedelta(0),
    clock_ahead: timedelta = timedelta(0),
) -> None:
    """Let *process* have given a sign *age* ago, its clock being *clock_ahead*."""

    def clock() -> datetime:
        return read_host_clock() + clock_ahead

    with writing(engine) as connection:
        record_sign(connection, process, host_clock=clock)
        connection.execute(
            sa.update(processes)
            .where(processes.c.id == process.id)
            .values(heartbeat_at=db_now(-age))
        )
