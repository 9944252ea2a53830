"""Schedulers and their database by one clock, which tests move."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from actions.lease import Leader
from scheduler_server import Scheduler
from tests.scheduling import Clock, FakeSender, NoTasks, make_settings

SEVEN = datetime(2026, 11, 23, 7, tzinfo=UTC)


class World(Clock):
    """One clock for the database and the scheduler; it stands still until told."""

    now = 0.0
    statement_s = 0.01
    #: What the clock of the database adds to that of the scheduler.
    fast_by = timedelta()

    def read(self) -> datetime:
        """Return the time of the database."""
        return SEVEN + timedelta(seconds=self.now) + self.fast_by

    def pass_by(self, *_statement: object) -> None:
        """Let the time pass that a statement takes."""
        self.now += self.statement_s


def make_scheduler(
    engine: sa.Engine, world: World, sender: FakeSender | None = None, **settings: str
) -> Scheduler:
    """Return a scheduler that lives by *world*."""
    return Scheduler(
        engine,
        Leader(engine, monotonic=world),
        sender or FakeSender(),
        NoTasks(engine),
        make_settings(**settings),
        monotonic=world,
        host_clock=world.read,
    )
