"""
How tasks of users' own tell us of their end, by Celery's own means.

A task is sent with two callbacks, as a canvas would have them: ``link`` and
``link_error``. Their worker sends the first when the task has succeeded, and the second
when it has failed for the last time, to a queue of ours on their own broker, and needs
no line of code for that. The callbacks are never run as tasks: only their headers and
the returned value are read.

An answer says that a task has failed, not why. That is in the result backend of its
project, if that is a Redis whose address we have.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import redis
from pydantic import JsonValue
from redis.backoff import NoBackoff
from redis.retry import Retry

from models.database.plain_json import make_plain_text
from models.run_task import OUR_HEADERS
from operations.foreign_tasks import ForeignTask, TaskAnswer

#: The names of the callbacks.
SUCCEEDED = "minutehand.task_succeeded"
FAILED = "minutehand.task_failed"

#: Header of an answer: which wait it is for.
TOKEN = f"{OUR_HEADERS}token"

#: Header of an answer: the name of the callback. Messages of Celery's first protocol
#: have it in their body alone, which may be one that is not read; and that of a failure
#: has another.
CALLBACK = f"{OUR_HEADERS}callback"

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
        "errbacks": [_shield(_make_link(FAILED, task, answers))],
    }


def _shield(link: dict[str, Any]) -> dict[str, Any]:
    """
    Return a callback that sends *link*, and that a worker may also run itself.

    So does one with ``task_always_eager``: it would end its connection over a task that
    it does not know, and take the message again. So the answer has the name of a task
    that is in every worker and does nothing; but called as a callback, that one would
    be run by all of them, and a chain is sent.
    """
    return {
        "task": "celery.chain",
        "subtask_type": "chain",
        "args": [],
        "kwargs": {"tasks": [{**link, "task": "celery.accumulate", "immutable": True}]},
        "options": {},
        "immutable": True,
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
            "headers": {TOKEN: task.token, CALLBACK: name},
            "priority": 0,
        },
        "subtask_type": None,
        # An immutable callback is not given the returned value.
        "immutable": not task.with_value,
    }


@dataclass(frozen=True, slots=True)
class AnswerMessage:
    """
    What came from somebody's broker; anything may be in it.

    Args:
        is_cut: Whether the body is too large to be read, and is left out.
    """

    headers: Any
    content_type: Any
    body: bytes
    is_cut: bool = False


def read_answer(message: AnswerMessage) -> TaskAnswer | None:
    """
    Return what *message* tells of a task; None if it is no answer.

    Whether somebody waits for it is for ``task_ends`` to say.
    """
    if not isinstance(message.headers, dict):
        return None
    names = [message.headers.get(key) for key in ("task", CALLBACK)]
    name = next((each for each in names if each in (SUCCEEDED, FAILED)), None)
    if name is None:
        return None
    token = message.headers.get(TOKEN)
    if not isinstance(token, str):
        return None
    if name == FAILED:
        return TaskAnswer(token, succeeded=False)
    value, note = _read_value(message)
    return TaskAnswer(token, succeeded=True, returned=value, note=note)


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


def _read_value(message: AnswerMessage) -> tuple[JsonValue, str | None]:
    """Return what the task returned, and what is to be said of it."""
    if message.content_type != "application/json":
        # Only JSON is decoded: pickle would run what its sender likes.
        return None, f"returned {str(message.content_type)[:100]}, which is not read"
    if message.is_cut or len(message.body) > LARGEST_BODY:
        return None, f"returned more than {LARGEST_BODY:,} bytes, which are not kept"
    if method := message.headers.get("compression"):
        # A few bytes may stand for however many.
        return None, f"returned what is compressed as {str(method)[:100]}"
    return _read_json(message.body)


def _read_json(body: bytes) -> tuple[JsonValue, str | None]:
    if _find_depth(body) > DEEPEST:
        return None, f"returned more than {DEEPEST} lists or objects within each other"
    try:
        told = json.loads(body)
        args = told["args"] if isinstance(told, dict) else told[0]  # first protocol
        value: JsonValue = args[0] if args else None
        text = json.dumps(value)
    except (ValueError, LookupError, TypeError, RecursionError):
        return None, "returned what is not JSON"
    if len(text) > LONGEST_VALUE:
        return text[:LONGEST_VALUE], f"returned {len(text):,} letters of JSON; cut"
    return value, None


# -- why it failed ---------------------------------------------------------------

#: Begins the key of each result.
_KEY = "celery-task-meta-"

#: Bytes of a result that are read, most of which is the traceback.
_MOST_BYTES = 256_000

#: Letters of an error that are told.
_LONGEST = 1_000


def fetch_failure(url: str, task_id: str, *, timeout_s: float) -> str | None:
    """
    Return the error of a task that failed, in a line; None if there is none.

    Args:
        url: Of a Redis.
        task_id: Of the task.
        timeout_s: For each of two calls.

    Raises:
        redis.RedisError, OSError: It cannot be asked.
    """
    with _open_redis(url, timeout_s) as client:
        return read_failure(client.getrange(_KEY + task_id, 0, _MOST_BYTES))


def _open_redis(url: str, timeout_s: float) -> redis.Redis:
    """
    Return a client of a Redis, which tries each call once.

    Args:
        url: As kombu writes it; redis-py writes sockets otherwise.
        timeout_s: For each of connecting and a call.
    """
    if url.startswith("redis+socket"):
        url = url.replace("redis+socket", "unix", 1).replace("virtual_host=", "db=")
    once = Retry(NoBackoff(), 0)
    return redis.Redis.from_url(
        url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=once
    )


def read_failure(stored: bytes) -> str | None:
    """
    Return the error that Celery has *stored* as JSON; anything may be in it.

    >>> read_failure(b'{"status": "FAILURE", "result": {"exc_type": "ValueError",'
    ...              b' "exc_message": ["no such shop"], "exc_module": "builtins"}}')
    'ValueError: no such shop'
    """
    try:
        meta = json.loads(stored)
        if meta["status"] != "FAILURE":
            return None
        kind, said = meta["result"]["exc_type"], meta["result"]["exc_message"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    parts = said if isinstance(said, list) else [said]
    words = ", ".join(str(part) for part in parts)
    text = f"{kind}: {words}" if words else str(kind)
    line = " ".join(make_plain_text(text).split())
    return f"{line[:_LONGEST]}..." if len(line) > _LONGEST else line
