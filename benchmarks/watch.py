"""
Watch the queues from outside: how many messages there are, each millisecond.

A process of its own, so that what it sees is in Redis or PostgreSQL, whatever the
scheduler believes: ``python -m benchmarks.watch URL WHAT...``, the lists of a Redis or
a query that counts. Writes "ready"; when its standard input ends, a JSON array of
[monotonic seconds, messages], one entry for each change.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Callable, Sequence

import psycopg
import redis

_EVERY_S = 0.001


def make_count(url: str, what: Sequence[str]) -> Callable[[], int]:
    """Return what counts the messages at *url*, connected to it."""
    if url.startswith("redis"):
        client = redis.Redis.from_url(url)
        client.ping()
        return lambda: _count_lists(client, what)
    connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)
    return lambda: connection.execute(what[0]).fetchall()[0][0]


def _count_lists(client: redis.Redis, keys: Sequence[str]) -> int:
    with client.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.llen(key)
        return sum(pipeline.execute())


def watch(count: Callable[[], int]) -> list[tuple[float, int]]:
    """Return each change until standard input ends."""
    seen: list[tuple[float, int]] = [(time.monotonic(), 0)]
    while not select.select([sys.stdin], [], [], _EVERY_S)[0]:
        total = count()
        if total != seen[-1][1]:
            seen.append((time.monotonic(), total))
    return seen


if __name__ == "__main__":
    counter = make_count(sys.argv[1], sys.argv[2:])
    print("ready", flush=True)
    print(json.dumps(watch(counter)))
