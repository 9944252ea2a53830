"""
Whose turn it is among the operations of an action and user with ``overlap: queue``.

They stand in line in the order in which they were recorded, until they are final: a
message that comes back, a retry or a worker that stops changes nobody's place. The
statements that send and claim ask the same question; a unique index guards the answer.
"""

from __future__ import annotations

import sqlalchemy as sa

from models.database.tables import LIVE_OR_CLAIMED, OF_TASK, operations
from models.operation_state import Overlap

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
