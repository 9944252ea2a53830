"""
Watch the queues from outside: how many messages there are, each millisecond.

A process of its own, so that what it sees is in Redis, whatever the scheduler believes:
``python -m benchmarks.watch URL LIST...``. Writes "ready"; when its standard input
ends, a JSON array of [monotonic seconds, messages], one entry for each change.
"""

from __future__ import annotations

import json
import select
import sys
import time

import redis

_EVERY_S = 0.001


def count(client: redis.Redis, keys: list[str]) -> int:
    with client.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.llen(key)
        return sum(pipeline.execute())


if __name__ == "__main__":
    _, url, *lists = sys.argv
    client = redis.Redis.from_url(url)
    client.ping()
    print("ready", flush=True)
    seen = [(time.monotonic(), 0)]
    while not select.select([sys.stdin], [], [], _EVERY_S)[0]:
        if (total := count(client, lists)) != seen[-1][1]:
            seen.append((time.monotonic(), total))
    print(json.dumps(seen))
