"""
rq-scheduler: jobs and their next times in Redis, pushed to the queues of RQ.

Driven: what ``Scheduler.run`` does between two sleeps: take the lock, move what is due
to its queue, one job after the other, and give the lock back. A schedule is one job,
whose id is pushed each time.
"""

from __future__ import annotations

import redis

from benchmarks.peers.peer import QUEUES, TASK, Peer, this_minute


class RqScheduler(Peer):
    """
    With the interval of a minute, as by default.

    Imported late: it needs another crontab than django-celery-beat.
    """

    queues = tuple(f"rq:queue:{name}" for name in QUEUES)

    def register(self) -> None:
        scheduler = self._make_scheduler()
        now = this_minute()
        for each in self.schedules():
            given = {"kwargs": each.arguments, "queue_name": each.queue}
            job = scheduler.cron(each.cron, TASK, **given)
            if each.is_due:
                due_at = {job.id: now.timestamp()}
                scheduler.connection.zadd(scheduler.scheduled_jobs_key, due_at)

    def load(self) -> None:
        self.scheduler = self._make_scheduler()
        self.scheduler.register_birth()

    def send_due(self) -> None:
        self.scheduler.heartbeat()
        assert self.scheduler.acquire_lock(), "another scheduler has the lock"
        self.scheduler.enqueue_jobs()
        self.scheduler.heartbeat()
        self.scheduler.remove_lock()

    def close(self) -> None:
        self.scheduler.register_death()

    def _make_scheduler(self):  # noqa: ANN202 - not all who read this file have it
        from rq_scheduler import Scheduler

        return Scheduler(connection=redis.Redis.from_url(self.servers.redis))
