"""Cancel an operation, or let one that is over run again; bulk.py does it to many."""

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

#: What a retry reopens.
RETRIED_STATES = frozenset({OperationState.FAILED, OperationState.CANCELED})

#: What is written into an operation that is to run again.
REOPENED: Mapping[str, Any] = MappingProxyType(
    {
        "state": OperationState.PENDING,
        "reason": None,
        "error": None,
        "finished_at": None,
        "send_at": db_now(),
        # Its first copy may still be on its way, ahead of what was sent since: it is
        # no witness that others were lost (rescue.py).
        "sends": sa.case((operations.c.sends > 0, 1), else_=0),
        "kills": 0,
        "attempts_allowed": operations.c.attempt + ATTEMPTS,
    }
)


def cancel_or_refuse(connection: sa.Connection, operation_id: UUID) -> None:
    """
    Cancel an operation because somebody asks for it.

    Raises:
        NotFoundError: There is none of that id.

        ConflictError: It is final already.
    """
    if not cancel(connection, operation_id, reason=Reason.CANCELED):
        state = _fetch_state(connection, operation_id)
        msg = f"operation {operation_id} is {state} already"
        raise ConflictError(msg)


def retry_or_refuse(connection: sa.Connection, operation_id: UUID) -> None:
    """
    Let an operation run again because somebody asks for it.

    Raises:
        NotFoundError: There is none of that id.

        ConflictError: It is neither failed nor canceled, or its ``overlap`` is skip and
            another run of its action is under way.
    """
    if reopen(connection, operation_id):
        return
    state = _fetch_state(connection, operation_id)
    beside = get_live_beside(connection, operation_id)
    if beside is not None:
        msg = (
            f"operation {beside} of the action is under way, "
            "and its overlap is skip; wait for it, or cancel it"
        )
    else:
        msg = (
            f"operation {operation_id} is {state}; "
            "only failed and canceled ones are run again"
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
    Cancel an operation that is not final; one that runs stops at its next progress.

    Its worker keeps the claim until it has stopped: see ``claim.let_go``.

    Returns:
        False if it is final already, or unknown.
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

    It goes on at the first step that has not succeeded, with three more attempts;
    delivery marks stay, so nobody gets a mail twice. If a worker has not yet noticed
    that it was canceled, it waits for that.

    Holds the row of the action until the commit, as do those who record: what
    ``overlap`` finds live cannot change before.

    Returns:
        False if it is in another state, or unknown, or ``get_live_beside`` is not None.
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
    """Return what is not final, if ``overlap: skip`` lets nothing run beside it."""
    return connection.execute(
        _select_live_beside().where(operations.c.id == operation_id).limit(1)
    ).scalar_one_or_none()


def is_beside_live() -> sa.Exists:
    """Match an operation beside which, by ``overlap: skip``, another is live."""
    return _select_live_beside().exists()


def _select_live_beside() -> sa.Select[UUID]:
    """Select what is live of the same action and user, if an operation is to skip."""
    other = operations.alias("other")
    return sa.select(other.c.id).where(
        operations.c.overlap == Overlap.SKIP,
        other.c.id != operations.c.id,
        other.c.action_uid == operations.c.action_uid,
        other.c.user_id.is_not_distinct_from(operations.c.user_id),
        LIVE.of("other"),
    )
