"""Read what operations wait for, for people; task_waits.py writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.tables import task_waits


def fetch_waits(
    connection: sa.Connection, operation_ids: list[UUID]
) -> Mapping[UUID, sa.Row[Any]]:
    """Return the rows of these operations, for people; the last task of each."""
    rows = connection.execute(
        sa.select(task_waits).where(task_waits.c.operation_id.in_(operation_ids))
    )
    return {row.operation_id: row for row in rows}
