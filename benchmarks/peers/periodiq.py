"""
periodiq: periodic actors of the code, sent to Redis through dramatiq.

Driven: ``Scheduler.schedule`` without its sleep: it asks the rule of each actor whether
it holds now, sends those, and looks for the next instant at which one will. An actor is
sent without arguments, so its messages are shorter than those of others.
"""

from __future__ import annotations

import dramatiq
import periodiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.peers.peer import QUEUES, Peer


def nothing() -> None:
    """Do nothing; this is what each actor is."""


class Periodiq(Peer):
    """With what dramatiq does to each message by default."""

    queues = tuple(f"dramatiq:{name}" for name in QUEUES)

    def register(self) -> None:
        """Do nothing: its schedules are code."""

    def load(self) -> None:
        broker = RedisBroker(url=self.servers.redis)
        broker.add_middleware(periodiq.PeriodiqMiddleware())
        actors = [
            dramatiq.actor(
                nothing,
                actor_name=f"schedule_{each.number}",
                queue_name=each.queue,
                broker=broker,
                periodic=periodiq.cron(each.cron),
            )
            for each in self.schedules()
        ]
        # The signal by which it wakes is the one by which we stop it.
        periodiq.sleep = periodiq.alarm = periodiq.signal = lambda *_: None
        self.scheduler = periodiq.Scheduler(actors)
        broker.client.ping()

    def send_due(self) -> None:
        self.scheduler.schedule()
