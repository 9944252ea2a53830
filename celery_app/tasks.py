"""
The tasks. Each takes the operation whose id is its own task id, and runs it.

Whatever a message says, the table decides: a second copy of a message finds the
operation claimed or done, and is dropped.
"""

from __future__ import annotations

import gc
import time
from typing import Any

import structlog
from celery.exceptions import Reject
from celery.signals import (
    setup_logging,
    worker_init,
    worker_process_shutdown,
    worker_shutdown,
)

from celery_app import routing
from celery_app.app import app
from celery_app.enforced_id import EnforcedIdTask
from celery_app.execute import execute
from celery_app.logs import configure_worker_logs
from celery_app.lost_children import make_worker_name
from celery_app.routing import (
    EXECUTE_SCHEDULED_ACTION,
    EXECUTE_SCHEDULED_ACTION_QUICK,
)
from celery_app.worker import get_worker, stop_worker
from models.errors import UnreachableError, UsageError
from operations.state import get_operation_state
from settings import read_settings
from telemetry import Event

log = structlog.get_logger()

__all__ = ["get_operation_state"]


#: Before a message goes back that nobody could look up, for the database is away.
PAUSE_S = 1.0


def _execute(task_id: str, node: str) -> None:
    try:
        worker = get_worker()
    except UsageError as error:
        # Another worker, of the right version, may take it.
        log.error(Event.SCHEMA_REFUSED, error=str(error))  # noqa: TRY400 - no bug
        time.sleep(PAUSE_S)
        raise Reject(str(error), requeue=True) from error
    except UnreachableError as error:
        raise _put_back(error) from error
    try:
        execute(worker, task_id, make_worker_name(node))
    except UnreachableError as error:
        raise _put_back(error) from error


def _put_back(error: UnreachableError) -> Reject:
    """Wait a moment, and return what puts back a message of which nothing is known."""
    # Nothing was claimed. Dropped, it would be missed after minutes only.
    log.warning(Event.DATABASE_UNREACHABLE, error=str(error))
    time.sleep(PAUSE_S)
    return Reject(str(error), requeue=True)


@app.task(name=EXECUTE_SCHEDULED_ACTION, base=EnforcedIdTask, bind=True)
def execute_scheduled_action(self: Any, triggerrer: str = "") -> None:  # noqa: ARG001 - on the wire for people who look at messages; the row has it too
    """Run an operation that refreshes or publishes."""
    _execute(self.request.id, self.request.hostname)


@app.task(name=EXECUTE_SCHEDULED_ACTION_QUICK, base=EnforcedIdTask, bind=True)
def execute_scheduled_action_quick(self: Any, triggerrer: str = "") -> None:  # noqa: ARG001
    """Run any other operation."""
    _execute(self.request.id, self.request.hostname)


@app.task(name=routing.metatask_schedule, base=EnforcedIdTask, bind=True)
def metatask_schedule(self: Any, triggerrer: str = "") -> None:  # noqa: ARG001
    """Run the scheduler's own maintenance."""
    _execute(self.request.id, self.request.hostname)


@setup_logging.connect
def _configure_logging(**_arguments: object) -> None:
    """Log as the scheduler does; Celery leaves logging alone if this is connected."""
    configure_worker_logs(read_settings())


@worker_init.connect
def _spare_what_stays(**_arguments: object) -> None:
    """Keep the collector off what is loaded before the pool starts: it stays."""
    gc.freeze()


@worker_process_shutdown.connect
@worker_shutdown.connect
def _give_back(**_arguments: object) -> None:
    stop_worker()
