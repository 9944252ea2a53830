"""
How tasks of users' own tell us of their end, by Celery's own means.

A task is sent with two callbacks, as a canvas would have them: ``link`` and
``link_error``. Their worker sends the first when the task has succeeded, and the second
when it has failed for the last time, to a queue of ours on their own broker, and needs
no line of code for that. The callbacks are never run as tasks: only their headers and
the returned value are read.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from pydantic import JsonValue

from models.run_task import OUR_HEADERS
from operations.foreign_tasks import Answer, ForeignTask
from telemetry import Event

log = structlog.get_logger()

#: The names of the callbacks, which no worker has as a task.
SUCCEEDED = "minutehand.task_succeeded"
FAILED = "minutehand.task_failed"

#: Header of an answer: which wait it is for.
TOKEN = f"{OUR_HEADERS}token"

#: Characters of JSON of a returned value that are kept.
LONGEST_VALUE = 4_000

#: Bytes of a body that is decoded at all.
LARGEST_BODY = 1_000_000

#: Lists and objects within each other: so deep, nothing that handles a value fails.
DEEPEST = 100


def make_links(task: ForeignTask, answers: str) -> dict[str, Any]:
    """
    Return the callbacks of *task*, for Celery's ``as_task_v2``.

    Args:
        task: With a token.

        answers: The queue to which they are sent.
    """
    return {
        "callbacks": [_make_link(SUCCEEDED, task, answers)],
        "errbacks": [_make_link(FAILED, task, answers)],
    }


def _make_link(name: str, task: ForeignTask, answers: str) -> dict[str, Any]:
    return {
        "task": name,
        "args": [],
        "kwargs": {},
        "options": {
            # Not by the name of the queue: their Celery would declare it, as it makes
            # its own queues, and RabbitMQ would refuse that. Of the default exchange,
            # Celery would take the key of a direct one for their own default queue.
            "exchange": "",
            "exchange_type": "topic",
            "routing_key": answers,
            "headers": {TOKEN: str(task.token)},
            "priority": 0,
        },
        "subtask_type": None,
        # An immutable callback is not given the returned value.
        "immutable": not task.with_value,
    }


def declare_answers(connection: Any, queue: str) -> None:
    """Make the queue of answers, durable, unless it exists."""
    connection.default_channel.queue_declare(queue, durable=True, auto_delete=False)


def take_answers(
    connection: Any, queue: str, keep: Callable[[Answer], object], *, limit: int
) -> int:
    """
    Give *keep* the answers in *queue*; each is taken off after *keep* has returned.

    So none is lost if this process dies; two that read at once may both be given one.

    Returns:
        How many messages were taken off, at most *limit*.
    """
    channel = connection.default_channel
    is_amqp = connection.transport.driver_type == "amqp"
    look = _look_at_rabbit if is_amqp else _look_at_redis
    for taken in range(limit):
        found = look(channel, queue)
        if found is None:
            return taken
        message, take_off = found
        answer = read_answer(message)
        if answer is None:
            log.warning(Event.MESSAGE_DROPPED, queue=queue, error="not an answer")
        else:
            keep(answer)
        take_off()
    return limit


@dataclass(frozen=True, slots=True)
class Message:
    """What came from somebody's broker; anything may be in it."""

    headers: Any
    content_type: Any
    body: bytes


#: A message, and what takes it off the queue.
_Found = tuple[Message, Callable[[], object]]


def _look_at_rabbit(channel: Any, queue: str) -> _Found | None:
    got = channel.basic_get(queue, no_ack=False)
    if got is None:
        return None
    body = got.body if isinstance(got.body, bytes) else str(got.body).encode()
    message = Message(got.headers, got.content_type, body)
    return message, partial(channel.basic_ack, got.delivery_tag)


def _look_at_redis(channel: Any, queue: str) -> _Found | None:
    """Look at the message that is next: Redis itself has no acknowledgements."""
    client = channel.client
    text = client.lindex(queue, -1)
    if text is None:
        return None
    try:
        raw = json.loads(text)
        body = b64decode(raw["body"])
        message = Message(raw["headers"], raw["content-type"], body)
    except (ValueError, KeyError, TypeError, RecursionError):
        message = Message(None, None, b"")
    return message, partial(client.lrem, queue, -1, text)


def read_answer(message: Message) -> Answer | None:
    """
    Return what *message* tells of a task; None if it is no answer.

    Whether somebody waits for it is for ``task_waits`` to say.
    """
    if not isinstance(message.headers, dict):
        return None
    name = message.headers.get("task")
    if not isinstance(name, str) or name not in {SUCCEEDED, FAILED}:
        return None
    try:
        token = UUID(str(message.headers.get(TOKEN)))
    except ValueError:
        return None
    if name == FAILED:
        return Answer(token, succeeded=False)
    value, note = _read_value(message)
    return Answer(token, succeeded=True, returned=value, note=note)


def _find_depth(body: bytes) -> int:
    """Return how many brackets are open at most; those in texts count, too."""
    depth = deepest = 0
    for each in body:
        if each in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif each in b"]}":
            depth -= 1
    return deepest


def _read_value(message: Message) -> tuple[JsonValue, str | None]:
    """Return what the task returned, and what is to be said of it."""
    if message.content_type != "application/json":
        # Only JSON is decoded: pickle would run what its sender likes.
        return None, f"returned {str(message.content_type)[:100]}, which is not read"
    if len(message.body) > LARGEST_BODY:
        return None, f"returned {len(message.body):,} bytes, which are not kept"
    if _find_depth(message.body) > DEEPEST:
        return None, f"returned more than {DEEPEST} lists or objects within each other"
    try:
        args = json.loads(message.body)[0]
        value: JsonValue = args[0] if args else None
        text = json.dumps(value)
    except (ValueError, LookupError, TypeError, RecursionError):
        return None, "returned what is not JSON"
    if len(text) > LONGEST_VALUE:
        return text[:LONGEST_VALUE], f"returned {len(text):,} letters of JSON; cut"
    return value, None
