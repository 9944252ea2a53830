"""Cancel or retry one operation; bulk.py does it with many."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import db_now
from models.database.journal import note_change
from models.database.tables import (
    LIVE,
    operations,
    scheduled_action_revisions,
    scheduled_actions,
)
from models.errors import ConflictError, UsageError
from models.fields.strict_model import find_near
from models.operation import order_steps
from models.operation_state import OperationState, Overlap, Reason, StepState
from operations.back_off import ATTEMPTS
from operations.claiming.obstacles import RETURN_KEY, STEPS_KEY
from operations.list_operations import fetch_steps, make_unknown
from operations.operation_filter import belongs_to
from operations.running.step_records import reset_steps, skip_open_steps

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


def cancel_or_refuse(
    connection: sa.Connection,
    operation_id: UUID,
    *,
    app: str | None = None,
    note: str | None = None,
) -> None:
    """
    Cancel an operation because somebody asks for it.

    Args:
        connection: Of ``writing``, which knows who asks.
        app: Uid of the small app that it must belong to. None: any.
        note: Why, for the record of changes.

    Raises:
        NotFoundError: There is no such operation.
        ConflictError: The operation is already final.
    """
    row = _lock(connection, operation_id, app)
    if not cancel(connection, operation_id, reason=Reason.CANCELED):
        msg = f"operation {operation_id} is already {row.state}"
        raise ConflictError(msg)
    note_change_of_state(
        connection, row, "canceled", to=OperationState.CANCELED, note=note
    )


def retry_or_refuse(
    connection: sa.Connection,
    operation_id: UUID,
    *,
    from_step: str | None = None,
    app: str | None = None,
    note: str | None = None,
) -> None:
    """
    Let an operation run again because somebody asks for it.

    Args:
        connection: Of ``writing``, which knows who asks.
        from_step: The step with which to begin: it and all after it run again, whether
            or not they succeeded. None: the first step that has not succeeded.
        app: Uid of the small app that it must belong to. None: any.
        note: Why, for the record of changes.

    Raises:
        NotFoundError: There is no such operation.
        UsageError: The operation has no such step.
        ConflictError: The operation is neither failed nor canceled, or its ``overlap``
            is skip and another run of its action is under way; or a step before
            *from_step* has not succeeded.
    """
    lock_action_of(connection, operation_id, app)
    row = _lock(connection, operation_id, app)
    again = None
    if from_step is not None and row.state in RETRIED_STATES:
        again = _find_again(connection, row, from_step)
    if not reopen(connection, operation_id):
        raise ConflictError(_describe_refusal(connection, row))
    if again is not None:
        _begin_again(connection, row, again)
    note_change_of_state(
        connection,
        row,
        "retried",
        to=OperationState.PENDING,
        note=note,
        **({} if from_step is None else {"from_step": from_step}),
    )


def _describe_refusal(connection: sa.Connection, row: sa.Row[Any]) -> str:
    beside = get_live_beside(connection, row.id)
    if beside is not None:
        return (
            f"operation {beside} of the same action is under way, and the overlap of "
            "the action is skip; wait for that operation, or cancel it"
        )
    return (
        f"operation {row.id} is {row.state}; "
        "only failed and canceled operations can be run again"
    )


def _lock(
    connection: sa.Connection, operation_id: UUID, app: str | None
) -> sa.Row[Any]:
    """Lock an operation, and return what it is now."""
    columns = operations.c
    row: Any = connection.execute(
        sa.select(
            *(columns.id, columns.app, columns.state, columns.reason),
            *(columns.action_uid, columns.action_revision, columns.details),
        )
        .where(columns.id == operation_id, *belongs_to(app))
        .with_for_update()
    ).one_or_none()
    if row is None:
        raise make_unknown(operation_id)
    locked: sa.Row[Any] = row
    return locked


def _find_again(
    connection: sa.Connection, row: sa.Row[Any], from_step: str
) -> list[str]:
    """
    Return the steps that run again if *from_step* is the first of them.

    Raises:
        UsageError: The operation has no such step.
        ConflictError: A step before it has not succeeded: what follows may need it.
    """
    kept = fetch_steps(connection, [row.id]).get(row.id, [])
    states = {step.name: step.state for step in kept}
    # Before its first claim, an operation has no rows of steps.
    names = list(states) or _fetch_step_names(connection, row)
    # Of a run for which somebody chose some steps, the others stay skipped.
    chosen = (row.details or {}).get(STEPS_KEY, names)
    names = [name for name in names if name in chosen]
    if from_step not in names:
        near = find_near(from_step, names)
        meant = "" if near is None else f"Did you mean {near!r}? "
        msg = (
            f"operation {row.id} has no step {from_step!r}."
            f" {meant}Its steps: {', '.join(names)}."
        )
        raise UsageError(msg)
    place = names.index(from_step)
    undone = [n for n in names[:place] if states.get(n) != StepState.SUCCEEDED]
    if undone:
        msg = (
            f"the step {undone[0]!r}, before {from_step!r}, has not succeeded."
            f" Begin with {undone[0]!r}, or name no step"
        )
        raise ConflictError(msg)
    return names[place:]


def _fetch_step_names(connection: sa.Connection, row: sa.Row[Any]) -> list[str]:
    columns = scheduled_action_revisions.c
    document = connection.execute(
        sa.select(columns.document).where(
            columns.uid == row.action_uid, columns.revision == row.action_revision
        )
    ).scalar_one_or_none()
    asked = (document or {}).get("operations", {})
    return list(order_steps(asked))


def _begin_again(connection: sa.Connection, row: sa.Row[Any], again: list[str]) -> None:
    """Forget what the steps *again* did, but for the marks of their mails."""
    reset_steps(connection, row.id, again)
    values: dict[str, Any] = {"progress": None}
    if row.details and RETURN_KEY in row.details:
        # Uncertain mails were to be sent again, and the operation was to return to its
        # former state then. Now it runs as a whole.
        kept = {key: each for key, each in row.details.items() if key != RETURN_KEY}
        values["details"] = kept or None
    connection.execute(
        sa.update(operations).where(operations.c.id == row.id).values(**values)
    )


def note_change_of_state(
    connection: sa.Connection,
    row: sa.Row[Any],
    change: Literal["canceled", "retried"],
    *,
    to: OperationState,
    note: str | None = None,
    **more: str,
) -> None:
    """
    Note in the record of changes that somebody changed the state of an operation.

    Args:
        row: The operation as it was: its id, app and state.
        change: What was done.
        to: The state that it has now.
        more: What else there is to know, besides the state.
    """
    note_change(
        connection,
        "operation",
        str(row.id),
        change,
        app=row.app,
        before={"state": row.state},
        after={"state": to.value, **more},
        note=note,
    )


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
    lock_action_of(connection, operation_id)
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


def lock_action_of(
    connection: sa.Connection, operation_id: UUID, app: str | None = None
) -> None:
    """
    Lock the action of an operation, always before the operation itself.

    Until the commit, ``overlap`` finds the same operations live: see ``record``. With
    *app*, no action of another small app is locked.
    """
    action_uid = sa.select(operations.c.action_uid).where(
        operations.c.id == operation_id, *belongs_to(app)
    )
    connection.execute(
        sa.select(scheduled_actions.c.uid)
        .where(scheduled_actions.c.uid == action_uid.scalar_subquery())
        .with_for_update()
    )


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
