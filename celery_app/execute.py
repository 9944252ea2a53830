"""
What a worker does with a message: claim the operation it names, and run it.

Whatever a message says, the table decides: a second copy of a message finds the
operation claimed or done, and is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import structlog
from billiard.exceptions import SoftTimeLimitExceeded

from celery_app.time_limit import noticing_time_limit
from celery_app.worker import Worker
from models.errors import TimeLimitError, UnreachableError
from models.operation_state import FINAL_STATES, OperationState, Reason
from operations.claiming.claim import claim_operation
from operations.running.attempt import Attempt
from telemetry import OPERATIONS_FINISHED, Event

log = structlog.get_logger()


def execute(worker: Worker, task_id: str, worker_name: str) -> None:
    """
    Claim the operation *task_id* and run it; drop the message if it is not ours.

    Args:
        worker: Of this process.

        task_id: The operation's id, which is the Celery task's.

        worker_name: For the operator, such as ``celery@host``.

    Raises:
        UnreachableError: The database is away, and nothing was claimed: the message
            is still to be taken by somebody.
    """
    claim = claim_operation(
        worker.engine, UUID(task_id), worker=worker_name, lease=worker.lease
    )
    if claim is None:
        log.info(Event.OPERATION_NOT_CLAIMED, task_id=task_id, worker=worker_name)
        return
    attempt = Attempt(worker.engine, claim, worker.ports, monotonic=worker.monotonic)
    began_at = worker.monotonic()
    worker.heart.add(claim)
    with structlog.contextvars.bound_contextvars(
        task_id=task_id,
        action_uid=claim.action_uid,
        app=claim.app,
        queue=claim.queue,
        worker=worker_name,
        attempt=claim.attempt,
    ):
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
        return attempt.fail(f"{type(error).__name__}: {error}")


def _run_within_limit(
    attempt: Attempt, is_overdue: Callable[[], bool]
) -> OperationState | None:
    try:
        return attempt.run(is_overdue)
    except Exception as error:
        # Whatever was made of it: that the time was up is what there is to say.
        if is_overdue():
            raise TimeLimitError from error
        raise
