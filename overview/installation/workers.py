"""Workers and what each of them runs now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

import sqlalchemy as sa
from typing_extensions import TypedDict

from models.database.tables import scheduled_actions
from operations.fleet.draining import drain_worker, refuse_worker, resume_worker
from operations.fleet.processes import Role, Seen, fetch_processes
from overview.installation.figures import Running, RunningJson, fetch_running
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


class ProcessJson(TypedDict):
    """
    A scheduler or worker; ``alive``: its last sign is recent.

    ``settings`` are those that all processes must share, secrets as digests. ``queues``
    and ``concurrency`` are null of a scheduler.
    """

    role: Role
    name: str
    host: str
    pid: int
    version: str
    schema: str
    queues: list[str] | None
    concurrency: int | None
    clock_skew_s: float | None
    free_bytes: int | None
    settings: dict[str, str]
    started_at: datetime
    heartbeat_at: datetime
    heartbeat_age_s: float
    alive: bool


class AtWorkJson(RunningJson):
    """An operation that a worker runs; ``action`` is the name of its action."""

    action: str | None


class WorkerJson(ProcessJson):
    """
    A worker, alive or gone without signing off, and what it runs.

    ``state`` is working, idle, draining, drained (it can be stopped) or silent;
    ``taken_1_h`` is how many operations it began within the last hour.
    ``drain_asked_at`` is since when it is asked to take nothing new; null: it is not.
    """

    id: UUID
    state: WorkerState
    running: list[AtWorkJson]
    taken_1_h: int
    drain_asked_at: datetime | None
    drain_asked_by: str | None


@dataclass(frozen=True, slots=True)
class WorkerAtWork:
    """
    A worker, and the operations that it runs, the longest running first.

    Args:
        taken: How many it began within the last hour.
        names: Those of the actions of what it runs, by uid.
    """

    seen: Seen
    running: Sequence[Running]
    taken: int = 0
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def state(self) -> WorkerState:
        """What it does, in a word."""
        if not self.seen.is_alive:
            return WorkerState.SILENT
        if self.seen.drain_asked_at is not None:
            is_done = not self.seen.process.queues and not self.running
            return WorkerState.DRAINED if is_done else WorkerState.DRAINING
        return WorkerState.WORKING if self.running else WorkerState.IDLE

    def as_json(self) -> WorkerJson:
        """Return the documented object; keys are only added."""
        return {
            **make_process_json(self.seen),
            "id": self.seen.process.id,
            "state": self.state,
            "running": [
                {**each.as_json(), "action": self.names.get(each.action_uid)}
                for each in self.running
            ],
            "taken_1_h": self.taken,
            "drain_asked_at": self.seen.drain_asked_at,
            "drain_asked_by": self.seen.drain_asked_by,
        }


def fetch_workers(connection: sa.Connection) -> list[WorkerAtWork]:
    """Return every worker that has a row, by name."""
    running: defaultdict[str | None, list[Running]] = defaultdict(list)
    for each in fetch_running(connection, limit=_MOST):
        running[each.worker].append(each)
    taken = count_taken(connection)
    uids = {each.action_uid for several in running.values() for each in several}
    names = _fetch_names(connection, uids)
    return [
        WorkerAtWork(
            seen,
            running[seen.process.name] if seen.is_alive else (),
            taken.get(seen.process.name, 0),
            names,
        )
        for seen in fetch_processes(connection)
        if seen.process.role is Role.WORKER
    ]


def _fetch_names(connection: sa.Connection, uids: Collection[str]) -> dict[str, str]:
    kept = scheduled_actions.c
    rows = connection.execute(
        sa.select(kept.uid, kept.name).where(kept.uid.in_(sorted(uids)))
    )
    return {row.uid: row.name for row in rows}


def fetch_worker(connection: sa.Connection, worker_id: UUID) -> WorkerAtWork:
    """
    Return a worker.

    Raises:
        NotFoundError: There is none with this id.
    """
    workers = {each.seen.process.id: each for each in fetch_workers(connection)}
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
) -> WorkerAtWork:
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


def make_process_json(seen: Seen) -> ProcessJson:
    """Return the documented object of a scheduler or a worker; keys are only added."""
    process = seen.process
    is_worker = process.role is Role.WORKER
    return {
        "role": process.role,
        "name": process.name,
        "host": process.hostname,
        "pid": process.pid,
        "version": process.version,
        "schema": process.revision,
        "queues": list(process.queues) if is_worker else None,
        "concurrency": process.concurrency,
        "clock_skew_s": process.clock_skew_s,
        "free_bytes": process.free_bytes,
        "settings": dict(process.settings),
        "started_at": seen.started_at,
        "heartbeat_at": seen.heartbeat_at,
        "heartbeat_age_s": round(seen.age.total_seconds(), 3),
        "alive": seen.is_alive,
    }
