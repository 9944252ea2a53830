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
import structlog
from celery import bootsteps

from models.database.engine import make_engine, writing
from models.operation_state import WORKER_QUEUES
from operations.fleet.presence import AGAIN_S, Presence, make_process
from operations.fleet.processes import ProcessRole
from settings import Settings, read_settings
from telemetry import Event

log = structlog.get_logger()

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
    Gives the signs of life of a Celery worker, and lets it rest if it is asked to.

    Whoever drains a worker writes that into its row. So it holds whatever happens to
    the broker or to whoever asked, and a worker that is started again takes work. The
    worker then does what Celery's remote control would let it do.

    Args:
        worker: The worker that is being made.
        minutehand_settings: The settings of a worker embedded in another process. None:
            they are read from the environment.
    """

    # before the consumer, which starts last and then loops
    requires = ("celery.worker.components:Timer", "celery.worker.components:Pool")

    def __init__(
        self, worker: Any, minutehand_settings: Settings | None = None, **options: Any
    ) -> None:
        """Do nothing yet."""
        super().__init__(worker, **options)
        self._settings = minutehand_settings
        self._presence: Presence | None = None
        self._entry: Any = None
        self._left: list[str] = []  # queues that it took until it was drained

    def start(self, worker: Any) -> None:
        """Give a sign when messages are taken first, and whenever one is due."""
        settings = self._settings or read_settings()
        process = make_process(
            settings,
            ProcessRole.WORKER,
            name=worker.hostname,
            concurrency=worker.concurrency,
        )
        self._presence = Presence(
            process, partial(connect_briefly, settings), workspace=settings.workspace
        )
        self._entry = worker.timer.call_after(0, partial(self._renew, worker))

    def _renew(self, worker: Any) -> None:
        presence = self._presence
        if presence is None:
            return  # Celery lets timers fire until the pool has stopped
        try:
            consumed = find_consumed(worker.app)
            is_asked = presence.renew(consumed)
            if consumed if is_asked else self._left:
                # In its event loop, as remote control does: this may be another thread.
                worker.consumer.call_soon(partial(self._rest_or_take, worker, is_asked))
        finally:
            renew = partial(self._renew, worker)
            again_s = presence.pause_s or AGAIN_S  # 0: something else failed first
            self._entry = worker.timer.call_after(again_s, renew)

    def _rest_or_take(self, worker: Any, is_asked: bool) -> None:  # noqa: FBT001 - through call_soon
        """
        Leave all queues, or take those again that were left; what runs goes on.

        If the connection breaks in between, the next sign of life does the rest.
        """
        consumer, presence = worker.consumer, self._presence
        if consumer.task_consumer is None or presence is None:
            return  # it reconnects, or stops
        if is_asked:
            for queue in find_consumed(worker.app):
                self._left.append(queue)
                consumer.cancel_task_queue(queue)
            log.info(Event.WORKER_DRAINED, queues=self._left)
        else:
            log.info(Event.WORKER_RESUMED, queues=self._left)
            while self._left:
                consumer.add_task_queue(self._left[0])
                self._left.pop(0)
        presence.renew(find_consumed(worker.app))  # whoever asked can see it now

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
    return [each.value for each in WORKER_QUEUES if queues[each.value].name in consumed]
