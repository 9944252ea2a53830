"""
Drain a worker: it finishes what it runs, and takes nothing new until it is resumed.

The wish is written into the worker's row, which the worker reads whenever it renews it.
It ends with the worker: one that is started again has a new row, and takes work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import db_now
from models.database.journal import note_change
from models.database.tables import IS_ALIVE, processes
from models.errors import ConflictError, NotFoundError
from operations.fleet.processes import ProcessRole

_process = processes.c


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
    query = sa.select(_process.id).where(
        _process.role == ProcessRole.WORKER, _process.name == name, IS_ALIVE
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
        _process.id == worker_id, _process.role == ProcessRole.WORKER
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
        sa.update(processes).where(_process.id == worker_id).values(**values)
    )
