"""
From the table to the broker: find what may be sent now, and mark what was sent.

The same query finds a recorded row until it is marked as sent. So a crash in between
loses nothing: the operation is sent again, under the same id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple
from uuid import UUID
from zlib import crc32

import sqlalchemy as sa

from models.database.engine import db_now, json_rows, make_rows_json
from models.database.tables import (
    IS_ALIVE,
    LIVE_OR_CLAIMED,
    NOT_AWAITING,
    PENDING,
    PENDING_IN_LINE,
    PENDING_MANUAL,
    STANDS_IN_LINE,
    UNDER_WAY_FIRST,
    UNDER_WAY_HEAVY,
    operations,
    processes,
)
from models.database.transaction import Answer, AtOnce, Transaction
from models.decision import NewOperation
from models.operation_state import LANES, OperationState, Overlap, Queue, Trigger
from operations.fleet.processes import ProcessRole
from operations.turns import PAUSED, find_line, find_place, is_of_line

_run = operations.c

#: Number of slots that is assumed while no worker has recorded its own.
_SLOTS = 4

#: Lines (``overlap: queue``) that a look goes past, in some 25 ms of the database.
LINES_AT_ONCE = 1_000


class Message(NamedTuple):
    """
    One operation on its way to the broker; ``id`` is the Celery task id.

    Args:
        send_at: When it should be sent, aware UTC. None: unknown.
        lane: Lane of its queue, from 0; see operation_state.LANES.
        is_scheduled: Whether nobody asked for it by hand.
        line: In which it stands with ``overlap: queue``. None: in none.
        recorded: Its row, if this process has just recorded it. None: the database has
            to be asked for more.
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
    recorded: NewOperation | None = None


#: Queues by their stored value; calling the enum takes ten times as long.
_QUEUES = {queue.value: queue for queue in Queue}


@cache
def _sendable_statement(*, tasks_only: bool) -> sa.CompoundSelect[Any]:
    """
    Select manual runs, then scheduled ones, each the oldest first; then what is first
    in its line. If more lines follow, a last row has only the name of the last one.
    """
    among = _run.queue == Queue.TASKS if tasks_only else sa.true()
    limit = sa.bindparam("limit", type_=sa.Integer)
    age = (_run.send_at, _run.recorded_at, _run.occurrence)
    apart = (
        _select_sendable(*rows).where(among).order_by(*age).limit(limit)
        for rows in ((PENDING_MANUAL.of(),), _SCHEDULED_APART)
    )
    lines = sa.bindparam("lines", type_=sa.Integer)
    walk = _walk_lines(sa.bindparam("after", type_=sa.Text), lines)
    first = _select_first_of_lines(walk).where(among)
    columns = len(first.selected_columns)
    last = (
        sa.select(*[sa.null()] * (columns - 1), find_line("walked"))
        .join_from(walk, _WALKED, _WALKED.c.id == walk.c.id)
        .where(walk.c.number == lines)
    )
    return sa.union_all(*(sa.select(part.subquery()) for part in apart), first, last)


#: Where the trigger is in a row of ``_select_sendable``.
_TRIGGER_AT = 6

#: What is pending and stands in no line; see the index of what is pending.
_APART: tuple[Any, ...] = (
    PENDING.of(),
    sa.literal_column(f"{STANDS_IN_LINE.format('operations.')} = 0"),
)
_SCHEDULED_APART: tuple[Any, ...] = (*_APART, _run.trigger != Trigger.MANUAL)

#: One operation of a line that is walked by.
_WALKED = operations.alias("walked")


def _walk_lines(after: sa.ColumnElement[str], most: sa.ColumnElement[int]) -> sa.CTE:
    """
    Select one pending operation of each line behind *after*, of *most* lines.

    From line to line by the index, however many operations stand in each.
    """
    each = operations.alias("each")
    next_line = (
        sa.select(each.c.id)
        .where(PENDING_IN_LINE.of("each"))
        .order_by(find_line("each"))
        .limit(sa.literal_column("1"))
    )
    first = next_line.where(find_line("each") > after).scalar_subquery()
    one = sa.literal_column("1", sa.Integer)
    walk = sa.select(first.label("id"), one.label("number")).cte("walk", recursive=True)
    behind = next_line.where(find_line("each") > find_line("walked"))
    return walk.union_all(
        sa.select(behind.correlate(_WALKED).scalar_subquery(), walk.c.number + one)
        .join_from(walk, _WALKED, _WALKED.c.id == walk.c.id)
        .where(walk.c.number < most)
    )


def _select_first_of_lines(walk: sa.CTE) -> sa.Select[Any]:
    """Select what is first in a line, if it may be sent."""
    first = operations.alias("first")
    ids = (
        sa.select(first.c.id)
        .where(is_of_line("walked", "first"), LIVE_OR_CLAIMED.of("first"))
        .order_by(*find_place("first"))
        .limit(sa.literal_column("1"))
        .correlate(_WALKED)
        .scalar_subquery()
    )
    return (
        _select_sendable(_run.overlap == Overlap.QUEUE, PENDING.of())
        .join_from(walk, _WALKED, _WALKED.c.id == walk.c.id)
        .join(operations, _run.id == ids)
    )


