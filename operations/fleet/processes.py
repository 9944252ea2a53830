"""
A row for each running scheduler and worker, which the process itself renews.

A process that stops removes its row. A process that was killed leaves its row, and the
age of its last sign of life shows it.

The wish that a worker rests is in its row, too, which it reads whenever it renews it:
then it finishes what it runs, and takes nothing new until it is resumed. It ends with
the worker: one that is started again has a new row, and takes work.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import Any, NoReturn
from uuid import UUID, uuid4

import sqlalchemy as sa
from pydantic import BaseModel, SecretStr
from sqlalchemy.dialects.postgresql import insert

from models.database.engine import (
    Clock,
    compare_clocks,
    db_now,
    read_host_clock,
    reading,
)
from models.database.journal import note_change
from models.database.tables import ALIVE_FOR, IS_ALIVE, installation, processes
from models.errors import ConflictError, NotFoundError
from models.fields.server_url import hide_sign_in


def fetch_installation(connection: sa.Connection) -> str | None:
    """Return the installation's id, as in messages; None: the row is missing."""
    found = connection.execute(sa.select(installation.c.id).limit(1)).scalar()
    return None if found is None else str(found)


def read_installation(engine: sa.Engine) -> str | None:
    """Return the same in a transaction of its own."""
    with reading(engine) as connection:
        return fetch_installation(connection)


def fetch_secret(connection: sa.Connection) -> str:
    """Return what signs the answers of tasks: see ``foreign_tasks.make_token``."""
    secret: str = connection.execute(sa.select(installation.c.secret)).scalar_one()
    return secret


#: Between two signs of life.
RENEW_EVERY = timedelta(seconds=20)

#: How long the rows of killed processes are kept, for people.
KEPT_FOR = timedelta(days=1)


def find_node(claimant: str) -> str:
    """
    Return the name of the process whose child claimed an operation.

    >>> find_node("quick@host (1a2b3c4d)")
    'quick@host'
    """
    return claimant.rpartition(" (")[0] or claimant


class ProcessRole(StrEnum):
    """What a process is for."""

    SCHEDULER = "scheduler"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Process:
    """
    A process, as it describes itself.

    Args:
        role: What the process is for.
        name: Its name for the operator, such as ``quick@host``.
        hostname: Name of its host.
        pid: Its process id; in containers this is often 1.
        version: Version of the program.
        revision: The newest schema that the program knows.
        settings: Settings that all processes of the role must share, by variable;
            secrets as digests.
        queues: The queues that it consumes.
        concurrency: How many operations it runs at a time. None: it runs none.
        clock_skew_s: Host clock minus database clock, in seconds.
        free_bytes: Free space of the workspace. None: unknown, or not used.
        id: Random; another one at each start.
    """

    role: ProcessRole
    name: str
    hostname: str
    pid: int
    version: str
    revision: str
    settings: Mapping[str, str]
    queues: Sequence[str] = ()
    concurrency: int | None = None
    clock_skew_s: float | None = None
    free_bytes: int | None = None
    id: UUID = field(default_factory=uuid4)


@dataclass(frozen=True, slots=True)
class Seen:
    """
    A process, as its row shows it.

    Args:
        age: Age of its last sign.
        drain_asked_at: Since when a worker is asked to take nothing new. None: it is
            not asked.
        drain_asked_by: By whom.
    """

    process: Process
    started_at: datetime
    heartbeat_at: datetime
    age: timedelta
    drain_asked_at: datetime | None = None
    drain_asked_by: str | None = None

    @property
    def is_alive(self) -> bool:
        """Whether its last sign is recent enough."""
        return self.age <= ALIVE_FOR


def measure_free(folder: Path) -> int | None:
    """
    Return the free bytes of the file system of *folder*, which may not exist yet.

    May block for as long as that file system does.

    Returns:
        None if they are unknown.
    """
    there = next((each for each in (folder, *folder.parents) if each.exists()), None)
    try:
        return None if there is None else shutil.disk_usage(there).free
    except OSError:
        return None


#: What of a row another sign of life may change.
_CHANGING = (
    *("queues", "concurrency", "settings"),
    *("clock_skew_s", "free_bytes", "heartbeat_at"),
)


def record_sign(
    connection: sa.Connection, process: Process, *, host_clock: Clock = read_host_clock
) -> bool:
    """
    Record that *process* is alive; remove rows that were not renewed for a day.

    Args:
        process: As it is now.
        host_clock: Clock of its host, to be compared with the database's clock.

    Returns:
        Whether it is asked to take nothing new: see ``drain_worker``.
    """
    _now, skew = compare_clocks(connection, host_clock)
    values = {
        **asdict(process),
        "clock_skew_s": skew.total_seconds(),
        "heartbeat_at": db_now(),
    }
    asked_at = connection.execute(
        insert(processes)
        .values(**values, started_at=db_now())
        .on_conflict_do_update(
            index_elements=["id"], set_={name: values[name] for name in _CHANGING}
        )
        .returning(processes.c.drain_asked_at)
    ).scalar_one()
    connection.execute(
        sa.delete(processes).where(processes.c.heartbeat_at < db_now(-KEPT_FOR))
    )
    return asked_at is not None


def record_end(connection: sa.Connection, process: Process) -> None:
    """Remove the row of *process*, which stops."""
    connection.execute(sa.delete(processes).where(processes.c.id == process.id))


def fetch_processes(connection: sa.Connection) -> list[Seen]:
    """Return every process that has a row, alive or not, schedulers first."""
    rows = connection.execute(
        sa.select(processes, db_now().label("now")).order_by(
            processes.c.role, processes.c.name, processes.c.started_at
        )
    )
    return [_read(row) for row in rows.mappings()]


