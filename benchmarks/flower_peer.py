"""
Flower, and the tasks that it keeps: what benchmarks/api_lists.py measures beside ours.

It keeps tasks in memory, at most ``--max-tasks`` (100,000 by default), and knows only
those whose events came while it ran. So the events of as many tasks are sent to it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psutil
import redis
from celery import Celery

from benchmarks.load import TASK, arguments_of
from benchmarks.servers import Servers
from benchmarks.web import Client
from tests.servers import find_free_port, run_process, wait_for_port, wait_until

#: What it keeps unless it is told otherwise.
MOST = 100_000

#: Sent at once; more, and Redis cuts it off as a subscriber that is too slow.
_BATCH = 2000

#: One task in so many failed.
_FAILED = 50


@dataclass(frozen=True, slots=True)
class Flower:
    """
    A Flower that runs.

    Args:
        kept: Tasks that it keeps.

        newest: Ids of some of the last that it was told of.
    """

    url: str
    process: psutil.Process
    kept: int
    newest: tuple[str, ...]


@contextmanager
def run_flower(servers: Servers, tasks: int = MOST) -> Iterator[Flower]:
    """Run Flower for the length of the block, and tell it of *tasks*."""
    port = find_free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "celery", "-b", servers.redis, "flower"),
            *("--address=127.0.0.1", f"--port={port}", "--logging=error"),
        ]
        environment = {**os.environ, "FLOWER_UNAUTHENTICATED_API": "true"}
        log = Path(folder) / "flower.log"
        with run_process(command, log=log, environ=environment) as process:
            wait_for_port(port, process, log=log)
            client = Client(url)
            with redis.Redis.from_url(servers.redis) as broker:
                # What is sent before it listens is lost.
                wait_until(broker.pubsub_numpat, what="Flower to listen for events")
            ids = _tell(servers, client, tasks)
            kept = len(json.loads(client.ask("/api/tasks").body))
            client.close()
            yield Flower(url, psutil.Process(process.pid), kept, tuple(ids[-100:]))


def _tell(servers: Servers, client: Client, count: int) -> list[str]:
    """Send the events of *count* tasks, as workers do, and wait until all are there."""
    app = Celery("benchmark", broker=servers.redis, set_as_current=False)
    ids = [str(uuid4()) for _ in range(count)]
    with app.connection_for_write() as connection:
        events = app.events.Dispatcher(connection, hostname="worker@host")
        for first in range(0, count, _BATCH):
            batch = ids[first : first + _BATCH]
            for number, task_id in enumerate(batch, first):
                at = time.time()
                events.send(
                    "task-received",
                    uuid=task_id,
                    name=f"{TASK}_{number % 20}",
                    args="[]",
                    kwargs=repr(arguments_of(number)),
                    retries=0,
                    timestamp=at,
                )
                end, told = "task-succeeded", {"result": "'done'", "runtime": 0.1}
                if number % _FAILED == 0:
                    end = "task-failed"
                    told = {"exception": "ValueError()", "traceback": "..."}
                events.send(end, uuid=task_id, timestamp=at, **told)
            _wait_for(client, batch[-1])
    return ids


def _wait_for(client: Client, task_id: str) -> None:
    def is_known() -> bool:
        return client.ask(f"/api/task/info/{task_id}").status == 200

    wait_until(is_known, timeout_s=60, every_s=0.05, what="Flower to take the events")
