"""
A worker's claim on an operation: take it, keep it, write under it, give it up.

Each function is one conditional statement, or one transaction that begins with one, and
returns whether it won. All but the claim itself need the token of the claim.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NoReturn
from uuid import UUID, uuid4

import sqlalchemy as sa

from models.back_off import LEASE
from models.database.engine import db_now, execute_at_once, writing
from models.database.tables import NO_CLAIM, operations
from models.errors import CanceledError, ClaimLostError
from models.operation import order_steps
from models.operation_state import OperationState, Overlap, Queue, Reason
from operations.claiming.claimed import Claim, can_nothing_stop
from operations.claiming.statements import (
    begin_statement,
    claim_and_begin_statement,
    claim_statement,
)
from operations.following import IS_FOLLOWED, record_following
from operations.turns import PAUSED

_run = operations.c


def claim_operation(
    engine: sa.Engine, operation_id: UUID, *, worker: str, lease: timedelta = LEASE
) -> Claim | None:
    """
    Try to take an operation for one attempt.

    If this is the first attempt, and nothing can stop the operation, its steps are
    inserted together with the claim, and the first one starts: see ``Claim.begun``.

    Args:
        engine: The worker's engine.
        operation_id: Also the id of the Celery task.
        worker: Name for the operator, such as ``celery@host``.
        lease: How long the claim lasts without renewal.

    Returns:
        None if another worker has claimed it, it is final or not yet to be sent, its
        queue is paused, another heavy operation of the app is claimed, or another one
        is ahead of it (``overlap: queue``). Then the message is dropped: the leader
        sends another one when it is time.
    """
    values = {"operation_id": operation_id, "token": uuid4(), "worker": worker}
    take = _take_at_once if engine.dialect.name == "postgresql" else _take
    try:
        claim = take(engine, values, lease)
    except sa.exc.IntegrityError:
        claim = None  # another one was claimed while our statement ran
    if claim is None:
        _hand_back(engine, operation_id)
    return claim


def _take_at_once(
    engine: sa.Engine, values: dict[str, object], lease: timedelta
) -> Claim | None:
    row = execute_at_once(engine, claim_and_begin_statement(lease), values)
    return None if row is None else _make_claim(row, lease)


def _take(
    engine: sa.Engine, values: dict[str, object], lease: timedelta
) -> Claim | None:
    with writing(engine) as connection:
        row = connection.execute(claim_statement(lease), values).one_or_none()
        if row is None:
            return None
        claim = _make_claim(row, lease)
        names = _find_first_steps(claim)
        if not names:
            return claim
        begun = connection.execute(begin_statement(names), {"claimed_id": row.id})
        return replace(claim, begun=len(begun.all()))


def _find_first_steps(claim: Claim) -> tuple[str, ...]:
    """Return the steps to insert with the claim, as PostgreSQL's statement does."""
    if claim.attempt > 1 or not can_nothing_stop(claim):
        return ()
    asked = claim.document["operations"]
    # A newer version of Minutehand may have steps that this one does not know.
    return order_steps(asked)


def _make_claim(row: Any, lease: timedelta) -> Claim:
    found = {**row._asdict(), "details": row.details or {}, "lease": lease}
    return Claim(operation_id=found.pop("id"), token=found.pop("claim_token"), **found)


def _hand_back(engine: sa.Engine, operation_id: UUID) -> None:
    """
    Let the leader send it again when it may run: its message is dropped now.

    The leader may not have marked that message as sent yet. So ``send_at`` moves: the
    mark, which names the former one, then changes nothing.
    """
    waits = sa.and_(_run.state == OperationState.PENDING, _run.send_at <= db_now())
    with writing(engine) as connection:
        connection.execute(
            sa.update(operations)
            .where(
                _run.id == operation_id,
                sa.or_(_run.state == OperationState.QUEUED, waits),
                sa.or_(
                    _run.queue == Queue.HEAVY,
                    _run.overlap == Overlap.QUEUE,
                    _run.queue.in_(PAUSED),
                ),
            )
            .values(
                state=OperationState.PENDING,
                send_at=sa.case((waits, db_now()), else_=_run.send_at),
            )
        )


def renew(
    engine: sa.Engine, tokens: Collection[UUID], *, lease: timedelta = LEASE
) -> set[UUID]:
    """
    Extend the leases of *tokens*; return the tokens that are still ours.

    A canceled operation is ours until we let go of it.
    """
    if not tokens:
        return set()
    with writing(engine) as connection:
        renewed = connection.execute(_renew_statement(lease), {"tokens": list(tokens)})
        return set(renewed.scalars())


@cache
def _renew_statement(lease: timedelta) -> sa.Executable:
    return (
        sa.update(operations)
        .where(_run.claim_token.in_(sa.bindparam("tokens", expanding=True)))
        .values(lease_expires_at=db_now(lease))
        .returning(_run.claim_token)
    )


def guard(connection: sa.Connection, claim: Claim) -> datetime:
    """
    Lock the operation until the transaction ends, if it is still ours.

    Returns:
        The database's clock, aware UTC.

    Raises:
        CanceledError: Somebody canceled the operation.
        ClaimLostError: Another worker has claimed the operation, or it is final.
    """
    now: datetime | None = connection.execute(
        _guard_statement(claim.lease), _ours(claim)
    ).scalar_one_or_none()
    if now is None:
        raise_lost(connection, claim)
    return now


@cache
def _guard_statement(lease: timedelta) -> sa.Executable:
    return (
        sa.update(operations)
        .where(*_IS_OURS)
        .values(lease_expires_at=db_now(lease))
        .returning(db_now())
    )


