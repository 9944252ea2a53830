"""run_task: send a task of the user's own Celery application."""

from __future__ import annotations

from uuid import UUID

from models.occurrence import str_to_uuid
from models.operation import RunTaskModel
from operations.ports import StepContext, StepResult


def make_task_id(operation_id: UUID) -> UUID:
    """Return the id of the user's task: the same whichever attempt sends it."""
    return str_to_uuid(f"{operation_id} | run_task")


def run_task(context: StepContext, asked: RunTaskModel) -> StepResult:
    """
    Send the task *asked* for, at least once, always under the same id.

    Returns:
        ``task_id``, ``name``, ``queue`` and ``connection`` (None: our own broker) of
        what was sent; what the task does with it is its own affair.

    Raises:
        StepError: Temporary: the broker did not take it. Permanent: it must not go
            there, by the settings of the worker.
    """
    task_id = str(make_task_id(context.operation_id))
    queue = context.ports.tasks.send(
        asked.name,
        asked.args,
        asked.kwargs,
        queue=asked.queue,
        connection=asked.connection,
        task_id=task_id,
    )
    return {
        "task_id": task_id,
        "name": asked.name,
        "queue": queue,
        "connection": asked.connection,
    }
