"""
What became of an operation: the answer to "what happened to this task id?".

There are three forms of the question, which give the same answer: at once, waiting, and
many at a time, for those who wait for many.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import reading
from models.database.lists import belongs_to, find_by_prefix
from models.database.tables import operations
from models.errors import UnreachableError
from models.operation_state import FINAL_STATES, OperationState
from operations.list_operations import make_unknown

T = TypeVar("T")

_run = operations.c

#: Seconds between two looks of somebody who waits.
LOOK_EVERY_S = 1.0

#: Seconds that somebody who waits bears with a database that is away: more than the
#: restart of one takes.
AWAY_S = 30.0


@dataclass(frozen=True, slots=True)
class ReachedState:
    """What became of an operation."""

    id: UUID
    state: OperationState
    is_final: bool


def make_reached(operation_id: UUID, state: OperationState) -> ReachedState:
    """Return what became of an operation, as faces show it."""
    return ReachedState(operation_id, state, state in FINAL_STATES)


def find_operation_id(
    connection: sa.Connection, text: str, *, app: str | None = None
) -> UUID:
    """Return the id of an operation that begins with *text*: see ``find_by_prefix``."""
    seen = belongs_to(app)
    return find_by_prefix(connection, _run.id, text, *seen, noun="operation")


def get_operation_state(
    connection: sa.Connection, task_id: UUID | str, *, app: str | None = None
) -> OperationState | None:
    """
    Return the state of the operation *task_id*, which is also its Celery task id.

    Reads the table, never Celery's result backend, which calls unknown ids PENDING.

    Args:
        task_id: The id.
        app: Uid of the small app that it must belong to. None: any.

    Returns:
        None if there is no such operation, or *task_id* is not a UUID.
    """
    try:
        key = task_id if isinstance(task_id, UUID) else UUID(task_id)
    except ValueError:
        return None
    state = connection.execute(
        sa.select(_run.state).where(_run.id == key, *belongs_to(app))
    ).scalar_one_or_none()
    return None if state is None else OperationState(state)


def require_operation_state(
    connection: sa.Connection, operation_id: UUID, *, app: str | None = None
) -> OperationState:
    """
    Return the state of an operation, as ``get_operation_state`` does.

    Raises:
        NotFoundError: There is no such operation.
    """
    state = get_operation_state(connection, operation_id, app=app)
    if state is None:
        raise make_unknown(operation_id)
    return state


def read_operation_states(
    engine: sa.Engine, ids: Collection[UUID]
) -> dict[UUID, OperationState]:
    """
    Return the states of operations by their ids, without those that are unknown.

    Args:
        engine: Its connection goes back at once.
        ids: At most some thousands: one query asks for all.
    """
    with reading(engine) as connection:
        rows = connection.execute(
            sa.select(_run.id, _run.state).where(_run.id.in_(list(ids)))
        )
        return {row.id: OperationState(row.state) for row in rows}


def outlast(
    ask: Callable[[], T],
    *,
    away_s: float = AWAY_S,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> T:
    """
    Return what *ask* does; ask again while the database is away, for it may restart.

    Raises:
        UnreachableError: It has been away for *away_s* seconds.
    """
    until = monotonic() + away_s
    while True:
        try:
            return ask()
        except UnreachableError:
            if monotonic() >= until:
                raise
        sleep(LOOK_EVERY_S)


def wait_for_state(
    engine: sa.Engine,
    task_id: UUID | str,
    *,
    timeout: timedelta | None = None,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> OperationState | None:
    """
    Wait until the operation *task_id* is final, and return its state.

    Looks once a second, each time with a connection that goes back at once. A database
    that is away is waited for, as ``outlast`` does.

    Args:
        task_id: The id, which is also that of its Celery task.
        timeout: How long to wait at most. None: for as long as it takes.
        sleep: Waits for a number of seconds.
        monotonic: Returns seconds that never jump.

    Returns:
        The state at the end, which is not final if *timeout* was reached. None if there
        is no such operation, or none any more.
    """

    def look() -> OperationState | None:
        with reading(engine) as connection:
            return get_operation_state(connection, task_id)

    left = math.inf if timeout is None else timeout.total_seconds()
    until = monotonic() + left
    while True:
        away_s = min(left, AWAY_S)
        state = outlast(look, away_s=away_s, sleep=sleep, monotonic=monotonic)
        left = until - monotonic()
        if state is None or state in FINAL_STATES or left <= 0:
            return state
        sleep(min(left, LOOK_EVERY_S))
