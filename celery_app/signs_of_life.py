"""
The signs of life of a Celery worker, given from its event loop.

When the parent of a prefork pool forks, it must have no open database connection, and
no thread that might hold a lock. So a worker renews its row from the event loop, which
also forks: it opens a connection, writes, and closes it again, with a short deadline.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa
from celery import bootsteps

from models.database.engine import make_engine, writing
from models.operation_state import Queue
from operations.fleet.presence import Presence, make_process
from operations.fleet.processes import RENEW_EVERY, Role
from settings import Settings, read_settings

#: Longest wait for one call in a worker's parent. It does nothing else meanwhile: it
#: starts no operation, and does not notice that one has ended.
BRIEF = timedelta(seconds=2)


@contextmanager
def connect_briefly(settings: Settings) -> Iterator[sa.Connection]:
    """Give a connection in a transaction; it is closed afterwards, with its engine."""
    timeout = min(BRIEF, settings.database_timeout)
    engine = make_engine(settings.database_url, timeout=timeout)
    try:
        with writing(engine) as connection:
            yield connection
    finally:
        engine.dispose()


class PresenceStep(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery has no types
    """
    Gives the signs of life of a Celery worker.

    Args:
        worker: The worker that is being made.

        minutehand_settings: The settings of a worker embedded in another process. None:
            they are read from the environment.
    """

    # before the consumer, which starts last and then loops
    requires = ("celery.worker.components:Timer", "celery.worker.components:Pool")

    def __init__(
        self,
        worker: Any,
        minutehand_settings: Settings | None = None,
        **options: Any,
    ) -> None:
        """Do nothing yet."""
        super().__init__(worker, **options)
        self._settings = minutehand_settings
        self._presence: Presence | None = None
        self._entry: Any = None

    def start(self, worker: Any) -> None:
        """Give a sign when messages are taken first, and every ``RENEW_EVERY``."""
        settings = self._settings or read_settings()
        process = make_process(
            settings,
            Role.WORKER,
            name=worker.hostname,
            concurrency=worker.concurrency,
        )
        self._presence = Presence(
            process, partial(connect_briefly, settings), workspace=settings.workspace
        )
        renew = partial(self._renew, worker)
        worker.timer.call_after(0, renew)
        self._entry = worker.timer.call_repeatedly(RENEW_EVERY.total_seconds(), renew)

    def _renew(self, worker: Any) -> None:
        assert self._presence is not None  # made as the timer was set
        self._presence.renew(find_consumed(worker.app))

    def stop(self, worker: Any) -> None:  # noqa: ARG002 - as Celery calls it
        """Remove the row."""
        if self._entry is not None:
            self._entry.cancel()
        if self._presence is not None:
            self._presence.end()
        self._entry = self._presence = None

    terminate = stop


def find_consumed(app: Any) -> list[str]:
    """Return the queues that a worker of *app* consumes, by names without prefix."""
    queues = app.amqp.queues
    consumed = queues.consume_from
    return [each.value for each in Queue if queues[each.value].name in consumed]
