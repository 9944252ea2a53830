"""How often a failure was seen with the same cause, for every face."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from models.database.engine import read_clock
from models.database.tables import TROUBLED, operations
from models.operation_state import OperationState
from operations.causes import CausePattern, has_cause
from operations.operation_filter import belongs_to

DAY, WEEK = timedelta(days=1), timedelta(days=7)

#: Failed and missed operations that are looked at, at most; the latest.
_LOOKED_AT = 5_000


@dataclass(frozen=True, slots=True)
class SameCause:
    """
    How often failures of one cause were seen lately; instants are aware UTC.

    Args:
        day: In the last 24 hours.
        week: In the last seven days.
        first_at: The first of these. None: it is longer ago.
        since: They were counted since then: later than a week ago if there are too
            many failures.
    """

    day: int
    week: int
    first_at: datetime | None
    last_at: datetime | None
    since: datetime


def count_same_cause(
    connection: sa.Connection,
    cause: CausePattern,
    *,
    app: str | None = None,
) -> SameCause:
    """
    Count the failures of *cause* within a week.

    Args:
        cause: Of one of them.
        app: Uid of the small app whose operations count. None: of all.
    """
    now = read_clock(connection)
    kept = operations.c
    latest = (
        sa.select(kept.state, kept.reason, kept.error, kept.finished_at)
        .where(TROUBLED.of(), kept.finished_at >= now - WEEK, *belongs_to(app))
        .order_by(kept.finished_at.desc())
        .limit(_LOOKED_AT)
        .subquery("latest")
    )
    at = latest.c.finished_at
    is_same = sa.and_(
        latest.c.state == OperationState.FAILED, has_cause(latest.c, cause)
    )
    row = connection.execute(
        sa.select(
            sa.func.count().label("looked_at"),
            sa.func.min(at, type_=at.type).label("oldest"),
            sa.func.sum(sa.case((is_same, 1), else_=0)).label("week"),
            sa.func.sum(sa.case((sa.and_(is_same, at >= now - DAY), 1), else_=0)).label(
                "day"
            ),
            sa.func.min(sa.case((is_same, at)), type_=at.type).label("first_at"),
            sa.func.max(sa.case((is_same, at)), type_=at.type).label("last_at"),
        )
    ).one()
    return SameCause(
        day=row.day or 0,
        week=row.week or 0,
        first_at=row.first_at,
        last_at=row.last_at,
        since=now - WEEK if row.looked_at < _LOOKED_AT else row.oldest,
    )
