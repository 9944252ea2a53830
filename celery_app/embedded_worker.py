"""A Celery worker in threads of a process that does more: of ``minutehand up``."""

from __future__ import annotations

import os
import socket
import threading
from datetime import timedelta
from typing import Any

from celery.worker import WorkController
from celery.worker import state as worker_state

from celery_app.app import app, make_config
from celery_app.assembly import make_worker
from celery_app.signs_of_life import PresenceStep
from celery_app.worker import set_worker, stop_worker
from models.operation_state import Queue
from settings import Settings

#: What a stop waits for the worker's threads. Celery looks for a stop every two
#: seconds; what they ran has been given back by then.
STOP_WITHIN = timedelta(seconds=2.2)


class EmbeddedWorker:
    """
    A Celery worker in threads of this process.

    Args:
        settings: Of this process.

        concurrency: Operations at the same time.
    """

    def __init__(self, settings: Settings, *, concurrency: int) -> None:
        """Make it the worker of this process; start nothing yet."""
        app.conf.update(_make_config(settings))
        set_worker(make_worker(settings))
        self._controller = WorkController(
            app=app,
            hostname=f"up@{socket.gethostname()}",
            pool="threads",
            concurrency=concurrency,
            queues=[queue.value for queue in Queue],
            # What these tell other workers our table knows better.
            without_heartbeat=True,
            without_mingle=True,
            without_gossip=True,
            quiet=True,
            minutehand_settings=settings,
        )
        self._thread = threading.Thread(
            target=self._controller.start, name="celery-worker", daemon=True
        )

    def start(self) -> None:
        """Consume in a thread."""
        worker_state.should_stop = None
        self._thread.start()

    def stop(self) -> bool:
        """
        Give back what runs, and wait a moment for the threads.

        Returns:
            False if a step is still busy; nothing it writes counts any more.
        """
        # An exit code, of which 0 counts too; None means "go on".
        worker_state.should_stop = os.EX_OK
        stop_worker()
        # Now, for the thread may not come to it before the process ends.
        for step in self._controller.steps:
            if isinstance(step, PresenceStep):
                step.stop(self._controller)
        self._thread.join(STOP_WITHIN.total_seconds())
        return not self._thread.is_alive()


def _make_config(settings: Settings) -> dict[str, Any]:
    config = make_config(settings)
    if settings.broker_url == "memory://":
        # kombu warns of an address without a host, though memory has none.
        config["broker_url"] = "memory://localhost"
    return config
