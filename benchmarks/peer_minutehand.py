"""
Minutehand as a peer of the dispatch benchmark: the real tick, on real servers.

Copied into the benchmark's ``peers/``; the checkout is found by the environment
variable BENCH_MINUTEHAND, or beside this file. Nine in ten actions are quick and one
in ten is heavy, through our own queues; with BENCH_STRAIGHT set, all are a task of a
project's own, which goes straight to its queue.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta
from pathlib import Path

from ..common import TASK, is_due_index, payload, queue_of
from .base import BasePeer

sys.path.insert(0, os.environ.get("BENCH_MINUTEHAND", str(Path(__file__).parents[1])))

from benchmarks.peers import minutehand as ours  # noqa: E402 - from the checkout
from benchmarks.servers import Servers  # noqa: E402

ZONES = ("Europe/Paris", "UTC", "America/New_York")

Base = ours.Minutehand if os.environ.get("BENCH_STRAIGHT") else ours.MinutehandSteps


class Actions(Base):  # type: ignore[misc, valid-type]
    """The benchmark's own schedules: some 180 distinct pairs of rule and zone."""

    fraction = 0.0
    # one lane of our queues: the harness knows no other
    more_settings = {"MINUTEHAND_APP_SHARE": "1"}

    def queue_of(self, number: int) -> str:
        return queue_of(number)

    def is_due(self, number: int) -> bool:
        return is_due_index(number, self.registered, self.fraction)

    def rule_of(self, number: int, now: datetime) -> dict[str, str]:
        if not self.is_due(number):
            rule = f"{(now + timedelta(minutes=30)).minute} * * * *"
        elif number % 2:
            rule = ("* * * * *", "*/1 * * * *", "0-59 * * * *")[number // 3 % 3]
        else:
            rule = f"* {','.join(map(str, range(24)))} * * *"
        return {"cron_rule": rule, "timezone": ZONES[number % 3]}

    def steps_of(self, number: int) -> dict[str, object]:
        steps = super().steps_of(number)
        steps["run_task"] |= {"name": TASK, "args": [], "kwargs": payload(number)}
        return steps


class Peer(BasePeer):
    notes = "lease, fence, record, send; two commits a chunk, fsync on"
    wakes_per_minute = 60.0

    def __init__(self, env, n: int, fraction: float) -> None:
        super().__init__(env, n, fraction)
        url = env.pg_url(driver="postgresql+psycopg")
        self.actions = Actions(Servers(url, env.redis_url), n, round(n * fraction))
        self.actions.fraction = fraction

    def register(self) -> None:
        self.actions.register()

    def prepare(self) -> None:
        import scheduler_server  # noqa: F401

    def load(self) -> None:
        self.actions.load()

    def warm(self) -> None:
        """Send one message elsewhere: a running scheduler has its connections."""
        import kombu

        sender = self.actions.scheduler.outbox.sender
        sender.find_empty_queues()
        queue = kombu.Queue("warm", kombu.Exchange("warm"), "warm")
        sender._producer.publish(
            {}, routing_key="warm", exchange=queue.exchange, declare=[queue]
        )

    def run(self, due: int) -> None:
        self.actions.send_due()

    def idle(self) -> None:
        # a whole tick, though 59 of the 60 wakes of a minute are only a look
        self.run(0)

    def close(self) -> None:
        self.actions.close()
