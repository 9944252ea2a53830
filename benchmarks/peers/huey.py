"""
huey: periodic tasks of the code, sent to Redis by the scheduler of its consumer.

Driven: ``Scheduler.enqueue_periodic_tasks`` of its consumer, which asks the rule of
each task whether it holds in this minute, and pushes a message for those where it does.
Its loop does so once a minute, and looks each second for tasks that were put off. Each
queue has a consumer; here one process drives both. A periodic task takes no arguments,
so its messages are shorter than those of others.
"""

from __future__ import annotations

import threading

from huey import RedisHuey, crontab
from huey.consumer import Scheduler

from benchmarks.peers.peer import QUEUES, Peer


def nothing() -> None:
    """Do nothing; this is what each task is."""


class Huey(Peer):
    """A Huey for each queue, in this one process."""

    looks_a_minute = 60.0
    queues = tuple(f"huey.redis.{name}" for name in QUEUES)

    def load(self) -> None:
        hueys = {
            queue: RedisHuey(queue, url=self.servers.redis, immediate=False)
            for queue in QUEUES
        }
        for each in self.schedules():
            declare = hueys[each.queue].periodic_task
            rule, name = crontab(minute=each.minute), f"schedule_{each.number}"
            declare(rule, name=name)(nothing)
        self.schedulers = [
            Scheduler(huey, threading.Event(), interval=1, periodic=True)
            for huey in hueys.values()
        ]
        self.look()

    def send_due(self) -> None:
        for scheduler in self.schedulers:
            scheduler.enqueue_periodic_tasks(None)

    def look(self) -> None:
        for scheduler in self.schedulers:
            scheduler.huey.read_schedule()
