"""Workers and what each of them runs now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.tables import scheduled_actions
from operations.fleet.processes import (
    ProcessRole,
    Seen,
    drain_worker,
    fetch_processes,
    find_node,
    refuse_worker,
    resume_worker,
)
from overview.installation.figures import Running, fetch_running
from overview.installation.queues import count_taken

#: The most operations that are looked at, the longest running first.
_MOST = 1000


class WorkerState(StrEnum):
    """What a worker does, in a word."""

    #: It runs something.
    WORKING = "working"

    #: It runs nothing, and takes what comes.
    IDLE = "idle"

    #: It was asked to take nothing new, and has not ended all that it runs.
    DRAINING = "draining"

    #: It takes nothing and runs nothing: it can be stopped.
    DRAINED = "drained"

    #: It has given no sign of life for too long.
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class ShownProcess:
    """
    A scheduler or worker; ``alive``: its last sign is recent.

    ``settings`` are those that all processes must share, secrets as digests. ``queues``
    and ``concurrency`` are null of a scheduler.
    """

    role: ProcessRole
    name: str
    host: str
    pid: int
    version: str
    schema: str
    queues: Sequence[str] | None
    concurrency: int | None
    clock_skew_s: float | None
    free_bytes: int | None
    settings: Mapping[str, str]
    started_at: datetime
    heartbeat_at: datetime
    heartbeat_age_s: float
    alive: bool
    id: UUID
    drain_asked_at: datetime | None
    drain_asked_by: str | None


@dataclass(frozen=True, slots=True)
class AtWork(Running):
    """An operation that a worker runs; ``action`` is the name of its action."""

    action: str | None


@dataclass(frozen=True, slots=True)
class ShownWorker(ShownProcess):
    """
    A worker, alive or gone without signing off, and what it runs.

    ``state`` is working, idle, draining, drained (it can be stopped) or silent;
    ``taken_1_h`` is how many operations it began within the last hour.
    ``drain_asked_at`` is since when it is asked to take nothing new; null: it is not.
    """

    state: WorkerState
    running: Sequence[AtWork]
    taken_1_h: int


#: Members that a process, or its sign of life, has by the same name.
_OF_PROCESS = (
    *("role", "name", "pid", "version", "concurrency", "clock_skew_s", "free_bytes"),
    *("settings", "id"),
)
_OF_SIGN = ("started_at", "heartbeat_at", "drain_asked_at", "drain_asked_by")


def make_process(seen: Seen) -> ShownProcess:
    """Return a scheduler or a worker as faces show it."""
    return ShownProcess(**_find_members(seen))


def _find_members(seen: Seen) -> dict[str, Any]:
    process = seen.process
    return {
        **{name: getattr(process, name) for name in _OF_PROCESS},
        **{name: getattr(seen, name) for name in _OF_SIGN},
        "host": process.hostname,
        "schema": process.revision,
        "queues": process.queues if process.role is ProcessRole.WORKER else None,
        "heartbeat_age_s": round(seen.age.total_seconds(), 3),
        "alive": seen.is_alive,
    }


def fetch_workers(connection: sa.Connection) -> list[ShownWorker]:
    """Return every worker that has a row, by name."""
    running: defaultdict[str, list[Running]] = defaultdict(list)
    for each in fetch_running(connection, limit=_MOST):
        running[find_node(each.worker or "")].append(each)
    taken, kept = count_taken(connection), scheduled_actions.c
    uids = {each.action_uid for several in running.values() for each in several}
    named = sa.select(kept.uid, kept.name).where(kept.uid.in_(sorted(uids)))
    names = dict(connection.execute(named).all())
    found = []
    for seen in fetch_processes(connection):
        if seen.process.role is not ProcessRole.WORKER:
            continue
        name = seen.process.name
        at_work = [
            AtWork(**asdict(each), action=names.get(each.action_uid))
            for each in (running[name] if seen.is_alive else ())
        ]
        found.append(
            ShownWorker(
                **_find_members(seen),
                state=_judge(seen, at_work),
                running=at_work,
                taken_1_h=taken.get(name, 0),
            )
        )
    return found


def _judge(seen: Seen, running: Sequence[AtWork]) -> WorkerState:
    """Say what a worker does, in a word."""
    if not seen.is_alive:
        return WorkerState.SILENT
    if seen.drain_asked_at is not None:
        is_done = not seen.process.queues and not running
        return WorkerState.DRAINED if is_done else WorkerState.DRAINING
    return WorkerState.WORKING if running else WorkerState.IDLE


def fetch_worker(connection: sa.Connection, worker_id: UUID) -> ShownWorker:
    """
    Return a worker.

    Raises:
        NotFoundError: There is none with this id.
    """
    workers = {each.id: each for each in fetch_workers(connection)}
    if worker_id not in workers:
        refuse_worker(worker_id)
    return workers[worker_id]


def set_drained(
    connection: sa.Connection,
    worker_id: UUID,
    *,
    drained: bool,
    by: str | None,
    note: str | None = None,
) -> ShownWorker:
    """
    Drain a worker, or let it take work again; return how it is asked to be.

    Raises:
        NotFoundError, ConflictError: As ``drain_worker``.
    """
    if drained:
        drain_worker(connection, worker_id, by=by, note=note)
    else:
        resume_worker(connection, worker_id, note=note)
    return fetch_worker(connection, worker_id)
