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

from benchmarks.load import TASK, arguments_of, is_due, minutes_of, queue_of
from benchmarks.peers.peer import Peer, this_minute

_app = Celery("benchmark", set_as_current=False)


def send(queue: str, arguments: dict[str, object]) -> None:
    """Send the task; this is what the job is."""
    _app.send_task(TASK, kwargs=arguments, queue=queue)


class _Hand(BaseScheduler):  # type: ignore[misc]  # APScheduler has no type hints
    """A scheduler without a thread: we turn it by hand."""

    def wakeup(self) -> None:
        """Sleep on."""

    def shutdown(self, wait: bool = True) -> None:  # noqa: FBT001, FBT002 - as its base
        """Stop the executors."""
        super().shutdown(wait)


class APScheduler3(Peer):
    """
    With ten threads, as by default.

    Not as by default: nothing is dropped for being late. It would drop whatever it
    reaches later than a second, which is most.
    """

    def register(self) -> None:
        """Store jobs as the job store stores them, but many at once."""
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
            for number in range(self.registered):
                due = is_due(number, self.registered, self.due)
                at = now if due else now + timedelta(minutes=30)
                minute = minutes_of(number, self.registered, self.due, now)
                state |= {
                    "id": f"schedule {number}",
                    "trigger": triggers[minute],
                    "args": (queue_of(number), arguments_of(number)),
                    "next_run_time": at,
                }
                copy.write_row((state["id"], at.timestamp(), pickle.dumps(state)))

    def load(self) -> None:
        """Start it, all but its thread."""
        _app.conf.update(broker_url=self.servers.redis, task_ignore_result=True)
        self.scheduler = self._make_scheduler()
        self.scheduler.start(paused=True)
        self.scheduler.state = STATE_RUNNING

    def send_due(self) -> None:
        """Submit the jobs, and wait until the threads have done them."""
        self.scheduler._process_jobs()
        done = threading.Event()
        self.scheduler._executors["default"]._pool.submit(done.set)
        done.wait()

    def wake(self) -> None:
        """Look for jobs."""
        self.scheduler._process_jobs()

    def _make_scheduler(self) -> _Hand:
        store = SQLAlchemyJobStore(url=self.servers.postgres)
        return _Hand(
            jobstores={"default": store},
            job_defaults={"coalesce": True, "misfire_grace_time": None},
            timezone="UTC",
        )
