"""
procrastinate: periodic tasks of the code, jobs in PostgreSQL, which is its broker.

Driven: a turn of ``PeriodicDeferrer.worker``, of which each of its workers has one:
find for each rule what was due since the last turn, and insert a job for it, each in a
transaction of its own, in which the database refuses a second one for the same instant.
"""

from __future__ import annotations

import asyncio
import time

import procrastinate
from procrastinate.periodic import PeriodicDeferrer

from benchmarks.peers.peer import TASK, Peer


class Procrastinate(Peer):
    """With its pool of connections, as by default."""

    # One writer and nothing refused: the ids have no gaps.
    count_query = "select coalesce(max(id), 0) from procrastinate_jobs"

    def register(self) -> None:

        async def apply() -> None:
            async with self._make_app().open_async() as app:
                await app.schema_manager.apply_schema_async()

        asyncio.run(apply())

    def load(self) -> None:
        app = self._make_app()

        @app.task(name=TASK)
        def nothing(timestamp: int, **arguments: object) -> None:
            """Do nothing."""

        for each in self.schedules():
            app.periodic(
                cron=each.cron,
                periodic_id=each.name,
                queue=each.queue,
                task_kwargs=each.arguments,
            )(nothing)
        self.deferrer = PeriodicDeferrer(app.periodic_registry)
        self.runner = asyncio.Runner()
        self.runner.run(app.open_async().__aenter__())

    def send_due(self) -> None:
        self.runner.run(self._turn())

    async def _turn(self) -> None:
        now = time.time()
        await self.deferrer.defer_jobs(self.deferrer.get_previous_tasks(at=now))
        self.deferrer.get_next_tick(at=now)

    def _make_app(self) -> procrastinate.App:
        connector = procrastinate.PsycopgConnector(conninfo=self.servers.dsn)
        return procrastinate.App(connector=connector)
