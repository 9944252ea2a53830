"""run_task: send a task to the user's own Celery application."""

from __future__ import annotations

from uuid import UUID

from models.errors import RuleError, StepError
from models.fields.elapsed import parse_elapsed
from models.fields.placeholders import fill
from models.occurrence import str_to_uuid
from models.run_task import RunTaskModel
from operations.foreign_tasks import ForeignTask
from operations.ports import StepContext, StepResult
from operations.task_values import make_headers, make_values


def make_task_id(operation_id: UUID) -> UUID:
    """Return the id of the user's task, which is the same in every attempt."""
    return str_to_uuid(f"{operation_id} | run_task")


def run_task(context: StepContext, asked: RunTaskModel) -> StepResult:
    """
    Send the task *asked* for, at least once, always under the same id.

    Returns:
        ``task_id``, ``name``, ``queue`` (or ``exchange`` and ``routing_key``) and
        ``connection`` (None: our own broker) of the task. What became of the task
        itself is not known here.

    Raises:
        StepError: Temporary: the broker did not accept the task. Permanent: the
            worker's settings forbid the queue or the connection, or a text has a
            placeholder that has no value.
    """
    sent = context.ports.tasks.send(make_task(context, asked))
    context.say(f"sent {sent.name} to {sent.place}, task id {sent.id}")
    return describe(sent)


def make_task(context: StepContext, asked: RunTaskModel) -> ForeignTask:
    """
    Return the task that *asked* means in this operation.

    Raises:
        StepError: Permanent: a text has a placeholder that has no value.
    """
    values = make_values(context, asked.placeholders)
    try:
        args = [fill(each, values) for each in asked.args]
        kwargs = {key: fill(each, values) for key, each in asked.kwargs.items()}
        headers = {key: fill(each, values) for key, each in asked.headers.items()}
    except RuleError as error:
        raise StepError(str(error), permanent=True) from None
    expires_at = None
    if asked.expires is not None:
        expires_at = context.now + parse_elapsed(asked.expires)
    return ForeignTask(
        name=asked.name,
        id=str(make_task_id(context.operation_id)),
        args=args,
        kwargs=kwargs,
        queue=asked.queue,
        exchange=asked.exchange,
        routing_key=asked.routing_key,
        connection=asked.connection,
        priority=asked.priority,
        expires_at=expires_at,
        headers={k: v for k, v in headers.items() if v is not None}
        | make_headers(context),
    )


def describe(task: ForeignTask) -> StepResult:
    """Return where *task* was sent, for the result of the step."""
    place = (
        {"queue": task.queue}
        if task.exchange is None
        else {"exchange": task.exchange, "routing_key": task.routing_key or ""}
    )
    return {
        "task_id": task.id,
        "name": task.name,
        **place,
        "connection": task.connection,
    }
