"""
Why a task of somebody's own failed, from its result backend, if that is a Redis.

The answer of Celery says that a task has failed, not why. What is in the backend is
written by others: little of it is read, and no class in it is imported, as Celery's own
reader does.
"""

from __future__ import annotations

import json

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from celery_app.redis_cluster import make_client_url
from models.database.plain_json import make_plain_text

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
    with redis.Redis.from_url(
        make_client_url(url),
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
    ) as client:
        return read_failure(client.getrange(_KEY + task_id, 0, _MOST_BYTES))


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
