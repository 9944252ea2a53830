"""
Watch the queues from outside: how many messages there are, each millisecond.

A process of its own, so that what it sees is in Redis, whatever the scheduler
believes. Writes "ready"; when its standard input ends, a JSON array of
[monotonic seconds, messages], one entry for each change.
"""

from __future__ import annotations

import json
import select
import sys
import time

import redis

from celery_app.routing import find_broker_names
from models.operation_state import Queue

_EVERY_S = 0.001

#: Where messages may be: the queues of all, and the lanes of ours.
_KEYS = [name for queue in Queue for name in find_broker_names(queue, "")]


def watch(client: redis.Redis) -> list[tuple[float, int]]:
    """Return each change until standard input ends."""
    seen: list[tuple[float, int]] = [(time.monotonic(), 0)]
    while not select.select([sys.stdin], [], [], _EVERY_S)[0]:
        with client.pipeline(transaction=False) as pipeline:
            for key in _KEYS:
                pipeline.llen(key)
            total = sum(pipeline.execute())
        if total != seen[-1][1]:
            seen.append((time.monotonic(), total))
    return seen


if __name__ == "__main__":
    connection = redis.Redis.from_url(sys.argv[1])
    connection.ping()
    print("ready", flush=True)
    print(json.dumps(watch(connection)))
