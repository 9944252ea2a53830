"""Minutehand: the real tick with lease, fence and outbox, on PostgreSQL and Redis."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import psycopg

from benchmarks.load import TASK, arguments_of, is_due, minutes_of, queue_of
from benchmarks.peers.peer import Peer, this_minute
from celery_app.app import app, make_config
from celery_app.routing import find_broker_names
from migrations.schema import migrate
from models.database.engine import make_engine
from models.operation_state import WORKER_QUEUES
from scheduler_server import make_scheduler
from settings import Settings, read_settings
from telemetry import configure_logging

_COLUMNS = (
    *("uid", "app", "name", "revision", "document", "active", "queue", "overlap"),
    *("timing", "zone", "catch_up", "effective_from", "next_due_at"),
    *("created_at", "updated_at"),
)

_REVISIONS = """
    insert into scheduled_action_revisions (uid, revision, document, timing, active,
        effective_from, change, recorded_at)
    select uid, revision, document, timing, active, effective_from, 'posted', created_at
    from scheduled_actions
    on conflict do nothing
"""


class Minutehand(Peer):
    """As installed; each heavy action has a small app of its own, see docs."""

    most = 10_000_000
    looks_a_minute = 59.0
    queues = tuple(
        name for queue in WORKER_QUEUES for name in find_broker_names(queue, "")
    )

    #: Of a schedule by its number.
    queue_of = staticmethod(queue_of)

    def app_of(self, number: int) -> str:
        """Return the small app of a schedule by its number."""
        return f"app {number}" if self.queue_of(number) == "heavy" else "app"

    def register(self) -> None:
        """Store actions as ``actions post`` stores them, but with COPY."""
        self.register_from(this_minute())

    def register_from(self, now: datetime) -> None:
        """Store actions that are due from the minute *now* on."""
        engine = make_engine(self.servers.postgres, timeout=timedelta(minutes=10))
        migrate(engine)
        engine.dispose()
        apps = {self.app_of(number) for number in range(self.registered)}
        with psycopg.connect(self.servers.dsn) as connection:
            cursor = connection.cursor()
            with cursor.copy(
                "copy small_apps (uid, name, created_at, updated_at) from stdin"
            ) as copy:
                for uid in sorted(apps):
                    copy.write_row((uid, uid, now, now))
            with cursor.copy(
                f"copy scheduled_actions ({', '.join(_COLUMNS)}) from stdin"
            ) as copy:
                for row in self._rows(now):
                    copy.write_row(row)
            cursor.execute(_REVISIONS)
        with psycopg.connect(self.servers.dsn, autocommit=True) as connection:
            connection.execute("vacuum analyze")
            if not self.due:
                # What is still to be written would disturb who is idle.
                connection.execute("checkpoint")

    def _rows(self, now: datetime) -> Iterator[tuple[Any, ...]]:
        later = now + timedelta(minutes=30)
        for number in range(self.registered):
            queue = self.queue_of(number)
            heavy = queue == "heavy"
            minute = minutes_of(number, self.registered, self.due, now)
            rule = {"cron_rule": f"{minute} * * * *", "timezone": "Europe/Paris"}
            steps: dict[str, object] = {"publish": {"data": True}} if heavy else {}
            steps["run_task"] = {"name": TASK, "kwargs": arguments_of(number)}
            document = {"name": f"action {number}", "operations": steps, "when": rule}
            due = is_due(number, self.registered, self.due)
            yield (
                f"action-{number}",
                self.app_of(number),
                document["name"],
                1,
                json.dumps(document),
                True,
                queue,
                "skip" if heavy else "allow",
                json.dumps({"when": [rule]}, separators=(",", ":")),
                "UTC",
                "none",
                now - timedelta(days=1),
                now if due else later,
                now,
                now,
            )

    def load(self) -> None:
        """Start a scheduler and let it lead, connected to its servers."""
        configure_logging(level="error")
        settings = self._make_settings()
        app.conf.update(make_config(settings))
        self.scheduler = make_scheduler(settings)
        self.scheduler.on_tick.clear()
        assert self.scheduler.leader.hold(), "another scheduler leads"
        self.scheduler.dispatcher.rescue()
        # The minute of registration, lest a second one begins meanwhile.
        with psycopg.connect(self.servers.dsn) as connection:
            query = "select min(next_due_at) from scheduled_actions"
            self.due_at = connection.execute(query).fetchall()[0][0]

    def _make_settings(self) -> Settings:
        return read_settings(
            {
                "MINUTEHAND_DATABASE_URL": self.servers.postgres,
                "MINUTEHAND_BROKER_URL": self.servers.redis,
                # benchmarks/watch.py looks at queues of these names, whoever fills them
                "MINUTEHAND_QUEUE_PREFIX": "none",
            },
            env_file=None,
        )

    def send_due(self) -> None:
        """Tick, as at the beginning of a minute."""
        assert self.scheduler.leader.hold(), "another scheduler leads"
        now = self.scheduler.read_clock()
        self.scheduler.tick(self.due_at if self.due else now)

    def look(self) -> None:
        """Keep the lease, and look for what waits or was lost."""
        self.scheduler.leader.hold()
        self.scheduler.upkeep.look(until=self.scheduler.monotonic() + 1)

    def close(self) -> None:
        """Give the lease away."""
        self.scheduler.stop()
