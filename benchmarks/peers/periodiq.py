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

from benchmarks.load import QUEUES, minutes_of, queue_of
from benchmarks.peers.peer import Peer, this_minute


def nothing() -> None:
    """Do nothing; this is what each actor is."""


class Periodiq(Peer):
    """With what dramatiq does to each message by default."""

    queues = tuple(f"dramatiq:{name}" for name in QUEUES)

    def register(self) -> None:
        """Do nothing: its schedules are code."""

    def load(self) -> None:
        """Declare an actor for each schedule, and make the scheduler."""
        broker = RedisBroker(url=self.servers.redis)
        broker.add_middleware(periodiq.PeriodiqMiddleware())
        now = this_minute()
        actors = [
            dramatiq.actor(
                nothing,
                actor_name=f"schedule_{number}",
                queue_name=queue_of(number),
                broker=broker,
                periodic=periodiq.cron(
                    f"{minutes_of(number, self.registered, self.due, now)} * * * *"
                ),
            )
            for number in range(self.registered)
        ]
        # The signal by which it wakes is the one by which we stop it.
        periodiq.sleep = periodiq.alarm = periodiq.signal = lambda *_: None
        self.scheduler = periodiq.Scheduler(actors)
        broker.client.ping()

    def send_due(self) -> None:
        """Send what is due in this minute, and look for the next."""
        self.scheduler.schedule()
