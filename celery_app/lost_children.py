"""
What the parent of the worker processes does for a child that is gone.

A child that was killed cannot say so itself; its lease would, but late. The parent
knows at once. It opens a database connection for one write and closes it again, for
none may be open when it forks the next child.
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

#: Which start of the worker it is, told to the children by the fork: two workers may
#: have one node name, and a worker has it again after a restart.
_RUN = f"({uuid4().hex[:8]})"


_deaths = Deaths()


@worker_init.connect
def _on_start(**_arguments: object) -> None:
    """Know what was killed for memory before our first child."""
    _deaths.begin()


@worker_process_init.connect
def _on_child(**_arguments: object) -> None:
    """Let a child be killed rather than us, who can tell of it."""
    offer_first()


def make_worker_name(node: str) -> str:
    """Return the name under which children of this process claim, on node *node*."""
    return f"{node} {_RUN}"


@task_failure.connect
def _on_failure(
    task_id: str = "", exception: BaseException | None = None, **_arguments: object
) -> None:
    """Settle what a child ran that was killed; other failures settle themselves."""
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
    """Give back what the children ran; at a cold shutdown they are dead by now."""
    if how == "Cold":
        _write(give_back_all)


def _write(settle: Callable[..., int], **arguments: object) -> None:
    settings = read_settings()
    engine = make_engine(settings.database_url, timeout=settings.database_timeout)
    try:
        with writing(engine) as connection:
            count = settle(connection, worker_suffix=_RUN, **arguments)
    except UnreachableError as error:
        # Nothing is lost but time: their leases run out.
        log.warning(Event.DATABASE_UNREACHABLE, error=str(error))
    else:
        if count:
            log.warning(Event.CHILD_LOST, settled=settle.__name__, count=count)
    finally:
        engine.dispose()
