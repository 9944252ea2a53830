"""
Whose turn it is: in the line of an action and user, and of queues that are not paused.

Operations with ``overlap: queue`` stand in line in the order in which they were
recorded, until they are final: a message that comes back, a retry or a worker that
stops changes nobody's place. The statements that send and claim ask the same question;
a unique index guards the answer.

Of a paused queue nothing is sent, and nothing is claimed. A pause is looked up by the
same statements, in a table of three rows at most. So it costs nothing where nothing is
paused, holds from its commit on, whoever leads or crashes, and ends by the clock alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from models.database.engine import db_now
from models.database.tables import (
    LINE,
    LIVE_OR_CLAIMED,
    PLACE,
    QUEUED,
    USER_OR_NOBODY,
    operations,
    queue_pauses,
)
from models.operation_state import LANES, Overlap, Queue

#: Another operation of the same line.
OTHER = operations.alias("other")


def find_line(name: str) -> sa.ColumnElement[str]:
    """Return what names the line of a row of the table or alias *name*."""
    return sa.literal_column(LINE.format(f"{name}."), sa.Text)


def find_place(name: str) -> tuple[sa.ColumnElement[Any], ...]:
    """Return by what the live rows of *name* stand in their line."""
    return tuple(sa.literal_column(each.format(f"{name}.")) for each in PLACE)


def is_of_line(name: str, other: str) -> sa.ColumnElement[bool]:
    """Match two rows of one line, by which the index of what is live finds them."""
    user, another = (
        sa.literal_column(USER_OR_NOBODY.format(f"{each}."), sa.Text)
        for each in (name, other)
    )
    uid, other_uid = (
        sa.literal_column(f"{each}.action_uid", sa.Text) for each in (name, other)
    )
    return sa.and_(other_uid == uid, another == user)


#: Matches what must end before the row of ``operations``, if that stands in line.
IS_AHEAD = sa.and_(
    is_of_line("operations", "other"),
    OTHER.c.id != operations.c.id,
    LIVE_OR_CLAIMED.of("other"),  # which has the index
    sa.tuple_(*find_place("other"))
    # whether it is claimed itself is no matter
    < sa.tuple_(sa.literal_column("1"), *find_place("operations")[1:]),
)

#: Matches the operations whose turn it is.
HAS_TURN = sa.or_(
    operations.c.overlap != Overlap.QUEUE,
    ~sa.exists().where(IS_AHEAD).correlate(operations),
)


_pause = queue_pauses.c

IS_IN_FORCE = sa.or_(_pause.paused_until.is_(None), _pause.paused_until > db_now())

#: Selects the queues that are paused now.
PAUSED = sa.select(_pause.queue).where(IS_IN_FORCE)


class Rest(NamedTuple):
    """Since and until when (None: it is resumed by hand) a queue rests, and why."""

    since: datetime
    until: datetime | None
    note: str | None


def fetch_resting(connection: sa.Connection) -> dict[Queue, Rest]:
    """Return the queues that are paused now."""
    rows = connection.execute(
        sa.select(
            _pause.queue, _pause.paused_at, _pause.paused_until, _pause.pause_note
        ).where(IS_IN_FORCE)
    )
    return {Queue(queue): Rest(*rest) for queue, *rest in rows}


#: Each lane of each queue; a lane is first in, first out.
EACH_LANE = tuple((queue, lane) for queue in LANES for lane in range(LANES[queue]))


def select_queued(
    queue: Queue, lane: int, *columns: sa.ColumnElement[Any]
) -> sa.Select[Any]:
    """Select what is with the broker in a lane of *queue*, in its order."""
    kept = operations.c
    of_lane = kept.queue == queue, kept.lane == lane
    return sa.select(*columns).where(QUEUED.of(), *of_lane).order_by(kept.sent_at)


def find_queued(most: int, *columns: sa.ColumnElement[Any]) -> sa.Subquery:
    """Select what is with the broker: of each lane what was sent first, *most* rows."""
    lanes = (select_queued(*lane, *columns).limit(most) for lane in EACH_LANE)
    return sa.union_all(*(sa.select(each.subquery()) for each in lanes)).subquery()
