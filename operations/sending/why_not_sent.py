"""
Why a recorded operation is not sent or not claimed yet, for people who ask.

The rules are those of order.py, whose single statement decides but does not say why.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from models.database.engine import read_clock
from models.database.tables import UNDER_WAY, operations
from models.operation_state import OperationState, Overlap, Queue, is_awaiting
from models.units import show_instant
from operations.paused_queues import Rest, fetch_resting
from operations.sending.order import Message, fetch_sendable
from operations.turns import IS_AHEAD, OTHER

#: Operations that are examined for overdue ones.
_LOOKED_AT = 1000


def find_hindrances(
    connection: sa.Connection,
    operation_ids: Collection[UUID],
    *,
    zone: ZoneInfo | None = None,
) -> dict[UUID, str]:
    """
    Return what each of these operations waits for, as far as the table shows it.

    Operations that may be sent now are left out: they wait for the leader and the
    broker. So are those that were sent within the share of their app: they wait for a
    worker. Instants are told by the clocks of *zone* and in UTC; None: only in UTC.
    """
    rows = connection.execute(
        sa.select(operations).where(
            operations.c.id.in_(operation_ids),
            operations.c.state.in_([OperationState.PENDING, OperationState.QUEUED]),
        )
    ).all()
    resting = fetch_resting(connection) if rows else {}
    found = {
        row.id: _describe_wait(row, zone)
        if is_awaiting(row.reason)
        else _find_hindrance(connection, row, resting, zone)
        if row.state == OperationState.PENDING
        else _find_line(connection, row, resting, zone)
        for row in rows
    }
    return {id_: text for id_, text in found.items() if text is not None}


def describe_rest(queue: Queue, rest: Rest, zone: ZoneInfo | None = None) -> str:
    """
    Say until when *queue* is paused, and why; for tenants too, so not by whom.

    >>> from datetime import UTC, datetime
    >>> describe_rest(Queue.QUICK, Rest(datetime(2026, 1, 5, tzinfo=UTC), None, "move"))
    'queue quick has been paused since 2026-01-05 00:00:00Z: move'
    """
    since = show_instant(rest.since, zone)
    until = "" if rest.until is None else f" until {show_instant(rest.until, zone)}"
    note = "" if rest.note is None else f": {rest.note}"
    return f"queue {queue.value} has been paused since {since}{until}{note}"


def _find_line(
    connection: sa.Connection,
    row: sa.Row[Any],
    resting: Mapping[Queue, Rest],
    zone: ZoneInfo | None,
) -> str | None:
    """Say how many operations of its own app are ahead, if it is in a lane behind."""
    if rest := resting.get(Queue(row.queue)):
        return describe_rest(Queue(row.queue), rest, zone)
    if row.lane == 0:
        return None
    other = operations.c
    ahead = connection.execute(
        sa.select(sa.func.count()).where(
            UNDER_WAY.of(),
            other.state == OperationState.QUEUED,
            other.app == row.app,
            other.lane == row.lane,
            sa.or_(
                other.sent_at < row.sent_at,
                sa.and_(other.sent_at == row.sent_at, other.send_at < row.send_at),
            ),
        )
    ).scalar_one()
    return (
        f"it waits behind {ahead} of its own app, which has more under way than its "
        "share of the slots (MINUTEHAND_APP_SHARE)"
    )


def _find_hindrance(
    connection: sa.Connection,
    row: sa.Row[Any],
    resting: Mapping[Queue, Rest],
    zone: ZoneInfo | None,
) -> str | None:
    if rest := resting.get(Queue(row.queue)):
        return describe_rest(Queue(row.queue), rest, zone)
    if row.send_at > read_clock(connection):
        return f"it is to be sent at {show_instant(row.send_at, zone)}"
    if row.claim_token is not None:
        return "it was canceled and retried, and its former worker has not stopped yet"
    other = operations.c
    under_way = (other.id != row.id, UNDER_WAY.of())
    if row.queue == Queue.HEAVY:
        query = sa.select(other.id).where(
            other.app == row.app, other.queue == Queue.HEAVY, *under_way
        )
        if first := connection.execute(query.limit(1)).scalar():
            return f"heavy operation {first} of the same app has not ended"
    if row.overlap == Overlap.QUEUE:
        ahead = sa.select(OTHER.c.id).where(operations.c.id == row.id, IS_AHEAD)
        query = ahead.order_by(OTHER.c.recorded_at)
        if first := connection.execute(query.limit(1)).scalar():
            return f"operation {first} of the same action has not ended"
    return None


def _describe_wait(row: sa.Row[Any], zone: ZoneInfo | None) -> str:
    """Say since when the end of a task is waited for, and until when."""
    since = show_instant(row.sent_at, zone)
    until = show_instant(row.send_at, zone)
    remark = f"; {row.error}" if row.error else ""
    return f"its task was sent at {since}, and is given until {until} to end{remark}"


def fetch_unsent(connection: sa.Connection, *, older_than: timedelta) -> list[Message]:
    """Return what should have been sent *older_than* ago, the oldest first."""
    limit = read_clock(connection) - older_than
    messages = fetch_sendable(connection, limit=_LOOKED_AT)
    late = [each for each in messages if each.send_at and each.send_at <= limit]
    return sorted(late, key=lambda each: each.send_at or limit)
