"""
Whether anybody takes the tasks that are sent to queues of others; asked by doctor.

RabbitMQ knows the consumers of a queue. Redis does not, so the workers are asked there,
as ``celery inspect active_queues`` does; those whose remote control is off do not
answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from celery import Celery

from actions.stored_task_queues import TaskQueue
from celery_app.task_sender import Link
from models.errors import RuleError
from settings import Settings

#: Workers have so long to answer; one that runs tasks in its main thread may not.
_ANSWERS_WITHIN_S = 1.5


@dataclass(frozen=True, slots=True)
class QueueFinding:
    """
    What became of a look at one queue.

    Args:
        subject: The queue and its connection, in words.

        detail: What was found, and what to do.

        is_well: Whether somebody takes what is sent there.

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
    Say of each of *queues* whether a worker takes what is sent to it.

    Args:
        queues: Sorted by their connection.

        settings: With the connections, and the deadline of each call.
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
            subject = f"tasks of {each.example}"
            yield QueueFinding(subject, str(error), is_well=False)
    if not asked:
        return
    link = Link(settings, name)
    try:
        with link.connecting() as (app, connection):
            counts = _count_consumers(app, connection, list(asked))
    except link.errors as error:
        said = str(error).strip().rstrip(".") or type(error).__name__
        detail = f"{said}. Start it, or mend MINUTEHAND_TASK_CONNECTIONS."
        yield QueueFinding(link.title, detail, is_well=False, is_reachable=False)
        return
    for queue, each in asked.items():
        yield _judge(link.title, queue, each, *counts[queue])


def _judge(
    title: str, queue: str, asked: TaskQueue, consumers: int, waiting: int | None
) -> QueueFinding:
    subject = f"task queue {queue}"
    if consumers:
        workers = "1 consumer" if consumers == 1 else f"{consumers} consumers"
        return QueueFinding(subject, f"{workers}, {title}", is_well=True)
    actions = f"{asked.actions:,} actions send" if asked.actions > 1 else "1 sends"
    there = "there is none of that name" if waiting is None else f"{waiting:,} wait"
    detail = (
        f"no worker that answers takes it ({title}; {there}). {actions} to it, such as"
        f" {asked.example}. Start one: celery -A PROJECT worker -Q {queue}"
    )
    return QueueFinding(subject, detail, is_well=False)


def _count_consumers(
    app: Celery, connection: Any, queues: Sequence[str]
) -> dict[str, tuple[int, int | None]]:
    """Return how many take each of *queues*, and what waits; None: no such queue."""
    sizes = {queue: _measure(connection, queue) for queue in queues}
    if connection.transport.driver_type == "amqp":
        return {
            queue: (0, None) if size is None else (size.consumer_count, size[1])
            for queue, size in sizes.items()
        }
    inspect = app.control.inspect(timeout=_ANSWERS_WITHIN_S, connection=connection)
    answers = inspect.active_queues() or {}
    taken = [each["name"] for found in answers.values() for each in found]
    return {
        # An empty queue is not there, for Redis.
        queue: (taken.count(queue), 0 if size is None else size.message_count)
        for queue, size in sizes.items()
    }


def _measure(connection: Any, queue: str) -> Any:
    """Return what the broker says of *queue*; None if it has none of that name."""
    # A channel of its own, for RabbitMQ closes it over a queue that is not there.
    channel = connection.channel()
    try:
        return channel.queue_declare(queue, passive=True)
    except connection.channel_errors as error:
        # a number, or as kombu's own transports have it, a text
        if str(getattr(error, "reply_code", "")) != _NOT_FOUND:
            raise
        return None
    finally:
        channel.close()


#: AMQP's word for what is not there.
_NOT_FOUND = "404"
