"""
The Celery tasks. Each claims the operation whose id is the task id, and runs it.

Whatever a message says, the table decides: if a message arrives twice, the second copy
finds the operation claimed or final, and is dropped. The caller decides the id, as in
the original (docs/origin.md).
"""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from uuid import UUID

import structlog
from billiard.exceptions import SoftTimeLimitExceeded
from billiard.pool import SIG_SOFT_TIMEOUT, soft_timeout_sighandler
from celery import Task
from celery.exceptions import Reject
from celery.result import AsyncResult
from celery.signals import (
    setup_logging,
    worker_init,
    worker_process_shutdown,
    worker_shutdown,
)

import tracing
from celery_app import routing
from celery_app.app import app
from celery_app.logs import configure_worker_logs
from celery_app.lost_children import make_worker_name
from celery_app.routing import EXECUTE_SCHEDULED_ACTION, EXECUTE_SCHEDULED_ACTION_QUICK
from celery_app.worker import get_worker, stop_worker
from models.errors import TimeLimitError, UnreachableError, UsageError
from models.operation_state import FINAL_STATES, OperationState, Reason
from operations.claiming.claim import claim_operation
from operations.claiming.heart import Worker
from operations.running.attempt import Attempt
from settings import read_settings
from telemetry import OPERATIONS_FINISHED, Event


class EnforcedIdTask(Task):  # type: ignore[misc]  # Celery has no type hints
    """
    Takes ``enforce_task_id`` in ``delay`` and ``apply_async``.

    Celery does not drop a second message with the same id; the claim does.
    """

    def delay(
        self, *args: Any, enforce_task_id: UUID | str | None = None, **kwargs: Any
    ) -> AsyncResult[Any]:
        """Send the task with *args* and *kwargs*, under the id given."""
        return self.apply_async(args, kwargs, enforce_task_id=enforce_task_id)

    def apply_async(
        self, *args: Any, enforce_task_id: UUID | str | None = None, **options: Any
    ) -> AsyncResult[Any]:
        """Send the task as Celery does; *enforce_task_id* beats ``task_id``."""
        if enforce_task_id is not None:
            options["task_id"] = str(enforce_task_id)
        result: AsyncResult[Any] = super().apply_async(*args, **options)
        return result


log = structlog.get_logger()

#: Seconds before a message goes back because the database is away.
PAUSE_S = 1.0


# Shared with every Celery application of the process, which is Celery's default: a pool
# of threads (minutehand up) looks up tasks in the current application, never in ours.


@app.task(name=EXECUTE_SCHEDULED_ACTION, base=EnforcedIdTask, bind=True)
def execute_scheduled_action(self: Any, triggerrer: str = "") -> None:  # noqa: ARG001 - for people who look at messages; the row has it too
    """Run an operation that refreshes or publishes."""
    _execute(self.request)


@app.task(name=EXECUTE_SCHEDULED_ACTION_QUICK, base=EnforcedIdTask, bind=True)
def execute_scheduled_action_quick(self: Any, triggerrer: str = "") -> None:  # noqa: ARG001
    """Run any other operation."""
    _execute(self.request)


@app.task(name=routing.metatask_schedule, base=EnforcedIdTask, bind=True)
def metatask_schedule(self: Any, triggerrer: str = "") -> None:  # noqa: ARG001
    """Run the scheduler's own maintenance."""
    _execute(self.request)


def _execute(request: Any) -> None:
    try:
        worker = get_worker()
    except UsageError as error:
        # Another worker, of the right version, may take the message.
        log.error(Event.SCHEMA_REFUSED, error=str(error))  # noqa: TRY400 - no bug
        time.sleep(PAUSE_S)
        raise Reject(str(error), requeue=True) from error
    except UnreachableError as error:
        raise _put_back(error) from error
    try:
        sent_by = tracing.read_traceparent(request.get(tracing.HEADER))
        name = make_worker_name(worker.node or request.hostname)
        execute(worker, request.id, name, sent_by)
    except UnreachableError as error:
        raise _put_back(error) from error


def _put_back(error: UnreachableError) -> Reject:
    """Wait a moment, and return the exception that puts the message back."""
    # Nothing was claimed. If we dropped the message, the leader would notice its loss
    # only after minutes.
    log.warning(Event.DATABASE_UNREACHABLE, error=str(error))
    time.sleep(PAUSE_S)
    return Reject(str(error), requeue=True)


