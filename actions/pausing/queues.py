"""
Pause and resume a queue: nothing of it is sent or claimed meanwhile.

Unlike the other pauses this one loses no occurrence: the tick goes on recording, and
what it records waits. operations/paused_queues.py is where the pause takes effect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from actions.pausing.pause_state import (
    QUEUE,
    Pause,
    begin_pause,
    get_pause,
    tag_pause,
)
from models.database.engine import db_now
from models.database.journal import note_change
from models.database.leader_lock import keep_leader_out
from models.database.tables import PENDING, UNDER_WAY, operations, queue_pauses
from models.errors import ConflictError, StaleError
from models.operation_state import OperationState, Queue
from models.revision import Change

_kept = queue_pauses.c


@dataclass(frozen=True, slots=True)
class PausedQueue:
    """A queue, paused now; no worker has taken *waiting* operations of it yet."""

    queue: Queue
    waiting: int
    pause: Pause


@dataclass(frozen=True, slots=True)
class ResumedQueue:
    """A queue, resumed; *waiting* operations of it may be sent from now on."""

    queue: Queue
    waiting: int


def pause_queue(
    connection: sa.Connection,
    queue: Queue,
    *,
    until: datetime | None = None,
    note: str | None = None,
    by: str | None = None,
    expected: str | None = None,
) -> PausedQueue:
    """
    Pause *queue*: what runs goes on, and nothing more of it is sent or claimed.

    To pause a paused queue gives it the new *until* and *note*; without either, its
    pause stays as it is.

    Args:
        queue: As people name it.
        until: When it ends by itself, aware, exclusive; None: when it is resumed.
        by: Who asks for it, such as ``root@host``.
        expected: The ``tag_pause`` of the pause that the author has seen. None: any.

    Raises:
        UsageError: *until* is not to come.
        StaleError: Its pause is not the *expected* one.
    """
    keep_leader_out(connection)
    pause = begin_pause(connection, until, note, by, QUEUE)
    known = fetch_queue_pause(connection, queue)
    _refuse_other(queue, known, expected)
    if known is not None:
        if (until, note) == (None, None):
            return PausedQueue(queue, _count_waiting(connection, queue), known)
        pause = replace(pause, at=known.at)
    values = pause.as_columns()
    connection.execute(
        insert(queue_pauses)
        .values(queue=queue.value, **values)
        .on_conflict_do_update(index_elements=["queue"], set_=values)
    )
    waiting = _count_waiting(connection, queue)
    _note(connection, queue, known, pause, waiting, note)
    return PausedQueue(queue, waiting, pause)


def resume_queue(
    connection: sa.Connection,
    queue: Queue,
    *,
    note: str | None = None,
    expected: str | None = None,
) -> ResumedQueue:
    """
    Resume *queue*: the leader sends what waits, within a second.

    Args:
        queue: As people name it.
        note: Why; for the record of changes.
        expected: As for ``pause_queue``.

    Raises:
        ConflictError: It is not paused.
        StaleError: Its pause is not the *expected* one.
    """
    keep_leader_out(connection)
    known = fetch_queue_pause(connection, queue)
    _refuse_other(queue, known, expected)
    if known is None:
        msg = f"queue {queue.value} is not paused"
        raise ConflictError(msg)
    connection.execute(sa.delete(queue_pauses).where(_kept.queue == queue.value))
    waiting = _count_waiting(connection, queue)
    _note(connection, queue, known, None, waiting, note)
    return ResumedQueue(queue, waiting)


def fetch_queue_pauses(connection: sa.Connection) -> dict[Queue, Pause]:
    """Return the pauses of the queues that are paused now."""
    found = {}
    for row in connection.execute(
        sa.select(queue_pauses)
        .where(sa.or_(_kept.paused_until.is_(None), _kept.paused_until > db_now()))
        .order_by(_kept.queue)
    ):
        pause = get_pause(row)
        assert pause is not None  # a row without an instant cannot be inserted
        found[Queue(row.queue)] = replace(pause, scope=QUEUE)
    return found


def fetch_queue_pause(connection: sa.Connection, queue: Queue) -> Pause | None:
    """Return the pause of *queue*; None if it is not paused now."""
    return fetch_queue_pauses(connection).get(queue)


def _count_waiting(connection: sa.Connection, queue: Queue) -> int:
    """Return how many operations of *queue* no worker has taken yet."""
    of_queue = operations.c.queue == queue.value
    counts = (
        sa.select(sa.func.count()).select_from(operations).where(*where)
        for where in (
            (PENDING.of(), of_queue),
            (UNDER_WAY.of(), operations.c.state == OperationState.QUEUED, of_queue),
        )
    )
    return sum(connection.execute(each).scalar_one() for each in counts)


def _note(
    connection: sa.Connection,
    queue: Queue,
    before: Pause | None,
    after: Pause | None,
    waiting: int,
    note: str | None,
) -> None:
    note_change(
        connection,
        "queue",
        queue.value,
        Change.RESUMED if after is None else Change.PAUSED,
        app=None,
        before=None if before is None else {"pause": before.as_json()},
        after={"waiting": waiting}
        | ({} if after is None else {"pause": after.as_json()}),
        note=note,
    )


def _refuse_other(queue: Queue, known: Pause | None, expected: str | None) -> None:
    current = tag_pause(known)
    if expected is not None and expected != current:
        msg = (
            f"the pause of queue {queue.value} was changed meanwhile. Read it again,"
            " and decide on what it is now"
        )
        raise StaleError(msg, current=current)
