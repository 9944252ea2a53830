"""Celery's own beat: its schedule in the configuration, its state in a file."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

from celery import Celery
from celery.beat import Service
from celery.schedules import crontab

from benchmarks.load import TASK, arguments_of, is_due, minutes_of, queue_of
from benchmarks.peers.peer import Peer, this_minute


class BeatPeer(Peer):
    """Anything that Celery's beat service drives."""

    scheduler_class: str | None = None

    def make_app(self) -> Celery:
        """Return an application on the broker of this case."""
        app = Celery("benchmark", broker=self.servers.redis)
        app.conf.update(task_ignore_result=True, timezone="UTC", enable_utc=True)
        return app

    def start_service(self, app: Celery) -> None:
        """Make the scheduler as ``celery beat`` does."""
        self.folder = tempfile.TemporaryDirectory()
        file = Path(self.folder.name) / "schedule"
        service = Service(
            app, schedule_filename=str(file), scheduler_cls=self.scheduler_class
        )
        self.scheduler = service.get_scheduler()

    def send_due(self) -> None:
        """Tick until nothing is due, as the service does between two sleeps."""
        while self.scheduler.tick() <= 0:
            pass

    def close(self) -> None:
        """Remove its file."""
        self.folder.cleanup()


class CeleryBeat(BeatPeer):
    """With its default scheduler."""

    wakes_a_minute = 0.2  # beat_max_loop_interval is five minutes

    def register(self) -> None:
        """Do nothing: its schedule is read from the configuration at each start."""

    def load(self) -> None:
        """Read the configuration, and pretend that two minutes have passed."""
        app = self.make_app()
        now = this_minute()
        app.conf.beat_schedule = {
            f"schedule {number}": {
                "task": TASK,
                "kwargs": arguments_of(number),
                "options": {"queue": queue_of(number)},
                "schedule": crontab(
                    minute=minutes_of(number, self.registered, self.due, now)
                ),
            }
            for number in range(self.registered)
        }
        self.start_service(app)
        for number in range(self.registered):
            if is_due(number, self.registered, self.due):
                entry = self.scheduler.schedule[f"schedule {number}"]
                entry.last_run_at -= timedelta(minutes=2)
