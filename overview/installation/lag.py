"""How long operations wait from being recorded to their start: the lag."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from models.database.engine import read_clock
from models.database.sql_time import minute_of, seconds_between
from models.database.tables import operations
from operations.operation_filter import belongs_to
from overview.installation.figures import LATELY

#: The most operations that are looked at, the latest first: some 20 ms.
LOOKED_AT = 10_000

#: Of a hundred operations, this many started as fast or faster.
_PERCENT = 95


@dataclass(frozen=True, slots=True)
class Lag:
    """
    How long operations waited from being recorded to their first start.

    Args:
        since: Aware UTC.
        count: How many operations have started.
        p95: Of 100, 95 started within this time. None: none has started.
        by_minute: The same of those recorded in a minute.
    """

    since: datetime
    count: int
    p95: timedelta | None
    by_minute: Mapping[datetime, timedelta]


def fetch_lag(
    connection: sa.Connection,
    *,
    app: str | None = None,
    within: timedelta = LATELY,
    most: int = LOOKED_AT,
) -> Lag:
    """
    Return how long what was recorded lately waited for its first start.

    Args:
        app: Uid of the only small app that counts. None: all.
        within: How far back to look.
        most: The most operations to look at.
    """
    kept = operations.c
    since = read_clock(connection) - within
    rows = connection.execute(
        sa.select(
            minute_of(kept.recorded_at).label("minute"),
            seconds_between(kept.recorded_at, kept.started_at).label("waited"),
        )
        .where(
            kept.recorded_at >= since, kept.started_at.is_not(None), *belongs_to(app)
        )
        .order_by(kept.recorded_at.desc())
        .limit(most)
    ).all()
    if len(rows) == most:
        since = rows[-1].minute
    waits: dict[datetime, list[float]] = {}
    for minute, waited in rows:
        waits.setdefault(minute, []).append(max(0.0, float(waited)))
    everything = [each for found in waits.values() for each in found]
    return Lag(
        since=since,
        count=len(everything),
        p95=find_p95(everything) if everything else None,
        by_minute={minute: find_p95(found) for minute, found in waits.items()},
    )


def find_p95(waits: list[float]) -> timedelta:
    """
    Return the time within which 95 of 100 *waits* (seconds, at least one) ended.

    >>> find_p95([float(each) for each in range(1, 101)])
    datetime.timedelta(seconds=95)
    """
    place = math.ceil(len(waits) * _PERCENT / 100) - 1
    return timedelta(seconds=sorted(waits)[place])
