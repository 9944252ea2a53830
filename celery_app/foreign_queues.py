"""
Find out whether anybody consumes the queues that ``run_task`` sends to, for doctor.

RabbitMQ knows the consumers of a queue. Redis does not, so there we ask the workers, as
``celery inspect active_queues`` does; workers without remote control do not answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from celery import Celery

from actions.stored_task_queues import TaskQueue
from celery_app.task_sender import Link
from models.errors import RuleError
from settings import Settings

#: How long workers have to answer; one that runs tasks in its main thread may be late.
_ANSWERS_WITHIN_S = 1.5

#: Unknown tasks that a message names.
_MOST_LISTED = 5


@dataclass(frozen=True, slots=True)
class QueueFinding:
    """
    The result of a look at one queue.

    Args:
        subject: The queue and its connection, in words.
        detail: What was found, and what to do.
        is_well: Whether somebody consumes the queue.
        is_reachable: Whether its broker answers at all.
    """

    subject: str
    detail: str
    is_well: bool
    is_reachable: bool = True


def look_at_task_queues(
    queues: Sequence[TaskQueue], settings: Settings
) -> list[QueueFinding]:
    """
    Return, for each of *queues*, whether a worker consumes it.

    Args:
        queues: Sorted by their connection.
        settings: Have the connections, and the deadline of each call.
    """
    found: list[QueueFinding] = []
    for name, group in groupby(queues, key=lambda each: each.connection):
        found += _look_at_connection(name, list(group), settings)
    return found


def _look_at_connection(
    name: str | None, queues: Sequence[TaskQueue], settings: Settings
) -> Iterator[QueueFinding]:
    rules = settings.task_rules
    asked: dict[str, TaskQueue] = {}
    for each in queues:
        try:
            rules.check_connection(name)
            asked[rules.read_queue(each.queue)] = each
        except RuleError as error:
            # Its name in the detail alone: subjects are in support bundles.
            detail = f"{error} Such as the action {each.example!r}."
            yield QueueFinding("tasks", detail, is_well=False)
    if not asked:
        return
    link = Link(settings, name)
    try:
        with link.connecting() as (app, connection):
            counts = _count_consumers(app, connection, list(asked))
            served = {queue for queue, (consumers, _) in counts.items() if consumers}
            known = _fetch_known(app, connection, served)
    except link.errors as error:
        said = str(error).strip().rstrip(".") or type(error).__name__
        detail = f"{said}. Start the broker, or correct MINUTEHAND_TASK_CONNECTIONS."
        yield QueueFinding(link.title, detail, is_well=False, is_reachable=False)
        return
    for queue, each in asked.items():
        unknown = [
            task for task in each.senders if task not in known.get(queue, {task})
        ]
        if unknown:
            yield QueueFinding(
                f"task queue {queue}",
                f"{_describe_unknown(link.title, queue, unknown)}, such as the action"
                f" {each.senders[unknown[0]]!r}",
                is_well=False,
            )
        else:
            yield _judge(link.title, queue, each, *counts[queue])


def describe_silence(
    settings: Settings, name: str | None, queue: str | None, task: str
) -> str | None:
    """
    Say why a task that was sent may never answer, as far as its broker can tell.

    Args:
        settings: Have the connection, and the deadline of each call.
        name: Name of the connection. None: our own broker.
        queue: Where it was sent. None: to an exchange.
        task: Its name.

    Returns:
        None if its queue has a worker that knows the task, or nobody can tell. Of an
        exchange, nobody knows the queues: then any worker will do.
    """
    if name is not None and name not in settings.task_connections:
        return f"connection {name!r} is no longer in MINUTEHAND_TASK_CONNECTIONS"
    link = Link(settings, name)
    try:
        with link.connecting() as (app, connection):
            if queue is None:
                return _describe_exchange(app, connection, link.title, task)
            (consumers, waiting) = _count_consumers(app, connection, [queue])[queue]
            if consumers == 0:
                left = "" if not waiting else f", where {waiting:,} wait"
                return (
                    f"no worker that answers takes queue {queue} ({link.title}){left}."
                    f" Start one: celery -A PROJECT worker -Q {queue}"
                )
            known = _fetch_known(app, connection, {queue})
            if task not in known.get(queue, {task}):
                return _describe_unknown(link.title, queue, [task])
    except link.errors:
        return None
    return None


def _describe_exchange(
    app: Celery, connection: Any, title: str, task: str
) -> str | None:
    inspect = app.control.inspect(timeout=_ANSWERS_WITHIN_S, connection=connection)
    registered = inspect.registered() or {}
    if not registered:
        return (
            f"no worker answers ({title}). Start one that takes a queue to which the"
            " exchange leads: celery -A PROJECT worker -Q QUEUE"
        )
    if any(task in _read_names(entries) for entries in registered.values()):
        return None
    return (
        f"no worker that answers ({title}) knows the task {task}: import its module"
        " there, or correct the name"
    )


def _read_names(registered: Collection[str]) -> set[str]:
    """Return the names of tasks that a worker has told."""
    # "name [rate_limit=10/m]": what is asked for stands behind the name
    return {entry.partition(" [")[0] for entry in registered}


def _describe_unknown(title: str, queue: str, tasks: Sequence[str]) -> str:
    listed = ", ".join(tasks[:_MOST_LISTED])
    return (
        f"no worker that takes queue {queue} ({title}) knows the task {listed}: import"
        " its module there, or correct the name"
    )


def _fetch_known(
    app: Celery, connection: Any, queues: Collection[str]
) -> dict[str, set[str]]:
    """
    Return the tasks that the workers of each of *queues* know, both ways asked of them.

    A queue is left out if none of its workers answers: then nobody can tell.
    """
    if not queues:
        return {}
    inspect = app.control.inspect(timeout=_ANSWERS_WITHIN_S, connection=connection)
    taken = inspect.active_queues() or {}
    registered = inspect.registered() or {}
    known: dict[str, set[str]] = {}
    for worker, entries in registered.items():
        names = _read_names(entries)
        for queue in (each["name"] for each in taken.get(worker, ())):
            if queue in queues:
                known.setdefault(queue, set()).update(names)
    return known


def _judge(
    title: str, queue: str, asked: TaskQueue, consumers: int, waiting: int | None
) -> QueueFinding:
    subject = f"task queue {queue}"
    if consumers:
        workers = "1 consumer" if consumers == 1 else f"{consumers} consumers"
        return QueueFinding(subject, f"{workers}, {title}", is_well=True)
    actions = (
        f"{asked.actions:,} actions send" if asked.actions > 1 else "1 action sends"
    )
    there = "it does not exist" if waiting is None else f"{waiting:,} waiting"
    detail = (
        f"no worker that answers consumes it ({title}; {there}). {actions} to it, such"
        f" as {asked.example!r}. Start a worker: celery -A PROJECT worker -Q {queue}"
    )
    return QueueFinding(subject, detail, is_well=False)


def _count_consumers(
    app: Celery, connection: Any, queues: Sequence[str]
) -> dict[str, tuple[int, int | None]]:
    """Return consumers and waiting messages of each queue; None: no such queue."""
    sizes = {queue: measure_queue(connection, queue) for queue in queues}
    if connection.transport.driver_type == "amqp":
        return {
            queue: (0, None) if size is None else (size.consumer_count, size[1])
            for queue, size in sizes.items()
        }
    inspect = app.control.inspect(timeout=_ANSWERS_WITHIN_S, connection=connection)
    answers = inspect.active_queues() or {}
    taken = [each["name"] for found in answers.values() for each in found]
    return {
        # Redis does not know an empty queue.
        queue: (taken.count(queue), 0 if size is None else size.message_count)
        for queue, size in sizes.items()
    }


def measure_queue(connection: Any, queue: str) -> Any:
    """Return the broker's figures of *queue*; None if there is no such queue."""
    # A channel of its own, because RabbitMQ closes it if there is no such queue.
    channel = connection.channel()
    try:
        return channel.queue_declare(queue, passive=True)
    except connection.channel_errors as error:
        # a number, or a text in kombu's own transports
        if str(getattr(error, "reply_code", "")) != _NOT_FOUND:
            raise
        return None
    finally:
        channel.close()


#: AMQP's code for a queue that does not exist.
_NOT_FOUND = "404"
