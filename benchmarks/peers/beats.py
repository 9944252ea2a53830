"""
Celery's own beat and two that keep its schedules elsewhere: PostgreSQL, Redis.

celery beat reads its schedule from the configuration and keeps its state in a file;
django-celery-beat has its schedules in PostgreSQL; redbeat has schedules and lock in
Redis, and keeps no record of what ran.
"""

from __future__ import annotations

import json
import tempfile
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from celery import Celery, signals
from celery.beat import Service
from celery.schedules import crontab

from benchmarks.peers.peer import TASK, Peer, long_ago, minute_of, this_minute


class BeatPeer(Peer):
    """Anything that Celery's beat service drives."""

    scheduler_class: str | None = None

    def make_app(self) -> Celery:
        app = Celery("benchmark", broker=self.servers.redis)
        app.conf.update(task_ignore_result=True, timezone="UTC", enable_utc=True)
        return app

    def start_service(self, app: Celery) -> None:
        self.folder = tempfile.TemporaryDirectory()
        file = Path(self.folder.name) / "schedule"
        service = Service(
            app, schedule_filename=str(file), scheduler_cls=self.scheduler_class
        )
        self.scheduler = service.get_scheduler()

    def send_due(self) -> None:
        while self.scheduler.tick() <= 0:
            pass

    def close(self) -> None:
        self.folder.cleanup()


class CeleryBeat(BeatPeer):
    """With its default scheduler."""

    wakes_a_minute = 0.2  # beat_max_loop_interval is five minutes

    def load(self) -> None:
        app = self.make_app()
        app.conf.beat_schedule = {
            each.name: {
                "task": TASK,
                "kwargs": each.arguments,
                "options": {"queue": each.queue},
                "schedule": crontab(minute=each.minute),
            }
            for each in self.schedules()
        }
        self.start_service(app)
        for each in self.schedules():
            if each.is_due:
                self.scheduler.schedule[each.name].last_run_at -= timedelta(minutes=2)


class DjangoBeat(BeatPeer):
    """With Django's default of a connection for each look."""

    wakes_a_minute = 12.0  # it looks for changes each five seconds
    scheduler_class = "django_celery_beat.schedulers:DatabaseScheduler"

    def register(self) -> None:
        self._set_up()
        from django.core.management import call_command
        from django_celery_beat import models

        call_command("migrate", verbosity=0)
        now = this_minute()
        # by whether it is due
        rules = [
            models.CrontabSchedule.objects.create(
                minute=minute_of(now, is_due=due), timezone="UTC"
            )
            for due in (False, True)
        ]
        tasks = [
            models.PeriodicTask(
                name=each.name,
                task=TASK,
                kwargs=json.dumps(each.arguments),
                queue=each.queue,
                crontab=rules[each.is_due],
                last_run_at=long_ago() if each.is_due else now,
            )
            for each in self.schedules()
        ]
        models.PeriodicTask.objects.bulk_create(tasks, batch_size=1000)
        models.PeriodicTasks.update_changed()

    def load(self) -> None:
        self._set_up()
        self.start_service(self.make_app())
        self.scheduler.max_interval = 5

    def close(self) -> None:
        self.scheduler._dirty.clear()
        super().close()

    def _set_up(self) -> None:
        import django
        from django.conf import settings

        where = urlsplit(self.servers.dsn)
        settings.configure(
            USE_TZ=True,
            TIME_ZONE="UTC",
            SECRET_KEY="benchmark",  # noqa: S106 - Django wants one
            INSTALLED_APPS=["django.contrib.contenttypes", "django_celery_beat"],
            DATABASES={
                "default": {
                    "ENGINE": "django.db.backends.postgresql",
                    "HOST": where.hostname,
                    "PORT": where.port,
                    "USER": where.username,
                    "NAME": where.path.lstrip("/"),
                }
            },
        )
        django.setup()


class RedBeat(BeatPeer):
    """With its lock, as by default."""

    wakes_a_minute = 0.2

    def register(self) -> None:
        from redbeat.schedulers import RedBeatSchedulerEntry

        app = self.make_app()
        now = this_minute()
        for each in self.schedules():
            entry = RedBeatSchedulerEntry(
                each.name,
                TASK,
                crontab(minute=each.minute),
                kwargs=each.arguments,
                options={"queue": each.queue},
                app=app,
            )
            entry.last_run_at = long_ago() if each.is_due else now
            entry.save()

    def load(self) -> None:
        service = Service(self.make_app(), scheduler_cls="redbeat.RedBeatScheduler")
        self.scheduler = service.scheduler
        signals.beat_init.send(sender=service)

    def send_due(self) -> None:
        self.scheduler.tick()

    def close(self) -> None:
        self.scheduler.lock.release()
        self.scheduler.lock = None

    def make_app(self):  # noqa: ANN201 - Celery has no type hints
        app = super().make_app()
        app.conf.redbeat_redis_url = self.servers.redis
        from redbeat.schedulers import ensure_conf

        ensure_conf(app)
        return app
