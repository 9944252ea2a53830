"""
From the table to the broker: find what may be sent now, and mark what was sent.

The same query finds a recorded row until it is marked as sent. So a crash in between
loses nothing: the operation is sent again, under the same id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple
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
    NOT_AWAITING,
    PENDING,
    PENDING_MANUAL,
    PENDING_SCHEDULED,
    UNDER_WAY_FIRST,
    UNDER_WAY_HEAVY,
    Rows,
    operations,
    processes,
)
from models.database.transaction import Answer, AtOnce, Transaction
from models.operation_state import LANES, OperationState, Overlap, Queue, Trigger
from operations.fleet.processes import ProcessRole
from operations.turns import HAS_TURN, PAUSED

#: Number of slots that is assumed while no worker has recorded its own.
_SLOTS = 4


class Message(NamedTuple):
    """
    One operation on its way to the broker; ``id`` is the Celery task id.

    Args:
        send_at: When it should be sent, aware UTC. None: unknown.
        lane: Lane of its queue, from 0; see operation_state.LANES.
        is_scheduled: Whether nobody asked for it by hand.
        line: In which it stands with ``overlap: queue``. None: in none.
    """

    id: UUID
    queue: Queue
    triggered_by: str
    attempt: int
    send_at: datetime | None = None
    lane: int = 0
    app: str = ""
    is_scheduled: bool = True
    line: str | None = None


#: Queues by their stored value; calling the enum takes ten times as long.
_QUEUES = {queue.value: queue for queue in Queue}


@cache
def _sendable_statement(*, tasks_only: bool) -> sa.CompoundSelect[Any]:
    """Select manual runs, then scheduled ones, each the oldest first."""
    among = operations.c.queue == Queue.TASKS if tasks_only else sa.true()
    limit = sa.bindparam("limit", type_=sa.Integer)
    age = (operations.c.send_at, operations.c.recorded_at, operations.c.occurrence)
    parts = (
        _select_sendable(rows).where(among).order_by(*age).limit(limit)
        for rows in (PENDING_MANUAL, PENDING_SCHEDULED)
    )
    return sa.union_all(*(sa.select(part.subquery()) for part in parts))


#: Where the trigger is in a row of ``_select_sendable``.
_TRIGGER_AT = 6


def _select_sendable(rows: Rows) -> sa.Select[Any]:
    """Select what waits, except what would only occupy a slot."""
    other = operations.alias("other")
    heavy_apps = sa.select(other.c.app).where(UNDER_WAY_HEAVY.of("other"))
    line = operations.c.action_uid + sa.func.coalesce("/" + operations.c.user_id, "")
    return sa.select(
        operations.c.id,
        operations.c.queue,
        operations.c.triggered_by,
        operations.c.attempt,
        operations.c.send_at,
        operations.c.app,
        operations.c.trigger,
        sa.case((operations.c.overlap == Overlap.QUEUE, line)),
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
        # it was sent, and the answer to its task ends it
        NOT_AWAITING.of(),
        HAS_TURN,
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
) -> list[Message]:
    """Do as ``ask_sendable``, and choose at once."""
    return ask_sendable(AtOnce(connection), limit=limit, share=share).choose()


def ask_sendable(
    transaction: Transaction,
    *,
    limit: int,
    share: int | None = None,
    tasks_only: bool = False,
) -> Sendable:
    """
    Ask what may be sent now, of *limit* manual and *limit* scheduled rows.

    Manual runs come first, then the oldest operations, then what backfills recorded,
    which also goes to the lanes behind. At most one heavy operation of an app is under
    way; the others follow when it is final, as those with ``overlap: queue`` do when
    it is their turn. Among operations that wait equally long, such as those of one
    tick, the apps take turns.

    Args:
        limit: Scheduled operations to look at, and as many manual ones.
        share: How many quick operations of an app may be under way in the first lane,
            and as many manual ones again; the others go to the lanes behind. None: all
            go to the first lane.
        tasks_only: Whether nothing for our own queues is looked for.

    Returns:
        What chooses the messages, when *transaction* is over.
    """
    statement = _sendable_statement(tasks_only=tasks_only)
    rows = transaction.ask_after(statement, {"limit": limit})
    under_way = None
    if share is not None:
        under_way = transaction.ask_after(_under_way_statement(), {})
    return Sendable(share or 0, rows, under_way)


@dataclass(frozen=True, slots=True)
class Sendable:
    """
    What may be sent, as the database answered; see ``ask_sendable``.

    Args:
        under_way: How many quick operations each app has. None: there are no shares.
    """

    share: int
    rows: Answer
    under_way: Answer | None

    def choose(self, handed_over: Sequence[Message] = ()) -> list[Message]:
        """
        Return the messages in their order.

        Args:
            handed_over: What the broker has, although the database does not say so
                yet. It counts as under way.
        """
        rows = self.rows.rows
        if any(row[_TRIGGER_AT] == Trigger.BACKFILL for row in rows):
            # Live work takes its turn first, such as that of the only heavy operation.
            rows = sorted(rows, key=lambda row: row[_TRIGGER_AT] == Trigger.BACKFILL)
        places = self._count_places(handed_over) if rows else None
        known = {message.id for message in handed_over}
        # Looked up once: this runs for each operation, and enums are slow.
        quick, heavy = Queue.QUICK, Queue.HEAVY
        manual, backfill = Trigger.MANUAL, Trigger.BACKFILL
        taken = {each.app for each in handed_over if each.queue is heavy}
        # No index guards the line of a task: what was retried must not overtake it.
        lines = {each.line for each in handed_over} - {None}
        messages: list[tuple[int, datetime, int, Message]] = []
        turns: Counter[tuple[datetime, str]] = Counter()
        for row in rows:
            # By position, which is fast: this runs for each operation.
            id_, queue, text, attempt, send_at, app, trigger, line = row
            is_scheduled = trigger != manual
            is_backfill = trigger == backfill
            if id_ in known or line in lines:
                continue
            if queue == heavy:
                if app in taken:
                    continue
                taken.add(app)
            turns[send_at, app] += 1
            lane = 0
            if places is not None and queue == quick:
                lane = (
                    find_back_lane(app)
                    if is_backfill
                    else places.give(app, is_scheduled=is_scheduled)
                )
            message = Message(
                *(id_, _QUEUES[queue], text, attempt, send_at, lane),
                *(app, is_scheduled, line),
            )
            rank = is_scheduled + is_backfill
            messages.append((rank, send_at, turns[send_at, app], message))
        messages.sort(key=itemgetter(0, 1, 2))  # stable: an app's own order stays
        return [message for *_order, message in messages]

    def _count_places(self, handed_over: Sequence[Message]) -> _Places | None:
        if self.under_way is None:
            return None
        places = _Places(self.share, self.under_way.rows)
        for message in handed_over:
            if message.queue is Queue.QUICK and not message.lane:
                places.give(message.app, is_scheduled=message.is_scheduled)
        return places


def fetch_share(connection: sa.Connection, part: float) -> int | None:
    """
    Return how many slots of the quick queue one app may take while others wait.

    Args:
        part: The app's part of all slots, from 0 to 1.

    Returns:
        At least 1. None if *part* is 1: there is no limit.
    """
    if part >= 1:
        return None
    rows = connection.execute(
        sa.select(processes.c.queues, processes.c.concurrency).where(
            processes.c.role == ProcessRole.WORKER,
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

    def __init__(self, share: int, under_way: Sequence[tuple[str, str, int]]) -> None:
        self._share = share
        self._used: Counter[tuple[str, bool]] = Counter()
        for app, trigger, count in under_way:
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
        "queue": sa.Text(),
        "send_at": UtcDateTime,
    }
    sent = json_rows(dialect, columns, "sent")
    waits = sa.and_(
        # A worker may have been faster: the operation may be claimed, final, or
        # waiting for its next attempt. Then our message is outdated.
        operations.c.attempt == sent.c.attempt,
        operations.c.state == OperationState.PENDING,
        # Or it was claimed and given back without counting the attempt: then it has to
        # be sent again, because no message is left.
        sa.or_(sent.c.send_at.is_(None), operations.c.send_at == sent.c.send_at),
    )
    return (
        sa.update(operations)
        # What was overtaken by its worker gets a date, too, unless it has one.
        .where(
            operations.c.id == sent.c.id,
            sa.or_(waits, operations.c.sent_at.is_(None)),
        )
        .values(
            state=sa.case((waits, OperationState.QUEUED), else_=operations.c.state),
            sent_at=db_now(_SINCE),
            sends=operations.c.sends + 1,
            lane=sent.c.lane,
            # a task whose connection the leader does not know goes through a worker
            queue=sent.c.queue,
        )
    )


#: Seconds since the messages were sent, as a negative number.
_SINCE = sa.bindparam("since", type_=sa.Float)


def mark_sent(
    transaction: Transaction, messages: Sequence[Message], *, seconds_ago: float = 0
) -> None:
    """
    Mark *messages* as handed to the broker.

    Operations that a worker has already claimed keep their state.

    Args:
        messages: At least one.
        seconds_ago: When the broker took them.
    """
    statement = _sent_statement(transaction.connection.dialect.name)
    rows = make_rows_json(
        [
            {
                "id": m.id,
                "attempt": m.attempt,
                "lane": m.lane,
                "queue": m.queue,
                "send_at": m.send_at,
            }
            for m in messages
        ]
    )
    transaction.ask(statement, {"sent": rows, "since": -seconds_ago})
