"""Minutehand: the real tick with lease, fence and outbox, on PostgreSQL and Redis."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import psycopg

from benchmarks.peers.peer import (
    AWAY,
    TASK,
    Peer,
    arguments_of,
    is_due,
    minute_of,
    queue_of,
    this_minute,
)
from celery_app.app import app, make_config
from celery_app.routing import find_broker_names
from migrations.schema import migrate
from models.database.engine import make_engine
from models.operation_state import WORKER_QUEUES, Overlap, Queue
from scheduler_server import Scheduler
from settings import read_settings
from telemetry import configure_logging

_APPS = """
    insert into small_apps (uid, name, created_at, updated_at)
    values (%s, %s, now(), now())
"""
_ACTIONS = """
    copy scheduled_actions (uid, app, name, revision, document, active, queue, overlap,
        timing, zone, catch_up, effective_from, next_due_at, created_at, updated_at)
    from stdin
"""
_REVISIONS = """
    insert into scheduled_action_revisions (uid, revision, document, timing, active,
        effective_from, change, recorded_at)
    select uid, revision, document, timing, active, effective_from, 'posted', created_at
    from scheduled_actions
    on conflict do nothing
"""


class Minutehand(Peer):
    """As installed: tasks of the user's own, straight to their workers' queues."""

    most = 10_000_000
    looks_a_minute = 59.0

    #: As our own queues are called on the broker, before a dot.
    prefix = "minutehand"

    more_settings: Mapping[str, str] = {}

    def queue_of(self, number: int) -> str:
        return queue_of(number)

    def app_of(self, number: int) -> str:  # noqa: ARG002 - for others, see below
        return "app"

    def is_due(self, number: int) -> bool:
        return is_due(number, self.registered, self.due)

    def rule_of(self, number: int, now: datetime) -> dict[str, str]:
        minute = minute_of(now, is_due=self.is_due(number))
        return {"cron_rule": f"{minute} * * * *", "timezone": "Europe/Paris"}

    def steps_of(self, number: int) -> dict[str, object]:
        queue = self.queue_of(number)
        task = {"name": TASK, "kwargs": arguments_of(number), "queue": queue}
        # As a door writes it, which lets its answer end the operation.
        return {"run_task": {**task, "wait": True}}

    def row_of(self, number: int) -> tuple[str, str]:  # noqa: ARG002 - for others
        return Queue.TASKS.value, Overlap.ALLOW.value

    def register(self) -> None:
        self.register_from(this_minute())

    def register_from(self, now: datetime) -> None:
        engine = make_engine(self.servers.postgres, timeout=timedelta(minutes=10))
        migrate(engine)
        engine.dispose()
        apps = {self.app_of(number) for number in range(self.registered)}
        with psycopg.connect(self.servers.dsn) as connection:
            cursor = connection.cursor()
            cursor.executemany(_APPS, [(uid, uid) for uid in sorted(apps)])
            with cursor.copy(_ACTIONS) as copy:
                for row in self._rows(now):
                    copy.write_row(row)
            cursor.execute(_REVISIONS)
        with psycopg.connect(self.servers.dsn, autocommit=True) as connection:
            connection.execute("vacuum analyze")
            if not self.due:
                # What is still to be written would disturb who is idle.
                connection.execute("checkpoint")

    def _rows(self, now: datetime) -> Iterator[tuple[Any, ...]]:
        for number in range(self.registered):
            rule, name = self.rule_of(number, now), f"action {number}"
            queue, overlap = self.row_of(number)
            document = {"name": name, "operations": self.steps_of(number), "when": rule}
            timing = json.dumps({"when": [rule]}, separators=(",", ":"))
            due_at = now if self.is_due(number) else now + AWAY
            yield (
                *(f"action-{number}", self.app_of(number), name, 1),
                *(json.dumps(document), True, queue, overlap),
                *(timing, "UTC", "none", now - timedelta(days=1), due_at, now, now),
            )

    def load(self) -> None:
        configure_logging(level="error")
        settings = read_settings(
            {
                **self.servers.settings,
                "MINUTEHAND_QUEUE_PREFIX": self.prefix,
                **self.more_settings,
            },
            env_file=None,
        )
        app.conf.update(make_config(settings))
        self.scheduler = Scheduler.make(settings)
        self.scheduler.on_tick.clear()
        assert self.scheduler.leader.hold(), "another scheduler leads"
        # What it does between two ticks, as long as there is something.
        self.scheduler.upkeep.look(until=self.scheduler.monotonic() + 60)
        # The minute of registration, lest a second one begins meanwhile.
        with psycopg.connect(self.servers.dsn) as connection:
            query = "select min(next_due_at) from scheduled_actions"
            self.due_at = connection.execute(query).fetchall()[0][0]

    def send_due(self) -> None:
        assert self.scheduler.leader.hold(), "another scheduler leads"
        now = self.scheduler.read_clock()
        self.scheduler.tick(self.due_at if self.due else now)
        # What couriers have not taken yet goes with the looks until the next minute.
        while self.scheduler.outbox.tasks.in_hand:
            self.look()

    def look(self) -> None:
        self.scheduler.leader.hold()
        self.scheduler.upkeep.look(until=self.scheduler.monotonic() + 1)

    def close(self) -> None:
        self.scheduler.stop()


class MinutehandSteps(Minutehand):
    """
    Operations with steps of ours, which go to our workers.

    Each heavy action has a small app of its own, for heavy operations of one app run
    one at a time.
    """

    # benchmarks/watch.py looks at queues of these names, whoever fills them
    prefix = "none"
    queues = tuple(
        name for queue in WORKER_QUEUES for name in find_broker_names(queue, "")
    )

    def app_of(self, number: int) -> str:
        return f"app {number}" if self.queue_of(number) == "heavy" else "app"

    def steps_of(self, number: int) -> dict[str, object]:
        task = {"run_task": {"name": TASK, "kwargs": arguments_of(number)}}
        is_heavy = self.queue_of(number) == "heavy"
        return {"publish": {"data": True}, **task} if is_heavy else dict(task)

    def row_of(self, number: int) -> tuple[str, str]:
        queue = self.queue_of(number)
        return queue, (Overlap.SKIP if queue == "heavy" else Overlap.ALLOW).value
