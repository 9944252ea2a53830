"""
What the parent of the worker processes does when a child has died.

A child that was killed cannot report it, and its lease runs out only later. The parent
knows at once. It opens a database connection for one write and closes it again, because
no connection may be open when it forks the next child.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID, uuid4

import structlog
from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery.signals import (
    task_failure,
    worker_init,
    worker_process_init,
    worker_shutting_down,
)

from models.database.engine import make_engine, writing
from models.errors import UnreachableError
from operations.fleet.deaths import Deaths, offer_first
from operations.rescue import (
    count_kill,
    expire_claim,
    fail_at_time_limit,
    give_back_all,
)
from settings import read_settings
from telemetry import Event

log = structlog.get_logger()

#: Identifies this start of the worker; children inherit it. The node name is not
#: enough: two workers may share one, and a restarted worker has the same name.
_RUN = f"({uuid4().hex[:8]})"


_deaths = Deaths()


@worker_init.connect
def _on_start(**_arguments: object) -> None:
    """Count what was killed for memory before our first child."""
    _deaths.begin()


@worker_process_init.connect
def _on_child(**_arguments: object) -> None:
    """Let the kernel kill a child rather than its parent, which can report it."""
    offer_first()


def make_worker_name(node: str) -> str:
    """Return the name under which the children of this process claim, on *node*."""
    return f"{node} {_RUN}"


@task_failure.connect
def _on_failure(
    task_id: str = "", exception: BaseException | None = None, **_arguments: object
) -> None:
    """Settle the operation of a killed child; other failures settle themselves."""
    if isinstance(exception, TimeLimitExceeded):
        _write(fail_at_time_limit, operation_id=UUID(task_id))
    elif isinstance(exception, WorkerLostError):
        cause = _deaths.explain(str(exception))
        if cause is None:
            _write(expire_claim, operation_id=UUID(task_id))
        else:
            _write(count_kill, operation_id=UUID(task_id), cause=cause)


@worker_shutting_down.connect
def _on_shutdown(how: str = "", **_arguments: object) -> None:
    """Give back what the children ran; in a cold shutdown they are already dead."""
    if how == "Cold":
        _write(give_back_all)


def _write(settle: Callable[..., int], **arguments: object) -> None:
    settings = read_settings()
    engine = make_engine(settings.database_url, timeout=settings.database_timeout)
    try:
        with writing(engine) as connection:
            count = settle(connection, worker_suffix=_RUN, **arguments)
    except UnreachableError as error:
        # Only time is lost: the leases run out.
        log.warning(Event.DATABASE_UNREACHABLE, error=str(error))
    else:
        if count:
            log.warning(Event.CHILD_LOST, settled=settle.__name__, count=count)
    finally:
        engine.dispose()
