"""What all requests of one web process share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import sqlalchemy as sa

from api.limits import Limits
from api.stream import Hub, make_hub
from api.waiting import Waiters, make_waiters
from models.database.engine import Author, make_engine, reading, writing
from models.fields.task_rules import TaskRules
from settings import Settings

#: How long a request may take in the database: less than a proxy or a person waits.
DATABASE_TIMEOUT = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Services:
    """
    The world of a web process.

    Args:
        settings: Of the installation.

        engine: Of this process alone, so that a slow report delays no tick.

        limits: How often each caller may ask.

        hub: Who listens to what happens.

        waiters: Who waits for an operation to end.
    """

    settings: Settings
    engine: sa.Engine
    limits: Limits
    hub: Hub = field(init=False)
    waiters: Waiters = field(init=False)

    def __post_init__(self) -> None:
        """Give it a hub and waiters of its own."""
        object.__setattr__(self, "hub", make_hub(self.engine))
        object.__setattr__(self, "waiters", make_waiters(self.engine))

    def send_away(self) -> None:
        """End what has no end of its own; the server is ending."""
        self.hub.close()
        self.waiters.close()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Give a connection that only reads."""
        with reading(self.engine) as connection:
            yield connection

    @contextmanager
    def writing(self, author: Author | None = None) -> Iterator[sa.Connection]:
        """Give a connection in one transaction, whose changes are *author*'s."""
        with writing(self.engine, author=author) as connection:
            yield connection

    @property
    def timezone(self) -> str:
        """The zone of apps that name none, an IANA name."""
        return self.settings.timezone

    @property
    def task_rules(self) -> TaskRules:
        """Where ``run_task`` may send tasks."""
        return self.settings.task_rules

    @property
    def lookback(self) -> timedelta:
        """How old a due date may be that is posted."""
        return self.settings.lookback


def make_services(settings: Settings) -> Services:
    """Make what a web process needs; connects to nothing yet."""
    engine = make_engine(
        settings.database_url,
        timeout=min(DATABASE_TIMEOUT, settings.database_timeout),
        pool_size=settings.web_threads,
    )
    return Services(settings, engine, Limits(clock=time.monotonic))
