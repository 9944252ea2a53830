"""run_task: send a task to the user's own Celery application."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from models.errors import AwaitedError, RuleError, StepError
from models.fields.elapsed import parse_elapsed
from models.fields.placeholders import fill
from models.occurrence import str_to_uuid
from models.run_task import RunTaskModel
from operations.foreign_tasks import LISTEN_AFTER, Answer, ForeignTask, Wait
from operations.ports import StepContext, StepResult
from operations.task_values import make_headers, make_values

#: How many answers are taken off a broker before one is missed: all, in practice.
_AT_ONCE = 100
_ROUNDS = 100

#: After the deadline: how soon a broker is asked again that could not be read, and how
#: long the task's own worker, which it may have cut off too, has from then to answer.
LOOK_AGAIN = timedelta(minutes=1)
GRACE = timedelta(minutes=2)

#: Key in the memo: when the broker could not be read for the last time.
_UNREAD_AT = "answers unread at"


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
    trouble = None
    if wait is not None and wait.is_over and wait.answer is None:
        trouble = _look_once_more(context, task)
        wait = context.waits.fetch() or wait
    if wait is None or not (wait.is_sent or wait.answer):
        # If a worker died just after it had sent the task, this sends it twice.
        raise _send(context, asked, None if wait is None else wait.token)
    if wait.answer is not None:
        return _read_answer(context, task, wait.answer)
    if wait.is_over:
        raise _judge_silence(context, asked, task, wait, trouble)
    raise _make_awaited(task, wait.deadline)


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
    return _make_awaited(sent, wait.deadline)


def _make_awaited(
    task: ForeignTask, deadline: datetime, because: str = ""
) -> AwaitedError:
    until = deadline.astimezone(UTC).isoformat(timespec="seconds")
    result = {**describe(task), "waits_until": until}
    what = f"{task.name}; {because}" if because else task.name
    return AwaitedError(what, deadline=deadline, result=result)


def _look_once_more(context: StepContext, task: ForeignTask) -> StepError | None:
    """Keep answers that no scheduler took off; return why they cannot be read."""
    try:
        for _round in range(_ROUNDS):
            taken = context.ports.tasks.receive(
                task.connection, context.waits.keep, limit=_AT_ONCE
            )
            if not taken:
                break
    except StepError as error:
        return error
    return None


def _judge_silence(
    context: StepContext,
    asked: RunTaskModel,
    task: ForeignTask,
    wait: Wait,
    trouble: StepError | None,
) -> StepError | AwaitedError:
    """Return what becomes of a task of which nothing was told in time."""
    bound = wait.deadline + LISTEN_AFTER
    if trouble is None:
        # Perhaps it was away at the deadline, and has just come back.
        unread_at = context.memo.get(_UNREAD_AT)
        if unread_at is not None:
            until = min(datetime.fromisoformat(str(unread_at)) + GRACE, bound)
            if context.now < until:
                because = "its broker was away at the deadline, and can be read again"
                return _make_awaited(task, until, because)
        return _make_timeout(asked, task, wait.remark)
    if trouble.permanent or context.now >= bound:
        return _make_timeout(asked, task, str(trouble))
    context.remember(_UNREAD_AT, context.now.isoformat())
    until = min(context.now + LOOK_AGAIN, bound)
    return _make_awaited(task, until, f"nothing is judged while {trouble}")


def _make_timeout(
    asked: RunTaskModel, task: ForeignTask, remark: str | None
) -> StepError:
    within = asked.within or "PT1H"
    look = remark or (
        f"look at the log of the workers that take {task.place}: it may still run, have"
        " expired, have been revoked, or be unknown to them"
    )
    text = f"nothing told of the end of {task.name} within {within}; {look}"
    return StepError(f"{text} (task id {task.id})", permanent=True)


def _read_answer(context: StepContext, task: ForeignTask, answer: Answer) -> StepResult:
    if not answer.succeeded:
        found = context.ports.tasks.fetch_failure(task.connection, task.id)
        text = answer.note or found or "the log of its worker says why"
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
