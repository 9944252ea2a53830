"""run_task: send a task to the user's own Celery application."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC
from uuid import UUID

from models.errors import AwaitedError, RuleError, StepError
from models.fields.elapsed import parse_elapsed
from models.fields.placeholders import fill
from models.occurrence import str_to_uuid
from models.run_task import RunTaskModel
from operations.foreign_tasks import Answer, ForeignTask, Wait
from operations.ports import StepContext, StepResult
from operations.task_values import make_headers, make_values

#: How many answers are taken off a broker before one is missed: all, in practice.
_AT_ONCE = 100
_ROUNDS = 100


def make_task_id(operation_id: UUID) -> UUID:
    """Return the id of the user's task, which is the same in every attempt."""
    return str_to_uuid(f"{operation_id} | run_task")


def run_task(context: StepContext, asked: RunTaskModel) -> StepResult:
    """
    Send the task *asked* for, at least once, always under the same id; perhaps wait.

    A worker runs this once to send the task, and again when its end is known, or when
    that was waited for long enough.

    Returns:
        ``task_id``, ``name``, ``queue`` (or ``exchange`` and ``routing_key``) and
        ``connection`` (None: our own broker) of the task. If its end was waited for,
        also ``returned``.

    Raises:
        AwaitedError: The task was sent, and its end is waited for.

        StepError: Temporary: the broker did not accept the task. Permanent: the
            worker's settings forbid the queue or the connection, a text has a
            placeholder that has no value, or the task failed, or nobody told in time.
    """
    if not asked.wait:
        sent = context.ports.tasks.send(make_task(context, asked))
        context.say(f"sent {sent.name} to {sent.place}, task id {sent.id}")
        return describe(sent)
    task = name_task(context, asked)
    wait = context.waits.fetch()
    if wait is not None and wait.is_over and wait.answer is None:
        wait = _look_once_more(context, task, wait)
    if wait is None or not (wait.is_sent or wait.answer):
        # If a worker died just after it had sent the task, this sends it twice.
        raise _send(context, asked, None if wait is None else wait.token)
    if wait.answer is not None:
        return _read_answer(context, task, wait.answer)
    if wait.is_over:
        raise _make_timeout(asked, task, wait)
    raise _make_awaited(task, wait)


def _send(
    context: StepContext, asked: RunTaskModel, token: UUID | None
) -> AwaitedError:
    """Send the task with *token* (None: a new one); return what to wait for."""
    task = make_task(context, asked)
    wait = context.waits.begin(task, asked.longest_wait, token)
    sent = context.ports.tasks.send(
        replace(task, token=wait.token, with_value=asked.returned)
    )
    context.waits.mark_sent()
    context.say(f"sent {sent.name} to {sent.place}, task id {sent.id}")
    return _make_awaited(sent, wait)


def _make_awaited(task: ForeignTask, wait: Wait) -> AwaitedError:
    until = wait.deadline.astimezone(UTC).isoformat(timespec="seconds")
    result = {**describe(task), "waits_until": until}
    return AwaitedError(task.name, deadline=wait.deadline, result=result)


def _look_once_more(context: StepContext, task: ForeignTask, wait: Wait) -> Wait:
    """Return *wait* with an answer that may have come while no scheduler listened."""
    with suppress(StepError):  # what cannot be asked has not answered
        for _round in range(_ROUNDS):
            taken = context.ports.tasks.receive(
                task.connection, context.waits.keep, limit=_AT_ONCE
            )
            if not taken:
                break
    return context.waits.fetch() or wait


def _make_timeout(asked: RunTaskModel, task: ForeignTask, wait: Wait) -> StepError:
    within = asked.within or "PT1H"
    look = wait.remark or (
        f"look at the log of the workers that take {task.place}: it may still run, have"
        " expired, have been revoked, or be unknown to them"
    )
    text = f"nothing told of the end of {task.name} within {within}; {look}"
    return StepError(f"{text} (task id {task.id})", permanent=True)


def _read_answer(context: StepContext, task: ForeignTask, answer: Answer) -> StepResult:
    if not answer.succeeded:
        text = answer.note or "the log of its worker says why"
        msg = f"{task.name} failed: {text} (task id {task.id})"
        raise StepError(msg, permanent=True)
    context.say(f"{task.name} succeeded")
    note = {} if answer.note is None else {"note": answer.note}
    return {**describe(task), "returned": answer.returned, **note}


def name_task(context: StepContext, asked: RunTaskModel) -> ForeignTask:
    """Return the task that *asked* means, without what it is given."""
    return ForeignTask(
        name=asked.name,
        id=str(make_task_id(context.operation_id)),
        queue=asked.queue,
        exchange=asked.exchange,
        routing_key=asked.routing_key,
        connection=asked.connection,
    )


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
    return replace(
        name_task(context, asked),
        args=args,
        kwargs=kwargs,
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
