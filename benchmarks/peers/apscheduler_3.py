"""APScheduler 3: jobs in PostgreSQL, each of which sends a Celery task."""

from __future__ import annotations

import pickle
import threading
from datetime import timedelta

import psycopg
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.base import STATE_RUNNING, BaseScheduler
from apscheduler.triggers.cron import CronTrigger
from celery import Celery

from benchmarks.peers.peer import TASK, Peer, minutes_of, this_minute

_app = Celery("benchmark", set_as_current=False)


def send(queue: str, arguments: dict[str, object]) -> None:
    """Send the task; this is what the job is."""
    _app.send_task(TASK, kwargs=arguments, queue=queue)


class _Hand(BaseScheduler):  # type: ignore[misc]  # APScheduler has no type hints
    """A scheduler without a thread: we turn it by hand."""

    def wakeup(self) -> None:
        """Sleep on."""

    def shutdown(self, wait: bool = True) -> None:  # noqa: FBT001, FBT002 - as its base
        super().shutdown(wait)


class APScheduler3(Peer):
    """
    With ten threads, as by default.

    Not as by default: nothing is dropped for being late. It would drop whatever it
    reaches later than a second, which is most.
    """

    def register(self) -> None:
        scheduler = self._make_scheduler()
        scheduler.start(paused=True)
        now = this_minute()
        triggers = {
            minute: CronTrigger(minute=minute, timezone="UTC")
            for minute in ("*", minutes_of(0, 1, 0, now))
        }
        template = scheduler.add_job(send, triggers["*"], args=("quick", {}))
        state = template.__getstate__()
        template.remove()
        scheduler.shutdown()
        with (
            psycopg.connect(self.servers.dsn) as connection,
            connection.cursor().copy(
                "copy apscheduler_jobs (id, next_run_time, job_state) from stdin"
            ) as copy,
        ):
            for each in self.schedules():
                at = now + timedelta(minutes=0 if each.is_due else 30)
                state |= {
                    "id": each.name,
                    "trigger": triggers[each.minute],
                    "args": (each.queue, each.arguments),
                    "next_run_time": at,
                }
                copy.write_row((each.name, at.timestamp(), pickle.dumps(state)))

    def load(self) -> None:
        _app.conf.update(broker_url=self.servers.redis, task_ignore_result=True)
        self.scheduler = self._make_scheduler()
        self.scheduler.start(paused=True)
        self.scheduler.state = STATE_RUNNING

    def send_due(self) -> None:
        self.scheduler._process_jobs()
        done = threading.Event()
        self.scheduler._executors["default"]._pool.submit(done.set)
        done.wait()

    def wake(self) -> None:
        self.scheduler._process_jobs()

    def _make_scheduler(self) -> _Hand:
        store = SQLAlchemyJobStore(url=self.servers.postgres)
        return _Hand(
            jobstores={"default": store},
            job_defaults={"coalesce": True, "misfire_grace_time": None},
            timezone="UTC",
        )
