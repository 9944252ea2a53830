"""celery-redbeat: schedules and lock in Redis. It keeps no record of what ran."""

from __future__ import annotations

import json

from celery import signals
from celery.beat import Service
from celery.schedules import crontab

from benchmarks.load import TASK, arguments_of, is_due, minutes_of, queue_of
from benchmarks.peers.celery_beat import BeatPeer
from benchmarks.peers.peer import long_ago, this_minute


class RedBeat(BeatPeer):
    """With its lock, as by default."""

    wakes_a_minute = 0.2

    def register(self) -> None:
        """Write each entry as redbeat writes it, but many in one pipeline."""
        from redbeat.decoder import RedBeatJSONEncoder
        from redbeat.schedulers import RedBeatSchedulerEntry, get_redis

        app = self.make_app()
        now = this_minute()
        with get_redis(app).pipeline(transaction=False) as pipeline:
            for number in range(self.registered):
                entry = RedBeatSchedulerEntry(
                    f"schedule {number}",
                    TASK,
                    crontab(minute=minutes_of(number, self.registered, self.due, now)),
                    kwargs=arguments_of(number),
                    options={"queue": queue_of(number)},
                    app=app,
                )
                due = is_due(number, self.registered, self.due)
                entry.last_run_at = long_ago() if due else now
                definition = {
                    "name": entry.name,
                    "task": entry.task,
                    "args": entry.args,
                    "kwargs": entry.kwargs,
                    "options": entry.options,
                    "schedule": entry.schedule,
                    "enabled": True,
                }
                pipeline.hset(
                    entry.key,
                    mapping={
                        "definition": json.dumps(definition, cls=RedBeatJSONEncoder),
                        "meta": json.dumps(
                            {"last_run_at": entry.last_run_at}, cls=RedBeatJSONEncoder
                        ),
                    },
                )
                pipeline.zadd(app.redbeat_conf.schedule_key, {entry.key: entry.score})
                if number % 1000 == 0:
                    pipeline.execute()
            pipeline.execute()

    def load(self) -> None:
        """Start the service, which takes the lock."""
        service = Service(self.make_app(), scheduler_cls="redbeat.RedBeatScheduler")
        self.scheduler = service.scheduler
        signals.beat_init.send(sender=service)

    def send_due(self) -> None:
        """Tick once: that sends all."""
        self.scheduler.tick()

    def close(self) -> None:
        """Release the lock."""
        self.scheduler.lock.release()
        self.scheduler.lock = None

    def make_app(self):  # noqa: ANN201 - Celery has no type hints
        """Return an application that keeps its schedule in the broker's Redis."""
        app = super().make_app()
        app.conf.redbeat_redis_url = self.servers.redis
        from redbeat.schedulers import ensure_conf

        ensure_conf(app)
        return app