def execute(
    worker: Worker,
    task_id: str,
    worker_name: str,
    sent_by: tracing.TracePlace | None = None,
) -> None:
    """
    Claim the operation *task_id* and run it; drop the message if the claim fails.

    Args:
        worker: The worker of this process.
        task_id: The operation's id, which is the Celery task's.
        worker_name: For the operator, such as ``celery@host``.
        sent_by: The span of the batch in which the message was sent, if it was traced.

    Raises:
        UnreachableError: The database is away, and nothing was claimed: somebody must
            still take the message.
    """
    began_ns = time.time_ns()
    claim = claim_operation(
        worker.engine, UUID(task_id), worker=worker_name, lease=worker.heart.lease
    )
    if claim is None:
        log.info(Event.OPERATION_NOT_CLAIMED, task_id=task_id, worker=worker_name)
        return
    attempt = Attempt(worker.engine, claim, worker.ports, monotonic=worker.monotonic)
    began_at = worker.monotonic()
    worker.heart.add(claim)
    facts: dict[str, Any] = {
        "task_id": task_id,
        "action_uid": claim.action_uid,
        "app": claim.app,
        "queue": claim.queue,
        "worker": worker_name,
        "attempt": claim.attempt,
    }
    with (
        tracing.begin(
            "operation",
            at=tracing.find_operation(claim.operation_id, sent_by),
            links=[sent_by, tracing.find_post(claim.action_uid, claim.action_revision)],
            kind="CONSUMER",
            since_ns=began_ns,
            **facts,
        ) as span,
        structlog.contextvars.bound_contextvars(**facts),
    ):
        tracing.begin("claim", since_ns=began_ns).end()
        try:
            state = _run(attempt)
        except UnreachableError as error:
            if not attempt.put_back(error):
                # Nothing can be written: the lease runs out, and any worker goes on.
                log.warning(Event.CLAIM_LOST, error=str(error))
                return
            state = OperationState.PENDING
        finally:
            worker.heart.remove(claim)
        if state is not None:
            span.note(state=state)
            duration_s = round(worker.monotonic() - began_at, 3)
            log.info(Event.OPERATION_FINISHED, state=state, duration_s=duration_s)
        if state in FINAL_STATES:
            OPERATIONS_FINISHED.labels(state).inc()


def _run(attempt: Attempt) -> OperationState | None:
    """Run *attempt* to its end, whatever a step does; None if it was taken from us."""
    try:
        with noticing_time_limit() as is_overdue:
            return _run_within_limit(attempt, is_overdue)
    except UnreachableError:
        raise
    except (SoftTimeLimitExceeded, TimeLimitError):
        error_text = "the soft time limit was reached"
        log.warning(Event.STEP_FAILED, error=error_text, again=False)
        return attempt.fail(error_text, reason=Reason.TIME_LIMIT)
    except Exception as error:
        # The row must reach a final state.
        log.exception(Event.OPERATION_CRASHED)
        return attempt.fail(f"{type(error).__name__}: {error}", crash=error)


@contextmanager
def noticing_time_limit() -> Iterator[Callable[[], bool]]:
    """
    Give a function that tells whether the soft limit was reached within the block.

    It is noticed whatever becomes of its exception. The pool's parent sends a signal,
    whose handler raises that in the main thread, wherever it is. Most code lets it
    pass, but a C library may turn it into an error of its own, and a clean-up may drop
    it. So the handler also leaves a note.

    Without a pool of processes (threads, ``minutehand up``) no signal is sent, and the
    function always returns False.
    """
    in_main = threading.current_thread() is threading.main_thread()
    in_pool = signal.getsignal(SIG_SOFT_TIMEOUT) is soft_timeout_sighandler
    if not (in_main and in_pool):
        yield lambda: False
        return
    reached = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        reached.set()
        soft_timeout_sighandler(number, frame)

    signal.signal(SIG_SOFT_TIMEOUT, note)
    try:
        yield reached.is_set
    finally:
        signal.signal(SIG_SOFT_TIMEOUT, soft_timeout_sighandler)


def _run_within_limit(
    attempt: Attempt, is_overdue: Callable[[], bool]
) -> OperationState | None:
    try:
        return attempt.run(is_overdue)
    except Exception as error:
        # Whatever became of the exception, the time limit is what to report.
        if is_overdue():
            raise TimeLimitError from error
        raise


@setup_logging.connect
def _configure_logging(**_arguments: object) -> None:
    """Log as the scheduler does; once this is connected, Celery sets up no logging."""
    configure_worker_logs(read_settings())


@worker_init.connect
def _spare_what_stays(**_arguments: object) -> None:
    """Exclude what is loaded by now from garbage collection."""
    gc.freeze()


@worker_process_shutdown.connect
@worker_shutdown.connect
def _give_back(**_arguments: object) -> None:
    stop_worker()