def _select_sendable(*rows: Any) -> sa.Select[Any]:
    """Select what waits among *rows*, except what would only occupy a slot."""
    other = operations.alias("other")
    heavy_apps = sa.select(other.c.app).where(UNDER_WAY_HEAVY.of("other"))
    return sa.select(
        *(_run.id, _run.queue, _run.triggered_by, _run.attempt),
        *(_run.send_at, _run.app, _run.trigger),
        sa.case((_run.overlap == Overlap.QUEUE, find_line("operations"))),
    ).where(
        *rows,
        _run.send_at <= db_now(),
        # not if it was canceled and retried, and its worker has not noticed yet
        _run.claim_token.is_(None),
        _run.queue.not_in(PAUSED),
        sa.or_(_run.queue != Queue.HEAVY, _run.app.not_in(heavy_apps)),
        # it was sent, and the answer to its task ends it
        NOT_AWAITING.of(),
    )


@cache
def _live_work_statement() -> sa.Select[bool]:
    lines = _walk_lines(sa.literal(""), sa.literal_column(str(LINES_AT_ONCE)))
    of_queue = (
        _run.queue == sa.bindparam("queue", type_=sa.Text),
        _run.trigger != Trigger.BACKFILL,
    )
    parts = _select_sendable(*_APART), _select_first_of_lines(lines)
    return sa.select(sa.or_(*(part.where(*of_queue).exists() for part in parts)))


def has_sendable(connection: sa.Connection, queue: Queue) -> bool:
    """
    Return whether *queue* has something to send now that is not of a backfill.

    Of thousands of lines (``overlap: queue``) it looks at the first.
    """
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
    after: str = "",
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
        after: The line at which the look before ended: only so many are looked at.

    Returns:
        What chooses the messages, when *transaction* is over.
    """
    statement = _sendable_statement(tasks_only=tasks_only)
    values = {"limit": limit, "after": after, "lines": LINES_AT_ONCE}
    rows = transaction.ask_after(statement, values)
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

    @property
    def last_line(self) -> str:
        """The last of the lines that were looked at; empty: none is behind it."""
        return next((row[-1] for row in self.rows.rows if row[0] is None), "")

    def choose(
        self,
        handed_over: Sequence[Message] = (),
        recorded: Mapping[int, NewOperation] = {},
    ) -> list[Message]:
        """
        Return the messages in their order.

        Args:
            handed_over: What the broker has, although the database does not say so
                yet. It counts as under way.
            recorded: What this process has just recorded, by the numbers of the ids.
        """
        rows = [row for row in self.rows.rows if row[0] is not None]
        if any(row[_TRIGGER_AT] == Trigger.BACKFILL for row in rows):
            # Live work takes its turn first, such as that of the only heavy operation.
            rows = sorted(rows, key=lambda row: row[_TRIGGER_AT] == Trigger.BACKFILL)
        places = self._count_places(handed_over) if rows else None
        known = {message.id.int for message in handed_over}
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
            if id_.int in known or line in lines:
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
                *(app, is_scheduled, line, recorded.get(id_.int)),
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
            processes.c.role == ProcessRole.WORKER, IS_ALIVE
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
        sa.select(_run.app, _run.trigger, sa.func.count())
        .where(UNDER_WAY_FIRST.of())
        .group_by(_run.app, _run.trigger)
    )


#: What is told of a message that was sent.
_SENT = ("id", "attempt", "lane", "queue", "send_at")


@cache
def _sent_statement(dialect: str) -> sa.Executable:
    kinds = {name: _run[name].type for name in _SENT}
    sent = json_rows(dialect, kinds, "sent")
    waits = sa.and_(
        # A worker may have been faster: the operation may be claimed, final, or
        # waiting for its next attempt. Then our message is outdated.
        _run.attempt == sent.c.attempt,
        _run.state == OperationState.PENDING,
        # Or it was claimed and given back without counting the attempt: then it has to
        # be sent again, because no message is left.
        sa.or_(sent.c.send_at.is_(None), _run.send_at == sent.c.send_at),
    )
    return (
        sa.update(operations)
        # What was overtaken by its worker gets a date, too, unless it has one.
        .where(_run.id == sent.c.id, sa.or_(waits, _run.sent_at.is_(None)))
        .values(
            state=sa.case((waits, OperationState.QUEUED), else_=_run.state),
            sent_at=db_now(_SINCE),
            sends=_run.sends + 1,
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
    find = attrgetter(*_SENT)
    rows = [dict(zip(_SENT, find(message), strict=True)) for message in messages]
    values = {"sent": make_rows_json(rows), "since": -seconds_ago}
    transaction.ask(statement, values)
