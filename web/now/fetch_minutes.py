"""Minute by minute: what ran, what did not, what waits, and what is planned."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from actions.load.counting import Counting
from actions.load.foresee import Whose, foresee
from actions.lookup import find_filtered
from models.database.engine import UtcDateTime, read_clock
from models.database.lists import belongs_to
from models.database.sql_time import minute_of
from models.database.tables import TROUBLED, operations
from models.operation_state import OperationState, Trigger
from overview.installation.leaders import Reign, fetch_unled
from web.calendar.fetch_calendar import list_missed, select_with_timing

#: How far the minutes reach, back and ahead.
BACK = timedelta(hours=2)
AHEAD = timedelta(hours=1)

#: The most operations that are looked at, the latest first: some 50 ms. Those of one
#: small app lie far apart in the table, so that each costs more.
LOOKED_AT = 50_000
LOOKED_AT_OF_APP = 10_000

#: The most rows of missed occurrences.
_MISSED_ROWS = 500

_MINUTE = timedelta(minutes=1)

#: How long plans may take, after what there is has been read.
PATIENCE = timedelta(seconds=0.3)

#: What is counted beside the states of operations.
PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class Minutes:
    """
    What each minute had or will have; times are aware UTC.

    Args:
        since: The first minute.
        until: The end of the last one.
        counted_since: Before it, not all was looked at.
        counts: By the beginning of the minute and by state, or PLANNED; an operation
            counts in the minute in which it was due.
        unled: When nobody led.
    """

    now: datetime
    since: datetime
    until: datetime
    counted_since: datetime
    counts: Mapping[datetime, Mapping[str, int]]
    unled: Sequence[Reign]


def fetch_minutes(
    connection: sa.Connection, *, app: str | None = None, most: int | None = None
) -> Minutes:
    """
    Return what each minute around now had or will have.

    Args:
        app: Uid of the only small app that counts. None: all.
        most: The most operations to look at. None: LOOKED_AT, or LOOKED_AT_OF_APP.

    Raises:
        NotFoundError: There is no such small app.
    """
    find_filtered(connection, app=app, action=None)
    now = read_clock(connection)
    this_minute = _find_minute(now)
    since, until = this_minute - BACK, this_minute + AHEAD + _MINUTE
    bound = most or (LOOKED_AT if app is None else LOOKED_AT_OF_APP)
    counts: dict[datetime, Counter[str]] = defaultdict(Counter)
    counted_since = _count_recorded(connection, app, since, now, bound, counts)
    _count_missed(connection, app, since, counts)
    counting = Counting(this_minute + _MINUTE, until)
    foresee(connection, counting, Whose(app), before=until, patience=PATIENCE)
    for each in counting.list_minutes():
        counts[each.at][PLANNED] = each.total
    unled = fetch_unled(connection, since=since)
    return Minutes(now, since, until, counted_since, counts, unled)


def _count_recorded(
    connection: sa.Connection,
    app: str | None,
    since: datetime,
    now: datetime,
    most: int,
    counts: dict[datetime, Counter[str]],
) -> datetime:
    """
    Count what was recorded since then, in the minute in which it was due.

    What runs long after it was due, such as a backfill, counts when it was recorded.

    Returns:
        The first minute from which on all was looked at.
    """
    kept = operations.c
    is_timely = sa.and_(
        kept.trigger != Trigger.BACKFILL,
        kept.occurrence >= since,
        kept.occurrence <= now,
    )
    placed_at = sa.case((is_timely, kept.occurrence), else_=kept.recorded_at)
    looked_at = (
        sa.select(minute_of(placed_at).label("minute"), kept.recorded_at, kept.state)
        .where(kept.recorded_at >= since, *belongs_to(app))
        .order_by(kept.recorded_at.desc())
        .limit(most)
        .subquery("looked_at")
    )
    given = looked_at.c
    rows = connection.execute(
        sa.select(
            given.minute,
            given.state,
            sa.func.count(),
            sa.func.min(given.recorded_at, type_=UtcDateTime),
        ).group_by(given.minute, given.state)
    ).all()
    for minute, state, count, _oldest in rows:
        if state != OperationState.MISSED:
            counts[minute][state] += count
    if sum(count for _minute, _state, count, _oldest in rows) < most:
        return since
    oldest: datetime = min(oldest for *_, oldest in rows)
    return _find_minute(oldest) + _MINUTE


def _count_missed(
    connection: sa.Connection,
    app: str | None,
    since: datetime,
    counts: dict[datetime, Counter[str]],
) -> None:
    """Count missed occurrences, each in its minute: one row is for a whole outage."""
    kept = operations.c
    query = (
        select_with_timing(kept.details, kept.occurrence)
        .where(
            TROUBLED.of(),
            kept.state == OperationState.MISSED,
            kept.finished_at >= since,
            *belongs_to(app),
        )
        .order_by(kept.finished_at.desc())
        .limit(_MISSED_ROWS)
    )
    outages = Counter(
        (row.timing, row.occurrence, (row.details or {}).get("last"))
        for row in connection.execute(query)
    )
    for outage, actions in outages.items():
        for at in list_missed(*outage, since=since):
            if at >= since:
                counts[_find_minute(at)][OperationState.MISSED] += actions


def _find_minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)
