"""
Cancel or retry operations: one that somebody names, or a page of many.

The rules stand once, in the statements that change a set: one operation is a set of
one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.back_off import ATTEMPTS
from models.database.engine import db_now
from models.database.journal import note_change
from models.database.lists import belongs_to, select_given
from models.database.tables import (
    IS_REVISION,
    LIVE,
    operations,
    scheduled_action_revisions,
    scheduled_actions,
)
from models.errors import ConflictError
from models.operation_state import LIVE_STATES, OperationState, Overlap, Queue, Reason
from operations.following import record_following
from operations.list_operations import make_unknown
from operations.record import QUEUE_LIMIT, count_live
from operations.retry_from_step import find_repeated, repeat_steps
from operations.running.step_records import skip_open_steps

_action = scheduled_actions.c

_run = operations.c


class OperationChange(StrEnum):
    """What may be done to operations."""

    CANCEL = "cancel"
    RETRY = "retry"


#: The states that a retry reopens.
RETRIED_STATES = frozenset({OperationState.FAILED, OperationState.CANCELED})

#: The states to which each change applies.
CHANGEABLE: Mapping[OperationChange, frozenset[OperationState]] = MappingProxyType(
    {OperationChange.CANCEL: LIVE_STATES, OperationChange.RETRY: RETRIED_STATES}
)

#: Why an operation was left as it was, unless a ``Reason`` says it.
CHANGED = "changed meanwhile"

#: The last attempt of an operation that is retried. What was canceled may have been
#: sent to its own queue unmarked, in an attempt that nobody has counted: it is counted
#: now, so that the answer to it does not end the retry.
_LAST_ATTEMPT = _run.attempt + sa.case(
    (sa.and_(_run.state == OperationState.CANCELED, _run.queue == Queue.TASKS), 1),
    else_=0,
)

#: As many more as its action gave it at first.
_ATTEMPTS_AGAIN = 1 + sa.func.coalesce(
    sa.select(scheduled_action_revisions.c.document["retries"].as_integer())
    .where(IS_REVISION)
    .scalar_subquery(),
    ATTEMPTS - 1,
)

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
        "sends": sa.case((_run.sends > 0, 1), else_=0),
        "kills": 0,
        "attempt": _LAST_ATTEMPT,
        "attempts_allowed": _LAST_ATTEMPT + _ATTEMPTS_AGAIN,
        # Its monitor hears of it again; null, if it has none, stays null.
        "pinged": _run.pinged * 0,
        "ping_error": None,
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
        raise ConflictError(f"operation {operation_id} is already {row.state}")
    note_change_of_state(connection, row, OperationChange.CANCEL, note)


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
        again = find_repeated(connection, row, from_step)
    if not reopen(connection, operation_id):
        raise ConflictError(_describe_refusal(connection, row))
    if again is not None:
        repeat_steps(connection, row, again)
    more = {} if from_step is None else {"from_step": from_step}
    note_change_of_state(connection, row, OperationChange.RETRY, note, **more)


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
    row = _lock_each(connection, [operation_id], *belongs_to(app)).get(operation_id)
    if row is None:
        raise make_unknown(operation_id)
    return row


def note_change_of_state(
    connection: sa.Connection,
    row: sa.Row[Any],
    change: OperationChange,
    note: str | None = None,
    **more: str,
) -> None:
    """
    Note in the record of changes that somebody changed the state of an operation.

    Args:
        row: The operation as it was: its id, app and state.
        change: What was done.
        more: What else there is to know, besides the state.
    """
    word, state = _DONE[change]
    note_change(
        connection,
        "operation",
        str(row.id),
        word,
        app=row.app,
        before={"state": row.state},
        after={"state": state.value, **more},
        note=note,
    )


_DONE = {
    OperationChange.CANCEL: ("canceled", OperationState.CANCELED),
    OperationChange.RETRY: ("retried", OperationState.PENDING),
}


def cancel(connection: sa.Connection, operation_id: UUID, *, reason: str) -> bool:
    """Cancel an operation as ``cancel_each`` does; return whether it was live."""
    return bool(cancel_each(connection, [operation_id], reason=reason))


def cancel_each(
    connection: sa.Connection,
    ids: Sequence[UUID],
    *,
    reason: str = Reason.CANCELED,
    states: Collection[OperationState] = LIVE_STATES,
) -> list[UUID]:
    """
    Cancel operations that are not final; a running one stops at its next progress.

    Their workers keep the claims until they have stopped: see ``claim.let_go``.

    Args:
        ids: What is final, or unknown, is left as it is.
        reason: For each of them.
        states: Only what is in one of these.

    Returns:
        What was canceled.
    """
    canceled = _update(
        connection,
        ids,
        _run.state.in_(sorted(states)),
        state=OperationState.CANCELED,
        reason=reason,
        finished_at=db_now(),
    )
    skip_open_steps(connection, canceled)
    record_following(connection, canceled)
    return canceled


def reopen(connection: sa.Connection, operation_id: UUID) -> bool:
    """
    Make a failed or canceled operation pending again, as ``reopen_each`` does.

    Locks the row of the action until the commit, as ``record`` expects: meanwhile the
    operations that ``overlap`` finds live cannot change.

    Returns:
        False if the operation is in another state, or unknown, or ``get_live_beside``
        is not None.
    """
    lock_action_of(connection, operation_id)
    return bool(reopen_each(connection, alone=[operation_id]))


def reopen_each(
    connection: sa.Connection,
    ids: Sequence[UUID] = (),
    *,
    alone: Sequence[UUID] = (),
    states: Collection[OperationState] = RETRIED_STATES,
) -> list[UUID]:
    """
    Make operations pending again: same rows, same ids.

    They continue at the first step that has not succeeded, with three more attempts.
    Delivery marks are kept, so nobody gets a mail twice. If a worker has not yet
    noticed a cancellation, the operation waits until it has.

    Args:
        connection: Has locked the actions of those whose overlap is not allow.
        ids: Run beside others.
        alone: Only what is not ``is_beside_live``; one of each action and user.
        states: Only what is in one of these.

    Returns:
        Those that are pending now.
    """
    is_fit = _run.state.in_(sorted(states))
    reopened = _update(connection, ids, is_fit, **REOPENED)
    # Only where it matters: PostgreSQL would compare all of them with all live ones.
    return reopened + _update(connection, alone, is_fit, ~is_beside_live(), **REOPENED)


def lock_action_of(
    connection: sa.Connection, operation_id: UUID, app: str | None = None
) -> None:
    """
    Lock the action of an operation, always before the operation itself.

    Until the commit, ``overlap`` finds the same operations live: see ``record``. With
    *app*, no action of another small app is locked.
    """
    action_uid = sa.select(_run.action_uid).where(
        _run.id == operation_id, *belongs_to(app)
    )
    _lock_actions(connection, action_uid)


def get_live_beside(connection: sa.Connection, operation_id: UUID) -> UUID | None:
    """Return the live operation beside which ``overlap: skip`` forbids this one."""
    return connection.execute(
        _select_live_beside().where(_run.id == operation_id).limit(1)
    ).scalar_one_or_none()


def is_beside_live() -> sa.Exists:
    """Match operations with ``overlap: skip`` beside which another one is live."""
    return _select_live_beside().exists()


def _select_live_beside() -> sa.Select[UUID]:
    """Select the live operations of the same action and user, for ``overlap: skip``."""
    other = operations.alias("other")
    return sa.select(other.c.id).where(
        _run.overlap == Overlap.SKIP,
        other.c.id != _run.id,
        other.c.action_uid == _run.action_uid,
        other.c.user_id.is_not_distinct_from(_run.user_id),
        LIVE.of("other"),
    )


@dataclass(slots=True)
class Changed:
    """How many were changed, and how many were not, by reason."""

    done: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def change_page(
    connection: sa.Connection, page: Sequence[sa.Row[Any]], change: OperationChange
) -> Changed:
    """
    Apply *change* to the operations of a page, by the rules for a single one.

    Of several that must not overlap, the first in the page runs. Operations for which
    ``overlap: queue`` has no more room are refused.

    Args:
        connection: In a transaction that has called ``keep_leader_out``.
        page: From ``fetch_page``.
        change: What is done.
    """
    changed = Changed()
    alone: list[UUID] = []
    if change is OperationChange.RETRY:
        ids, alone = _choose(connection, page, changed)
    else:
        ids = [row.id for row in page]
    former = _lock_each(connection, [*ids, *alone])
    if change is OperationChange.RETRY:
        done = reopen_each(connection, ids, alone=alone)
    else:
        done = cancel_each(connection, ids)
    for each in done:
        note_change_of_state(connection, former[each], change)
    changed.done = len(done)
    for each in {*ids, *alone}.difference(done):
        row = former.get(each)
        is_fit = row is not None and row.state in RETRIED_STATES
        is_beside = is_fit and change is OperationChange.RETRY
        changed.refused[Reason.OVERLAP if is_beside else CHANGED] += 1
    return changed


def _choose(
    connection: sa.Connection, page: Sequence[sa.Row[Any]], changed: Changed
) -> tuple[list[UUID], list[UUID]]:
    """Lock the actions of a page; return what may run beside others, and alone."""
    exclusive = [row for row in page if row.overlap != Overlap.ALLOW]
    if exclusive:
        uids = {row.action_uid for row in exclusive}
        _lock_actions(connection, select_given(connection, uids, sa.Text()))
    room = _find_room(connection, [r for r in page if r.overlap == Overlap.QUEUE])
    chosen: list[UUID] = []
    alone: list[UUID] = []
    taken: set[tuple[str, str | None]] = set()
    for row in page:
        key = (row.action_uid, row.user_id)
        if row.overlap == Overlap.SKIP and key in taken:
            changed.refused[Reason.OVERLAP] += 1
        elif row.overlap == Overlap.QUEUE and room[key] <= 0:
            changed.refused[Reason.QUEUE_FULL] += 1
        else:
            taken.add(key)
            room[key] -= 1
            (alone if row.overlap == Overlap.SKIP else chosen).append(row.id)
    return chosen, alone


def _lock_actions(connection: sa.Connection, uids: sa.Select[str]) -> None:
    """Lock the actions, as ``record`` expects: no live operations can be added."""
    connection.execute(
        sa.select(_action.uid)
        .where(_action.uid.in_(uids))
        .order_by(_action.uid)
        .with_for_update(of=scheduled_actions)
    )


def _find_room(
    connection: sa.Connection, queued: Sequence[sa.Row[Any]]
) -> Counter[tuple[str, str | None]]:
    """Return how many more operations of each action and user may be queued."""
    room: Counter[tuple[str, str | None]] = Counter()
    if not queued:
        return room
    for row in queued:
        room[row.action_uid, row.user_id] = QUEUE_LIMIT
    room.subtract(count_live(connection, {row.action_uid for row in queued}))
    return room


def _update(
    connection: sa.Connection,
    ids: Sequence[UUID],
    *where: sa.ColumnElement[bool] | sa.TextClause,
    **values: Any,
) -> list[UUID]:
    """Write *values* into those of *ids* that match; return their ids."""
    if not ids:
        return []
    changed = connection.execute(
        sa.update(operations)
        .where(_run.id.in_(select_given(connection, ids)), *where)
        .values(**values)
        .returning(_run.id)
    )
    return list(changed.scalars())


def _lock_each(
    connection: sa.Connection, ids: Sequence[UUID], *where: sa.ColumnElement[bool]
) -> dict[UUID, sa.Row[Any]]:
    """Lock operations, and return what each is now."""
    kept = operations.c
    whose = kept.action_uid, kept.action_revision, kept.details
    rows: Any = connection.execute(
        sa.select(kept.id, kept.app, kept.state, *whose)
        .where(kept.id.in_(select_given(connection, ids)), *where)
        .order_by(kept.id)
        .with_for_update(of=operations)
    )
    return {row.id: row for row in rows}
