"""Cancel or retry one operation; bulk.py does it with many."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import (
    db_now,
)
from models.database.tables import LIVE, operations, scheduled_actions
from models.errors import ConflictError, NotFoundError
from models.operation_state import (
    OperationState,
    Overlap,
    Reason,
)
from operations.back_off import ATTEMPTS
from operations.running.step_records import skip_open_steps

#: The states that a retry reopens.
RETRIED_STATES = frozenset({OperationState.FAILED, OperationState.CANCELED})

#: The values that make an operation pending again.
REOPENED: Mapping[str, Any] = MappingProxyType(
    {
        "state": OperationState.PENDING,
        "reason": None,
        "error": None,
        "finished_at": None,
        "send_at": db_now(),
        # The first copy of its message may still be on its way, ahead of later ones. So
        # its run does not prove that other messages were lost (rescue.py).
        "sends": sa.case((operations.c.sends > 0, 1), else_=0),
        "kills": 0,
        "attempts_allowed": operations.c.attempt + ATTEMPTS,
    }
)


def cancel_or_refuse(connection: sa.Connection, operation_id: UUID) -> None:
    """
    Cancel an operation because somebody asks for it.

    Raises:
        NotFoundError: There is no such operation.

        ConflictError: The operation is already final.
    """
    if not cancel(connection, operation_id, reason=Reason.CANCELED):
        state = _fetch_state(connection, operation_id)
        msg = f"operation {operation_id} is already {state}"
        raise ConflictError(msg)


def retry_or_refuse(connection: sa.Connection, operation_id: UUID) -> None:
    """
    Let an operation run again because somebody asks for it.

    Raises:
        NotFoundError: There is no such operation.

        ConflictError: The operation is neither failed nor canceled, or its ``overlap``
            is skip and another run of its action is under way.
    """
    if reopen(connection, operation_id):
        return
    state = _fetch_state(connection, operation_id)
    beside = get_live_beside(connection, operation_id)
    if beside is not None:
        msg = (
            f"operation {beside} of the same action is under way, and the overlap of "
            "the action is skip; wait for that operation, or cancel it"
        )
    else:
        msg = (
            f"operation {operation_id} is {state}; "
            "only failed and canceled operations can be run again"
        )
    raise ConflictError(msg)


def _fetch_state(connection: sa.Connection, operation_id: UUID) -> str:
    state: str | None = connection.execute(
        sa.select(operations.c.state).where(operations.c.id == operation_id)
    ).scalar_one_or_none()
    if state is None:
        msg = f"there is no operation {operation_id}"
        raise NotFoundError(msg)
    return state


def cancel(connection: sa.Connection, operation_id: UUID, *, reason: str) -> bool:
    """
    Cancel an operation that is not final; a running one stops at its next progress.

    Its worker keeps the claim until it has stopped: see ``claim.let_go``.

    Returns:
        False if the operation is already final, or unknown.
    """
    canceled = connection.execute(
        sa.update(operations)
        .where(operations.c.id == operation_id, LIVE.of())
        .values(
            state=OperationState.CANCELED,
            reason=reason,
            finished_at=db_now(),
        )
    )
    if canceled.rowcount == 0:
        return False
    skip_open_steps(connection, operation_id)
    return True


def reopen(connection: sa.Connection, operation_id: UUID) -> bool:
    """
    Make a failed or canceled operation pending again: same row, same id.

    It continues at the first step that has not succeeded, with three more attempts.
    Delivery marks are kept, so nobody gets a mail twice. If its worker has not yet
    noticed a cancellation, the operation waits until it has.

    Locks the row of the action until the commit, as ``record`` expects: meanwhile the
    operations that ``overlap`` finds live cannot change.

    Returns:
        False if the operation is in another state, or unknown, or ``get_live_beside``
        is not None.
    """
    action_uid = sa.select(operations.c.action_uid).where(
        operations.c.id == operation_id
    )
    connection.execute(
        sa.select(scheduled_actions.c.uid)
        .where(scheduled_actions.c.uid == action_uid.scalar_subquery())
        .with_for_update()
    )
    reopened = connection.execute(
        sa.update(operations)
        .where(
            operations.c.id == operation_id,
            operations.c.state.in_(sorted(RETRIED_STATES)),
            ~is_beside_live(),
        )
        .values(**REOPENED)
    )
    return reopened.rowcount == 1


def get_live_beside(connection: sa.Connection, operation_id: UUID) -> UUID | None:
    """Return the live operation beside which ``overlap: skip`` forbids this one."""
    return connection.execute(
        _select_live_beside().where(operations.c.id == operation_id).limit(1)
    ).scalar_one_or_none()


def is_beside_live() -> sa.Exists:
    """Match operations with ``overlap: skip`` beside which another one is live."""
    return _select_live_beside().exists()


def _select_live_beside() -> sa.Select[UUID]:
    """Select the live operations of the same action and user, for ``overlap: skip``."""
    other = operations.alias("other")
    return sa.select(other.c.id).where(
        operations.c.overlap == Overlap.SKIP,
        other.c.id != operations.c.id,
        other.c.action_uid == operations.c.action_uid,
        other.c.user_id.is_not_distinct_from(operations.c.user_id),
        LIVE.of("other"),
    )