def _read(row: sa.RowMapping) -> Seen:
    told = {each.name: row[each.name] for each in fields(Process)}
    told |= {"role": ProcessRole(row["role"]), "queues": tuple(row["queues"])}
    signs = row["started_at"], row["heartbeat_at"], row["now"] - row["heartbeat_at"]
    asked = row["drain_asked_at"], row["drain_asked_by"]
    return Seen(Process(**told), *signs, *asked)


#: The settings that all processes of a role must share. The database is missing here: a
#: process that uses another database has no row in this one.
AGREED = {
    ProcessRole.SCHEDULER: (
        *("broker_url", "queue_prefix", "timezone"),
        *("lookback", "lease_ttl", "lease_heartbeat"),
        *("maintenance_enabled", "maintenance_at", "notice_mail"),
    ),
    ProcessRole.WORKER: (
        *("broker_url", "queue_prefix", "timezone", "workspace", "retention"),
        *("operation_lease", "operation_heartbeat", "webhook_secret"),
        "webhook_allowed_hosts",
    ),
}


def describe_settings(settings: BaseModel, role: ProcessRole) -> dict[str, str]:
    """
    Return the settings that processes of *role* must share, by variable, as text.

    A secret appears as a digest of four bytes: enough to compare, but too little to
    recover the secret. URLs appear without user and password, and with a digest of
    their parameters.
    """
    given = settings.model_dump(mode="json")
    return {
        f"MINUTEHAND_{name.upper()}": _describe(getattr(settings, name), given[name])
        for name in AGREED[role]
    }


def _describe(value: object, shown: object) -> str:
    if isinstance(value, SecretStr):
        return _make_digest(value.get_secret_value())
    if isinstance(shown, bool):
        return str(shown).lower()
    if isinstance(shown, list):
        return ", ".join(map(str, shown)) or "none"
    text = "not set" if shown is None else str(shown)
    if "://" not in text:
        return text
    parameters = text.partition("?")[2]
    told = f" ({_make_digest(parameters)})" if parameters else ""
    return f"{hide_sign_in(text)}{told}"


def _make_digest(secret: str) -> str:
    digest = blake2b(secret.encode(), digest_size=4, person=b"minutehand")
    return f"digest {digest.hexdigest()}"


def drain_worker(
    connection: sa.Connection, worker_id: UUID, *, by: str | None, note: str | None
) -> bool:
    """
    Ask a worker to take nothing new; it does so within RENEW_EVERY.

    Args:
        worker_id: Of its row: of this start of the worker alone.
        by: Who asks for it, such as ``root@host``.
        note: Why; for the record of changes.

    Returns:
        False if it was asked before, and nothing changed.

    Raises:
        NotFoundError: There is no such worker.
        ConflictError: It is gone.
    """
    row = _lock(connection, worker_id)
    if not row.is_alive:
        msg = f"worker {row.name} has given no sign of life for too long: it is gone"
        raise ConflictError(msg)
    if row.drain_asked_at is not None:
        return False
    _write(connection, worker_id, drain_asked_at=db_now(), drain_asked_by=by)
    after = {"id": str(worker_id), "queues": row.queues}
    note_change(
        connection, "worker", row.name, "drained", app=None, after=after, note=note
    )
    return True


def resume_worker(
    connection: sa.Connection, worker_id: UUID, *, note: str | None
) -> bool:
    """
    Let a drained worker take work again, from the same queues, within RENEW_EVERY.

    Returns:
        False if it was not asked to rest.

    Raises:
        NotFoundError: There is no such worker.
    """
    row = _lock(connection, worker_id)
    if row.drain_asked_at is None:
        return False
    _write(connection, worker_id, drain_asked_at=None, drain_asked_by=None)
    before = {"id": str(worker_id), "drained_by": row.drain_asked_by}
    note_change(
        connection, "worker", row.name, "resumed", app=None, before=before, note=note
    )
    return True


def find_worker(connection: sa.Connection, name: str) -> UUID:
    """
    Return the id of the living worker *name*, such as ``quick@host``.

    Raises:
        NotFoundError: There is none.
        ConflictError: There are several: names should differ.
    """
    query = sa.select(processes.c.id).where(
        processes.c.role == ProcessRole.WORKER, processes.c.name == name, IS_ALIVE
    )
    ids: Sequence[UUID] = connection.scalars(query).all()
    if len(ids) > 1:
        msg = f"{len(ids)} workers are called {name!r}. Give each a name of its own: -n"
        raise ConflictError(msg)
    if not ids:
        msg = f"there is no living worker {name!r}. List them: minutehand workers list"
        raise NotFoundError(msg)
    return ids[0]


def _lock(connection: sa.Connection, worker_id: UUID) -> sa.Row[Any]:
    query = sa.select(processes, IS_ALIVE.label("is_alive")).where(
        processes.c.id == worker_id, processes.c.role == ProcessRole.WORKER
    )
    row = connection.execute(query.with_for_update()).one_or_none()
    if row is None:
        refuse_worker(worker_id)
    return row


def refuse_worker(worker_id: UUID) -> NoReturn:
    """
    Say that there is no such worker.

    Raises:
        NotFoundError: Always.
    """
    raise NotFoundError(f"there is no worker {worker_id}")


def _write(connection: sa.Connection, worker_id: UUID, **values: object) -> None:
    connection.execute(
        sa.update(processes).where(processes.c.id == worker_id).values(**values)
    )
