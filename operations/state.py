"""What became of an operation: the answer to "what happened to this task id?"."""

from __future__ import annotations

from uuid import UUID

import sqlalchemy as sa

from models.database.tables import operations
from models.operation_state import OperationState


def get_operation_state(
    connection: sa.Connection, task_id: UUID | str
) -> OperationState | None:
    """
    Return the state of the operation *task_id*, which is also its Celery task id.

    Reads the table, never Celery's result backend, which calls unknown ids PENDING.

    Returns:
        None if there is no such operation, or *task_id* is not a UUID.
    """
    try:
        key = task_id if isinstance(task_id, UUID) else UUID(task_id)
    except ValueError:
        return None
    state = connection.execute(
        sa.select(operations.c.state).where(operations.c.id == key)
    ).scalar_one_or_none()
    return None if state is None else OperationState(state)
