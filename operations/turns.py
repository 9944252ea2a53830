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
from typing import NamedTuple

import sqlalchemy as sa

from models.database.engine import db_now
from models.database.tables import LIVE_OR_CLAIMED, OF_TASK, operations, queue_pauses
from models.operation_state import Overlap, Queue

#: Another operation of the same line.
OTHER = operations.alias("other")


#: Not bound: this is part of every claim.
_ZERO: sa.ColumnElement[int] = sa.literal_column("0")
_ONE: sa.ColumnElement[int] = sa.literal_column("1")


def _place(rows: sa.FromClause, name: str) -> sa.Tuple:
    return sa.tuple_(
        # Its task goes on, whatever was recorded before it and is tried again.
        sa.case((OF_TASK.of(name), _ZERO), else_=_ONE),
        rows.c.recorded_at,
        # What is made up for was recorded together.
        sa.func.coalesce(rows.c.occurrence, rows.c.recorded_at),
        rows.c.id,
    )


#: Matches what must end before the row of ``operations``, if that stands in line.
IS_AHEAD = sa.and_(
    OTHER.c.action_uid == operations.c.action_uid,
    sa.or_(  # IS NOT DISTINCT FROM would use no index
        OTHER.c.user_id == operations.c.user_id,
        sa.and_(OTHER.c.user_id.is_(None), operations.c.user_id.is_(None)),
    ),
    OTHER.c.id != operations.c.id,
    LIVE_OR_CLAIMED.of("other"),  # which has the index
    sa.or_(
        OTHER.c.claim_token.is_not(None),
        _place(OTHER, "other") < _place(operations, "operations"),
    ),
)

#: Matches the operations whose turn it is.
HAS_TURN = sa.or_(
    operations.c.overlap != Overlap.QUEUE,
    ~sa.exists().where(IS_AHEAD).correlate(operations),
)


_kept = queue_pauses.c

IS_IN_FORCE = sa.or_(_kept.paused_until.is_(None), _kept.paused_until > db_now())

#: Selects the queues that are paused now.
PAUSED = sa.select(_kept.queue).where(IS_IN_FORCE)


class Rest(NamedTuple):
    """Since and until when (None: it is resumed by hand) a queue rests, and why."""

    since: datetime
    until: datetime | None
    note: str | None


def fetch_resting(connection: sa.Connection) -> dict[Queue, Rest]:
    """Return the queues that are paused now."""
    rows = connection.execute(
        sa.select(
            _kept.queue, _kept.paused_at, _kept.paused_until, _kept.pause_note
        ).where(IS_IN_FORCE)
    )
    return {Queue(queue): Rest(*rest) for queue, *rest in rows}
