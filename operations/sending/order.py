"""
From the table to the broker: find what may be sent now, and mark what was sent.

The same query finds a recorded row until it is marked as sent. So a crash in between
loses nothing: the operation is sent again, under the same id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from operator import itemgetter
from typing import Any
from uuid import UUID
from zlib import crc32

import sqlalchemy as sa

from models.database.engine import (
    Identifier,
    UtcDateTime,
    db_now,
    json_rows,
    make_rows_json,
)
from models.database.tables import (
    ALIVE_FOR,
    AWAITING,
    LIVE_OR_CLAIMED,
    PENDING,
    PENDING_MANUAL,
    PENDING_SCHEDULED,
    UNDER_WAY,
    UNDER_WAY_FIRST,
    UNDER_WAY_HEAVY,
    Rows,
    operations,
    processes,
)
from models.operation_state import LANES, OperationState, Overlap, Queue, Trigger
from operations.fleet.processes import Role
from operations.paused_queues import PAUSED

#: Number of slots that is assumed while no worker has recorded its own.
_SLOTS = 4


@dataclass(frozen=True, slots=True)
class Message:
    """
    One operation on its way to the broker; ``id`` is the Celery task id.

    Args:
        send_at: When it should be sent, aware UTC. None: unknown.

        lane: Lane of its queue, from 0; see operation_state.LANES.
    """

    id: UUID
    queue: Queue
    triggered_by: str
    attempt: int
    send_at: datetime | None = field(default=None, compare=False)
    lane: int = 0


#: Queues by their stored value; calling the enum takes ten times as long.
_QUEUES = {queue.value: queue for queue in Queue}


@cache
def _sendable_statement() -> sa.CompoundSelect[Any]:
    """Select manual runs, then scheduled ones, each the oldest first."""
    limit = sa.bindparam("limit", type_=sa.Integer)
    age = (operations.c.send_at, operations.c.recorded_at, operations.c.occurrence)
    parts = (
        _select_sendable(rows).order_by(*age).limit(limit)
        for rows in (PENDING_MANUAL, PENDING_SCHEDULED)
    )
    return sa.union_all(*(sa.select(part.subquery()) for part in parts))


def _select_sendable(rows: Rows) -> sa.Select[Any]:
    """Select what waits, except what would only occupy a slot."""
    other = operations.alias("other")
    heavy_apps = sa.select(other.c.app).where(UNDER_WAY_HEAVY.of("other"))
    same_under_way = sa.exists().where(
        other.c.action_uid == operations.c.action_uid,
        other.c.user_id.is_not_distinct_from(operations.c.user_id),
        # what waits for its task occupies no slot, but has not ended
        sa.or_(UNDER_WAY.of("other"), AWAITING.of("other")),
        LIVE_OR_CLAIMED.of("other"),  # which has the index
    )
    return sa.select(
        operations.c.id,
        operations.c.queue,
        operations.c.triggered_by,
        operations.c.attempt,
        operations.c.send_at,
        operations.c.app,
        operations.c.action_uid,
        operations.c.user_id,
        operations.c.overlap,
        operations.c.trigger,
    ).where(
        rows.of(),
        operations.c.send_at <= db_now(),
        # not if it was canceled and retried, and its worker has not noticed yet
        operations.c.claim_token.is_(None),
        operations.c.queue.not_in(PAUSED),
        sa.or_(
            operations.c.queue != Queue.HEAVY,
            operations.c.app.not_in(heavy_apps),
        ),
        sa.or_(operations.c.overlap != Overlap.QUEUE, AWAITING.of(), ~same_under_way),
    )


@cache
def _live_work_statement() -> sa.Select[bool]:
    first = (
        _select_sendable(PENDING)
        .where(
            operations.c.queue == sa.bindparam("queue", type_=sa.Text),
            operations.c.trigger != Trigger.BACKFILL,
        )
        .exists()
    )
    return sa.select(first)


def has_sendable(connection: sa.Connection, queue: Queue) -> bool:
    """Return whether *queue* has something to send now that is not of a backfill."""
    found = connection.execute(_live_work_statement(), {"queue": queue})
    return bool(found.scalar())


def fetch_sendable(
    connection: sa.Connection, *, limit: int, share: int | None = None
) -> tuple[list[Message], bool]:
    """
    Return what may be sent now, looking at *limit* manual and *limit* scheduled rows.

    Manual runs come first, then the oldest operations, then what backfills recorded,
    which also goes to the lanes behind. At most one heavy operation of
    an app, and one ``overlap: queue`` operation of an action and user, are under way;
    the others follow when it is final. Among operations that wait equally long, such as
    those of one tick, the apps take turns.

    Args:
        connection: In the transaction of the leader.

        limit: Scheduled operations to look at, and as many manual ones.

        share: How many quick operations of an app may be under way in the first lane,
            and as many manual ones again; the others go to the lanes behind. None: all
            go to the first lane.

    Returns:
        The messages, and whether another look may find more.
    """
    found = connection.execute(_sendable_statement(), {"limit": limit})
    rows = found.all()  # all at once: row by row, the driver takes twice as long
    places = _Places(connection, share) if rows and share is not None else None
    if any(row.trigger == Trigger.BACKFILL for row in rows):
        # Live work takes its turn first, such as that of the only heavy operation.
        rows = sorted(rows, key=lambda row: row.trigger == Trigger.BACKFILL)
    messages: list[tuple[int, datetime, int, Message]] = []
    turns: Counter[tuple[datetime, str]] = Counter()
    scheduled = 0
    taken: set[tuple[str, ...] | tuple[str, str | None]] = set()
    for row in rows:
        id_, queue, text, attempt, send_at, app, action_uid, user, overlap, trigger = (
            row
        )
        is_scheduled = trigger != Trigger.MANUAL
        is_backfill = trigger == Trigger.BACKFILL
        scheduled += is_scheduled
        keys: list[tuple[str, ...] | tuple[str, str | None]] = []
        if queue == Queue.HEAVY:
            keys.append((app,))
        if overlap == Overlap.QUEUE:
            keys.append((action_uid, user))
        if not taken.isdisjoint(keys):
            continue
        taken.update(keys)
        turns[send_at, app] += 1
        lane = 0
        if places is not None and queue == Queue.QUICK:
            lane = (
                find_back_lane(app)
                if is_backfill
                else places.give(app, is_scheduled=is_scheduled)
            )
        message = Message(id_, _QUEUES[queue], text, attempt, send_at, lane)
        rank = is_scheduled + is_backfill
        messages.append((rank, send_at, turns[send_at, app], message))
    messages.sort(key=itemgetter(0, 1, 2))  # stable: an app's own order stays
    more = bool(messages) and limit in {scheduled, len(rows) - scheduled}
    return [message for *_order, message in messages], more


def fetch_share(connection: sa.Connection, part: float) -> int | None:
    """
    Return how many slots of the quick queue one app may take while others wait.

    Args:
        connection: Any.

        part: The app's part of all slots, from 0 to 1.

    Returns:
        At least 1. None if *part* is 1: there is no limit.
    """
    if part >= 1:
        return None
    rows = connection.execute(
        sa.select(processes.c.queues, processes.c.concurrency).where(
            processes.c.role == Role.WORKER,
            processes.c.heartbeat_at > db_now(-ALIVE_FOR),
        )
    )
    slots = sum(count or 1 for queues, count in rows if Queue.QUICK in queues)
    return max(1, int((slots or _SLOTS) * part))


class _Places:
    """
    Assigns places in the first lane of the quick queue, up to the share of each app.

    An app that has more to do than its share waits behind itself, not before others.
    """

    def __init__(self, connection: sa.Connection, share: int) -> None:
        self._share = share
        self._used: Counter[tuple[str, bool]] = Counter()
        for app, trigger, count in connection.execute(_under_way_statement()):
            self._used[app, trigger != Trigger.MANUAL] += count

    def give(self, app: str, *, is_scheduled: bool) -> int:
        """Return the lane for one more operation of *app*."""
        if self._used[app, is_scheduled] < self._share:
            self._used[app, is_scheduled] += 1
            return 0
        return find_back_lane(app)


def find_back_lane(app: str) -> int:
    """Return the lane for what exceeds the share of *app*; it is always the same."""
    return 1 + crc32(app.encode()) % (LANES[Queue.QUICK] - 1)


@cache
def _under_way_statement() -> sa.Select[Any]:
    return (
        sa.select(operations.c.app, operations.c.trigger, sa.func.count())
        .where(UNDER_WAY_FIRST.of())
        .group_by(operations.c.app, operations.c.trigger)
    )


@cache
def _sent_statement(dialect: str) -> sa.Executable:
    columns: dict[str, sa.types.TypeEngine[Any]] = {
        "id": Identifier,
        "attempt": sa.Integer(),
        "lane": sa.Integer(),
        "send_at": UtcDateTime,
    }
    sent = json_rows(dialect, columns, "sent")
    return (
        sa.update(operations)
        .where(
            operations.c.id == sent.c.id,
            # A worker may have been faster: the operation may be claimed, final, or
            # waiting for its next attempt. Then our message is outdated.
            operations.c.attempt == sent.c.attempt,
            operations.c.state == OperationState.PENDING,
            # Or it was claimed and given back without counting the attempt: then it has
            # to be sent again, because no message is left.
            sa.or_(sent.c.send_at.is_(None), operations.c.send_at == sent.c.send_at),
        )
        .values(
            state=OperationState.QUEUED,
            sent_at=db_now(),
            sends=operations.c.sends + 1,
            lane=sent.c.lane,
        )
    )


@cache
def _overtaken_statement(dialect: str) -> sa.Executable:
    sent = json_rows(dialect, {"id": Identifier, "lane": sa.Integer()}, "sent")
    return (
        sa.update(operations)
        .where(operations.c.id == sent.c.id, operations.c.sent_at.is_(None))
        .values(sent_at=db_now(), sends=operations.c.sends + 1, lane=sent.c.lane)
    )


def mark_sent(connection: sa.Connection, messages: Sequence[Message]) -> int:
    """
    Mark *messages* as handed to the broker; return how many were still pending.

    Operations that a worker has already claimed keep their state.
    """
    if not messages:
        return 0
    dialect = connection.dialect.name
    rows = make_rows_json(
        [
            {"id": m.id, "attempt": m.attempt, "lane": m.lane, "send_at": m.send_at}
            for m in messages
        ]
    )
    queued = connection.execute(_sent_statement(dialect), {"sent": rows}).rowcount
    if queued < len(messages):
        connection.execute(_overtaken_statement(dialect), {"sent": rows})
    return queued
