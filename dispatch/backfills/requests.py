"""Start a backfill, and cancel it. The leader does the rest: see progress.py."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from actions.posting.revisions import require_action
from dispatch.backfills.planning import Plan, PlannedOccurrence, plan_backfill
from dispatch.backfills.shown_backfills import (
    BACKFILLS,
    LEFT,
    TAKEN,
    OccurrenceOutcome,
    settle_waiting,
)
from models.database.engine import (
    Identifier,
    UtcDateTime,
    json_rows,
    make_rows_json,
    read_clock,
)
from models.database.journal import find_author
from models.database.tables import backfill_occurrences, leases
from models.errors import ConflictError, UsageError
from models.fields.instants import format_instant
from models.operation_state import OperationState
from models.requests.actions import BackfillModel
from operations.cancel_and_retry import cancel_each
from operations.selecting import refuse_other_count

#: The most that may be said: a leader looks at twice as many operations at least.
MOST_AT_ONCE = 100


def start_backfill(
    connection: sa.Connection,
    uid: str,
    asked: BackfillModel,
    *,
    retention: timedelta,
    app: str | None = None,
) -> UUID:
    """
    Store a backfill of what ``plan_backfill`` lists; return its id.

    Args:
        uid: As for ``plan_backfill``, as are *retention* and *app*.
        asked: What is wanted; at once as many of its operations are live as it says,
            from 1 to MOST_AT_ONCE. If runs of the action must not overlap, it is one.

    Raises:
        NotFoundError, UsageError: As ``plan_backfill``, or *at_once* is out of bounds.
        ConflictError: The rule cannot be read, nothing would run, or not the number
            that was expected.
    """
    _refuse_at_once(asked.at_once)
    plan = plan_backfill(connection, uid, asked, retention=retention, app=app)
    # it is not deleted until this is committed
    require_action(connection, uid, lock=True)
    chosen = plan.chosen
    refuse_other_count(len(chosen), asked.expected_count)
    _refuse_nothing(plan)
    values: dict[str, Any] = {
        "action_uid": uid,
        "from_at": plan.since,
        "until_at": plan.until,
        "which": asked.which,
        "total": len(chosen),
        "at_once": asked.at_once,
    }
    backfill_id = BACKFILLS.store(
        connection,
        {
            **values,
            "app": plan.app,
            "note": asked.note,
            "created_at": read_clock(connection),
        },
        told=values,
        note=asked.note,
    )
    _insert_occurrences(connection, backfill_id, chosen)
    return backfill_id


def _refuse_at_once(at_once: int) -> None:
    if not 1 <= at_once <= MOST_AT_ONCE:
        msg = f"--at-once: {at_once} is not between 1 and {MOST_AT_ONCE}"
        raise UsageError(msg)


def _refuse_nothing(plan: Plan) -> None:
    if not plan.chosen:
        msg = (
            f"nothing of action {plan.action_uid!r} is to run from"
            f" {format_instant(plan.since)} to {format_instant(plan.until)}"
            f" (--which {plan.which})"
        )
        raise ConflictError(msg)


def _insert_occurrences(
    connection: sa.Connection, backfill_id: UUID, chosen: list[PlannedOccurrence]
) -> None:
    given = json_rows(
        connection.dialect.name,
        {"occurrence": UtcDateTime, "operation_id": Identifier},
        "given",
    )
    connection.execute(
        sa.insert(backfill_occurrences).from_select(
            ["backfill_id", "occurrence", "operation_id"],
            sa.select(
                sa.literal(backfill_id, Identifier),
                given.c.occurrence,
                given.c.operation_id,
            ),
        ),
        {
            "given": make_rows_json(
                [
                    {"occurrence": e.occurrence, "operation_id": e.operation_id}
                    for e in chosen
                ]
            )
        },
    )


def cancel_backfill(
    connection: sa.Connection, backfill_id: UUID, *, app: str | None = None
) -> int:
    """
    Stop a backfill: no more of it is recorded, and what waits is canceled.

    What a worker has taken goes on; cancel that one by one.

    Args:
        connection: Of ``writing``, which knows who asks.
        app: Uid of a small app; backfills of others are unknown. None: any.

    Returns:
        How many recorded operations were canceled.

    Raises:
        NotFoundError: There is no such backfill.
        ConflictError: It is over already.
    """
    BACKFILLS.fetch(connection, backfill_id, app=app)
    # The leader's transactions lock the lease first, and many rows after it. It does
    # not wait for whoever names a backfill that is not there.
    connection.execute(sa.select(leases.c.name).with_for_update())
    row = BACKFILLS.fetch_open(connection, backfill_id, app=app)
    left = settle_waiting(
        connection, backfill_id, f"{LEFT}{OccurrenceOutcome.CANCELED}"
    )
    canceled = _cancel_pending(connection, backfill_id)
    BACKFILLS.cancel(
        connection,
        row,
        {"canceled_by": find_author(connection).name},
        told={"canceled_operations": canceled, "never_recorded": left},
    )
    return canceled


def _cancel_pending(connection: sa.Connection, backfill_id: UUID) -> int:
    taken = sa.select(backfill_occurrences.c.operation_id).where(
        backfill_occurrences.c.backfill_id == backfill_id,
        backfill_occurrences.c.outcome.in_(TAKEN),
    )
    ids = connection.execute(taken).scalars().all()
    waiting = {OperationState.PENDING, OperationState.QUEUED}
    return len(cancel_each(connection, ids, states=waiting))
