"""APScheduler 3: jobs in PostgreSQL, each of which sends a Celery task."""

from __future__ import annotations

import pickle
import threading

import psycopg
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_RUNNING
from apscheduler.triggers.cron import CronTrigger
from celery import Celery

from benchmarks.peers.peer import AWAY, TASK, Peer, minute_of, this_minute

_app = Celery("benchmark", set_as_current=False)


def send(queue: str, arguments: dict[str, object]) -> None:
    """Send the task; this is what the job is."""
    _app.send_task(TASK, kwargs=arguments, queue=queue)


class APScheduler3(Peer):
    """
    With ten threads, as by default; its own, which turns it, sleeps all the while.

    Not as by default: nothing is dropped for being late. It would drop whatever it
    reaches later than a second, which is most.
    """

    def register(self) -> None:
        now = this_minute()
        # by whether it is due
        triggers = [
            CronTrigger(minute=minute_of(now, is_due=due), timezone="UTC")
            for due in (False, True)
        ]
        template = self._start().add_job(send, triggers[True], args=("quick", {}))
        state = template.__getstate__()
        template.remove()
        with (
            psycopg.connect(self.servers.dsn) as connection,
            connection.cursor().copy(
                "copy apscheduler_jobs (id, next_run_time, job_state) from stdin"
            ) as copy,
        ):
            for each in self.schedules():
                at = now if each.is_due else now + AWAY
                state |= {
                    "id": each.name,
                    "trigger": triggers[each.is_due],
                    "args": (each.queue, each.arguments),
                    "next_run_time": at,
                }
                copy.write_row((each.name, at.timestamp(), pickle.dumps(state)))

    def load(self) -> None:
        _app.conf.update(broker_url=self.servers.redis, task_ignore_result=True)
        self.scheduler = self._start()
        self.scheduler.state = STATE_RUNNING

    def send_due(self) -> None:
        self.wake()
        done = threading.Event()
        self.scheduler._executors["default"]._pool.submit(done.set)
        done.wait()

    def wake(self) -> None:
        self.scheduler._process_jobs()

    def _start(self) -> BackgroundScheduler:
        scheduler = BackgroundScheduler(
            jobstores={"default": SQLAlchemyJobStore(url=self.servers.postgres)},
            job_defaults={"coalesce": True, "misfire_grace_time": None},
            timezone="UTC",
        )
        scheduler.start(paused=True)
        return scheduler
