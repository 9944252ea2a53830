"""django-celery-beat: schedules in PostgreSQL, read by Celery's beat service."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from benchmarks.load import TASK, arguments_of, is_due, minutes_of, queue_of
from benchmarks.peers.celery_beat import BeatPeer
from benchmarks.peers.peer import long_ago, this_minute


class DjangoBeat(BeatPeer):
    """With Django's default of a connection for each look."""

    wakes_a_minute = 12.0  # it looks for changes each five seconds
    scheduler_class = "django_celery_beat.schedulers:DatabaseScheduler"

    def register(self) -> None:
        """Store a task for each schedule."""
        self._set_up()
        from django.core.management import call_command
        from django_celery_beat import models

        call_command("migrate", verbosity=0)
        now = this_minute()
        rules = {
            minute: models.CrontabSchedule.objects.create(minute=minute, timezone="UTC")
            for minute in ("*", minutes_of(0, 1, 0, now))
        }
        tasks = []
        for number in range(self.registered):
            minute = minutes_of(number, self.registered, self.due, now)
            ran_at = long_ago() if is_due(number, self.registered, self.due) else now
            tasks.append(
                models.PeriodicTask(
                    name=f"schedule {number}",
                    task=TASK,
                    kwargs=json.dumps(arguments_of(number)),
                    queue=queue_of(number),
                    crontab=rules[minute],
                    last_run_at=ran_at,
                )
            )
        models.PeriodicTask.objects.bulk_create(tasks, batch_size=1000)
        models.PeriodicTasks.update_changed()

    def load(self) -> None:
        """Start the service."""
        self._set_up()
        self.start_service(self.make_app())
        self.scheduler.max_interval = 5

    def close(self) -> None:
        """Keep it from writing back at exit what is measured no more."""
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
