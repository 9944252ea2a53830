"""run_task: send a task to the user's own Celery application."""

from __future__ import annotations

from uuid import UUID

from models.occurrence import str_to_uuid
from models.operation import RunTaskModel
from operations.ports import StepContext, StepResult


def make_task_id(operation_id: UUID) -> UUID:
    """Return the id of the user's task, which is the same in every attempt."""
    return str_to_uuid(f"{operation_id} | run_task")


def run_task(context: StepContext, asked: RunTaskModel) -> StepResult:
    """
    Send the task *asked* for, at least once, always under the same id.

    Returns:
        ``task_id``, ``name``, ``queue`` and ``connection`` (None: our own broker) of
        the task. What became of the task itself is not known here.

    Raises:
        StepError: Temporary: the broker did not accept the task. Permanent: the
            worker's settings forbid the queue or the connection.
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
    context.say(f"sent {asked.name} to queue {queue}, task id {task_id}")
    return {
        "task_id": task_id,
        "name": asked.name,
        "queue": queue,
        "connection": asked.connection,
    }