#: The condition of every write under a claim; ``_ours`` gives its parameters.
_IS_OURS = (
    _run.id == sa.bindparam("claimed_id"),
    _run.claim_token == sa.bindparam("claimed_token"),
    _run.state == OperationState.RUNNING,
)


def _ours(claim: Claim) -> dict[str, UUID]:
    return {"claimed_id": claim.operation_id, "claimed_token": claim.token}


def raise_lost(connection: sa.Connection, claim: Claim) -> NoReturn:
    """
    Say why a write under *claim* found nothing to change.

    Raises:
        CanceledError, ClaimLostError: As for ``guard``.
    """
    state = connection.execute(
        sa.select(_run.state).where(_run.id == claim.operation_id)
    ).scalar_one_or_none()
    if state == OperationState.CANCELED:
        raise CanceledError(f"operation {claim.operation_id} was canceled")
    msg = f"operation {claim.operation_id} is no longer ours (it is {state or 'gone'})"
    raise ClaimLostError(msg)


def finish(
    connection: sa.Connection,
    claim: Claim,
    state: OperationState,
    *,
    reason: str | None = None,
    error: str | None = None,
    is_end: bool = True,
) -> bool:
    """
    Make the operation final; False if it is not ours any more: nothing changed.

    Args:
        is_end: Whether other actions follow. False: it had ended before.
    """
    values = {"final_state": state, "final_reason": reason, "final_error": error}
    is_followed = connection.execute(
        _told_finish_statement(), {**_ours(claim), **values}
    ).scalar_one_or_none()
    if is_followed and is_end:
        record_following(connection, [claim.operation_id])
    return is_followed is not None


@cache
def _told_finish_statement() -> sa.Executable:
    return finish_statement().returning(IS_FOLLOWED)


@cache
def finish_statement() -> sa.Update:
    """Return the statement that makes an operation final, if it is still ours."""
    return (
        sa.update(operations)
        .where(*_IS_OURS)
        .values(
            **NO_CLAIM,
            state=sa.bindparam("final_state"),
            reason=sa.bindparam("final_reason"),
            error=sa.bindparam("final_error"),
            finished_at=db_now(),
        )
    )


def retry_later(
    connection: sa.Connection, claim: Claim, *, delay: timedelta, error: str
) -> bool:
    """Put the operation back for another attempt after *delay*; False if not ours."""
    return _leave(
        connection, claim, reason=Reason.STEP_FAILED, error=error, send_at=db_now(delay)
    )


def postpone(
    connection: sa.Connection,
    claim: Claim,
    *,
    delay: timedelta,
    reason: str,
    error: str,
) -> bool:
    """
    Make the operation pending for *delay*; this attempt does not count.

    For trouble that is not the action's fault, however often it happens.

    Args:
        claim: It ends here.
        delay: From now, by the database's clock.
        reason: A ``Reason``, and free text after ": ".
        error: For the operator, in full.

    Returns:
        False if it is no longer ours, and nothing changed.
    """
    why = {"reason": reason, "error": error}
    uncounted = _run.attempt - 1
    return _leave(connection, claim, attempt=uncounted, send_at=db_now(delay), **why)


def await_task(
    connection: sa.Connection, claim: Claim, *, within: timedelta, what: str
) -> bool:
    """
    Make the operation pending until its answer ends it, or for *within* at most.

    Args:
        claim: It ends here.
        within: From now, by the database's clock.
        what: What is waited for, for people.

    Returns:
        False if it is no longer ours, and nothing changed.
    """
    why = {"reason": f"{Reason.TASK}: {what}", "error": None}
    times = {"send_at": db_now(within), "sent_at": db_now()}
    return _leave(connection, claim, **times, **why)


def find_end(connection: sa.Connection, claim: Claim) -> OperationState:
    """
    Return how the operation ended, if its answer was faster than its worker.

    Raises:
        CanceledError, ClaimLostError: As for ``guard``.
    """
    ended = connection.execute(
        sa.select(_run.state).where(
            _run.id == claim.operation_id,
            _run.attempt == claim.attempt,
            _run.finished_at.is_not(None),
            _run.state != OperationState.CANCELED,
        )
    ).scalar_one_or_none()
    if ended is None:
        raise_lost(connection, claim)
    return OperationState(ended)


def give_back(engine: sa.Engine, claim: Claim) -> bool:
    """Make the operation pending, as this worker stops; the attempt does not count."""
    with writing(engine) as connection:
        given_back = _leave(
            connection, claim, attempt=_run.attempt - 1, send_at=db_now()
        )
        if not given_back:
            let_go(connection, claim)
        return given_back


def let_go(connection: sa.Connection, claim: Claim) -> bool:
    """
    End the claim on an operation that was canceled and has stopped running.

    Until then, or until the lease runs out, nobody can claim the operation if it is
    retried, nor another heavy operation of its app.

    Returns:
        Whether the claim was ours until now.
    """
    let = connection.execute(
        sa.update(operations)
        .where(
            _run.id == claim.operation_id,
            _run.claim_token == claim.token,
            _run.state != OperationState.RUNNING,
        )
        .values(**NO_CLAIM)
    )
    return let.rowcount == 1


def _leave(connection: sa.Connection, claim: Claim, **values: object) -> bool:
    """Make the operation pending, with *values*; False if it is not ours any more."""
    pending = {**NO_CLAIM, "state": OperationState.PENDING, **values}
    left = sa.update(operations).where(*_IS_OURS).values(pending)
    return connection.execute(left, _ours(claim)).rowcount == 1
