"""
Pause and resume a queue: nothing of it is sent or claimed meanwhile.

Unlike the other pauses this one loses no occurrence: the tick goes on recording, and
what it records waits. operations/turns.py is where the pause takes effect.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from actions.pausing.pause_state import (
    QUEUE,
    Pause,
    PauseSubject,
    begin_pause,
    get_pause,
    note_pause,
    refuse_other_pause,
)
from models.database.engine import db_now
from models.database.tables import PENDING, QUEUED, operations, queue_pauses
from models.database.transaction import keep_leader_out
from models.errors import ConflictError
from models.operation_state import Queue
from models.requests.notes import UNTIL_RESUMED, PauseModel

_pause = queue_pauses.c


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
    asked: PauseModel = UNTIL_RESUMED,
    *,
    expected: str | None = None,
) -> PausedQueue:
    """
    Pause *queue*: what runs goes on, and nothing more of it is sent or claimed.

    To pause a paused queue gives it the new end and note; without either, its pause
    stays as it is.

    Args:
        connection: Of ``writing``, which knows who asks.
        queue: As people name it.
        expected: The ``tag_pause`` of the pause that the author has seen. None: any.

    Raises:
        UsageError: Its end is not to come.
        StaleError: Its pause is not the *expected* one.
    """
    known = _hold(connection, queue, expected)
    pause = begin_pause(connection, asked, QUEUE, known)
    waiting = _count_waiting(connection, queue)
    if pause is known:
        return PausedQueue(queue, waiting, known)
    values = pause.as_columns()
    connection.execute(
        insert(queue_pauses)
        .values(queue=queue.value, **values)
        .on_conflict_do_update(index_elements=["queue"], set_=values)
    )
    note_pause(connection, _name(queue), known, pause, asked.note, waiting=waiting)
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
    known = _hold(connection, queue, expected)
    if known is None:
        raise ConflictError(f"queue {queue.value} is not paused")
    connection.execute(sa.delete(queue_pauses).where(_pause.queue == queue.value))
    waiting = _count_waiting(connection, queue)
    note_pause(connection, _name(queue), known, None, note, waiting=waiting)
    return ResumedQueue(queue, waiting)


def fetch_queue_pauses(connection: sa.Connection) -> dict[Queue, Pause]:
    """Return the pauses of the queues that are paused now."""
    rows = connection.execute(
        sa.select(queue_pauses)
        .where(sa.or_(_pause.paused_until.is_(None), _pause.paused_until > db_now()))
        .order_by(_pause.queue)
    )
    return {Queue(row.queue): pause for row in rows if (pause := get_pause(row, QUEUE))}


def fetch_queue_pause(connection: sa.Connection, queue: Queue) -> Pause | None:
    """Return the pause of *queue*; None if it is not paused now."""
    return fetch_queue_pauses(connection).get(queue)


def _hold(
    connection: sa.Connection, queue: Queue, expected: str | None
) -> Pause | None:
    keep_leader_out(connection)
    known = fetch_queue_pause(connection, queue)
    refuse_other_pause(f"queue {queue.value}", known, expected)
    return known


def _name(queue: Queue) -> PauseSubject:
    return PauseSubject(QUEUE, queue.value, None)


def _count_waiting(connection: sa.Connection, queue: Queue) -> int:
    """Return how many operations of *queue* no worker has taken yet."""
    of_queue = sa.select(sa.func.count()).where(operations.c.queue == queue.value)
    # one statement for each index
    counts = (of_queue.where(state.of()) for state in (PENDING, QUEUED))
    return sum(connection.execute(each).scalar_one() for each in counts)
