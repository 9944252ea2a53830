"""Read operations back, for people and programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import (
    db_now,
)
from models.database.tables import LIVE, operation_steps, operations
from models.operation_state import (
    OperationState,
)


@dataclass(frozen=True, slots=True)
class OperationFilter:
    """The filters of ``operations list``; None matches everything."""

    app: str | None = None
    action_uid: str | None = None
    state: OperationState | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 50


def fetch_operation(
    connection: sa.Connection, operation_id: UUID
) -> sa.Row[Any] | None:
    """Return the row of *operation_id*, or None if there is none."""
    return connection.execute(
        sa.select(operations).where(operations.c.id == operation_id)
    ).one_or_none()


def fetch_operations(
    connection: sa.Connection, wanted: OperationFilter
) -> list[sa.Row[Any]]:
    """
    Return operations, the latest first.

    ``since`` (inclusive) and ``until`` (exclusive) are compared with the occurrence.
    """
    query = sa.select(operations)
    if wanted.app is not None:
        query = query.where(operations.c.app == wanted.app)
    if wanted.action_uid is not None:
        query = query.where(operations.c.action_uid == wanted.action_uid)
    if wanted.state is not None:
        query = query.where(operations.c.state == wanted.state)
    if wanted.since is not None:
        query = query.where(operations.c.occurrence >= wanted.since)
    if wanted.until is not None:
        query = query.where(operations.c.occurrence < wanted.until)
    query = query.order_by(
        operations.c.recorded_at.desc(), operations.c.occurrence.desc()
    )
    return list(connection.execute(query.limit(wanted.limit)))


def fetch_stuck(
    connection: sa.Connection, *, older_than: timedelta
) -> list[tuple[str, int, datetime]]:
    """Return queue, count and oldest sending of messages unclaimed for *older_than*."""
    rows = connection.execute(
        sa.select(
            operations.c.queue, sa.func.count(), sa.func.min(operations.c.sent_at)
        )
        .where(
            operations.c.state == OperationState.QUEUED,
            operations.c.sent_at <= db_now(-older_than),
        )
        .group_by(operations.c.queue)
        .order_by(operations.c.queue)
    )
    return [(queue, count, oldest) for queue, count, oldest in rows]


def fetch_steps(
    connection: sa.Connection, operation_ids: Collection[UUID]
) -> dict[UUID, list[sa.Row[Any]]]:
    """Return the steps of each operation in their order; none before a claim."""
    found: dict[UUID, list[sa.Row[Any]]] = defaultdict(list)
    query = (
        sa.select(operation_steps)
        .where(operation_steps.c.operation_id.in_(operation_ids))
        .order_by(operation_steps.c.operation_id, operation_steps.c.position)
    )
    for row in connection.execute(query):
        found[row.operation_id].append(row)
    return found


def count_backlog(connection: sa.Connection) -> dict[tuple[str, str], int]:
    """Return how many operations are not final, by (queue, state)."""
    rows = connection.execute(
        sa.select(
            operations.c.queue, operations.c.state, sa.func.count().label("waiting")
        )
        .where(LIVE.of())
        .group_by(operations.c.queue, operations.c.state)
    )
    return {(row.queue, row.state): row.waiting for row in rows}
