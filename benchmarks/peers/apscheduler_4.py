"""
APScheduler 4, an alpha: schedules and jobs in PostgreSQL, which is its broker.

Driven: the whole scheduler, in the role that only schedules, until it goes to sleep: it
leases a hundred schedules, inserts a job for each in a transaction of its own, stores
their next times, and leases the next hundred. An idle look begins with the event that
tells of another schedule's change.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from benchmarks.peers.peer import Peer, minutes_of, this_minute


def nothing(queue: str, **arguments: object) -> None:
    """Do nothing; this is what each job is."""


class APScheduler4(Peer):
    """
    With one process and its own queue, not Celery's.

    Its libraries are imported late: they bear the name of those of APScheduler 3.
    """

    count_query = "select count(*) from jobs"

    def register(self) -> None:
        from apscheduler import Scheduler
        from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
        from sqlalchemy import create_engine

        store = SQLAlchemyDataStore(self.servers.postgres)
        with Scheduler(store) as scheduler:
            task = scheduler.configure_task(nothing)
        rows = [
            schedule.marshal(store.serializer)
            for schedule in self._make_schedules(task.id, task.job_executor)
        ]
        engine = create_engine(self.servers.postgres)
        with engine.begin() as connection:
            connection.execute(store._t_schedules.insert(), rows)
        engine.dispose()

    def _make_schedules(self, task: str, executor: str) -> Iterator[Any]:
        from apscheduler import Schedule
        from apscheduler.triggers.cron import CronTrigger

        now = this_minute()
        triggers = [
            CronTrigger(minute=minute, start_time=now, timezone="UTC")
            for minute in (minutes_of(0, 1, 0, now), "*")
        ]
        first = [trigger.next() for trigger in triggers]
        for each in self.schedules():
            yield Schedule(
                id=each.name,
                task_id=task,
                trigger=triggers[each.is_due],
                args=(each.queue,),
                kwargs=each.arguments,
                job_executor=executor,
                next_fire_time=first[each.is_due],
            )

    def load(self) -> None:
        from apscheduler import Scheduler, SchedulerRole
        from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore

        self.asleep = asleep = threading.Event()

        class Store(SQLAlchemyDataStore):
            async def get_next_schedule_run_time(self) -> datetime | None:
                """Return it, which is the last that is asked before a sleep."""
                at = await super().get_next_schedule_run_time()
                asleep.set()
                return at

        store = Store(self.servers.postgres)
        self.scheduler = Scheduler(store, role=SchedulerRole.scheduler)
        self.scheduler.__enter__()
        self.started = False

    def send_due(self) -> None:
        self.asleep.clear()
        self._wake_up()
        # Its loop has a thread of its own: what stops us is raised here.
        self.asleep.wait()

    def _wake_up(self) -> None:
        if not self.started:
            self.started = True
            self.scheduler.start_in_background()
            return
        from apscheduler import ScheduleUpdated

        event = ScheduleUpdated(
            schedule_id="another", task_id="another", next_fire_time=datetime.now(UTC)
        )
        broker = self.scheduler._async_scheduler.event_broker
        self.scheduler._portal.call(broker.publish, event)
