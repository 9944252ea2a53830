"""
Minutehand as a peer of the dispatch benchmark: the real tick, on real servers.

Copied into the benchmark's ``peers/``; the checkout is found by the environment
variable BENCH_MINUTEHAND, or beside this file. Nine in ten actions are quick
(a task of the user's own), one in ten is heavy; each heavy one has a small app of
its own, since heavy operations of one app run one at a time.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ..common import is_due_index, payload, queue_of
from .base import BasePeer

sys.path.insert(0, os.environ.get("BENCH_MINUTEHAND", str(Path(__file__).parents[1])))

ZONES = ("Europe/Paris", "UTC", "America/New_York")


def rule_of(i: int, due: bool, minute: int) -> str:
    """As the references: some 180 distinct pairs of rule and zone."""
    if not due:
        return f"{minute} * * * *"
    if i % 2:
        return ("* * * * *", "*/1 * * * *", "0-59 * * * *")[i // 3 % 3]
    return f"* {','.join(map(str, range(24)))} * * *"


class Peer(BasePeer):
    notes = "lease, fence, record, send; two commits a chunk, fsync on"
    wakes_per_minute = 60.0

    def _url(self) -> str:
        return self.env.pg_url(driver="postgresql")

    def register(self) -> None:
        from migrations.schema import migrate
        from models.database.engine import make_engine

        engine = make_engine(self._url(), timeout=timedelta(minutes=10))
        migrate(engine)
        now = datetime.now(UTC).replace(second=0, microsecond=0)
        later = now + timedelta(minutes=30)
        with engine.begin() as connection:
            cursor = connection.connection.cursor()
            apps = [
                "app",
                *(f"app-{i}" for i in range(self.n) if queue_of(i) == "heavy"),
            ]
            with cursor.copy(
                "copy small_apps (uid, name, created_at, updated_at) from stdin"
            ) as copy:
                for app in apps:
                    copy.write_row((app, app, now, now))
            columns = [
                "uid",
                "app",
                "name",
                "revision",
                "document",
                "active",
                "queue",
                "overlap",
                "timing",
                "zone",
                "catch_up",
                "effective_from",
                "next_due_at",
                "created_at",
                "updated_at",
            ]
            with cursor.copy(
                f"copy scheduled_actions ({', '.join(columns)}) from stdin"
            ) as copy:
                for i in range(self.n):
                    due = is_due_index(i, self.n, self.fraction)
                    copy.write_row(self._row(i, due, now, later))
            cursor.execute(
                "insert into scheduled_action_revisions (uid, revision, document, "
                "timing, active, effective_from, change, recorded_at) "
                "select uid, revision, document, timing, active, effective_from, "
                "'posted', created_at from scheduled_actions"
            )
        with engine.connect() as connection:
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            connection.exec_driver_sql("VACUUM ANALYZE")
            if not self.fraction:
                # What is still to be written would disturb who is idle.
                connection.exec_driver_sql("CHECKPOINT")

    def _row(
        self, i: int, due: bool, now: datetime, later: datetime
    ) -> tuple[object, ...]:
        heavy = queue_of(i) == "heavy"
        rule = {
            "cron_rule": rule_of(i, due, (now.minute + 30) % 60),
            "timezone": ZONES[i % 3],
        }
        task = {"name": "bench.noop", "args": [], "kwargs": payload(i)}
        operations = {"run_task": task} | ({"publish": {"data": True}} if heavy else {})
        name = f"action {i}"
        document = {"name": name, "operations": operations, "when": rule}
        return (
            f"action-{i}",
            f"app-{i}" if heavy else "app",
            name,
            1,
            json.dumps(document),
            True,
            queue_of(i),
            "skip" if heavy else "allow",
            json.dumps({"when": [rule]}, separators=(",", ":")),
            "UTC",
            "none",
            now - timedelta(days=1),
            now if due else later,
            now,
            now,
        )

    def prepare(self) -> None:
        import scheduler_server  # noqa: F401
        from telemetry import configure_logging

        configure_logging(level="error")  # standard output is the harness's

    def load(self) -> None:
        from celery_app.app import app, make_config
        from scheduler_server import make_scheduler
        from settings import read_settings

        settings = read_settings(
            {
                "MINUTEHAND_DATABASE_URL": self._url(),
                "MINUTEHAND_BROKER_URL": self.env.redis_url,
                "MINUTEHAND_HOME": self.env.tmp,
                # the harness watches queues of these names, whoever fills them
                "MINUTEHAND_QUEUE_PREFIX": "none",
                "MINUTEHAND_APP_SHARE": "1",
            },
            env_file=None,
        )
        app.conf.update(make_config(settings))
        self.scheduler = make_scheduler(settings)
        self.scheduler.on_tick.clear()
        if not self.fraction:
            # ``warm`` is not called then: lead, connect, and make the statements now.
            self.idle()

    def warm(self) -> None:
        import kombu

        sender = self.scheduler.outbox.sender
        self.scheduler.leader.hold()
        with self.scheduler.engine.connect() as connection:
            # The minute of registration, lest a second one begins meanwhile.
            query = "select min(next_due_at) from scheduled_actions"
            self.due_at = connection.exec_driver_sql(query).scalar_one()
        sender.find_empty_queues()
        sender._producer.publish(
            {},
            routing_key="warm",
            exchange=kombu.Exchange("warm"),
            declare=[kombu.Queue("warm", kombu.Exchange("warm"), "warm")],
        )

    def run(self, due: int) -> None:
        self.scheduler.leader.hold()
        now = self.scheduler.read_clock()
        self.scheduler.tick(self.due_at if due else now)

    def idle(self) -> None:
        # a whole tick, though 59 of the 60 wakes of a minute are only a look
        self.run(0)

    def close(self) -> None:
        self.scheduler.stop()
