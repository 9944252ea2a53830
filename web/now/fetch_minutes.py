"""Minute by minute: what ran, what did not, what waits, and what is planned."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from typing_extensions import TypedDict

from actions.lookup import find_filtered
from actions.occurrences import parse_timing
from actions.when.searching import find_occurrences
from models.database.engine import UtcDateTime, read_clock
from models.database.tables import TROUBLED, operations, scheduled_action_revisions
from models.errors import RuleError
from models.operation_state import OperationState, Trigger
from operations.operation_filter import belongs_to
from web.now.planned import foresee_minutes
from overview.installation.unled import Unled, fetch_unled

#: How far the minutes reach, back and ahead.
BACK = timedelta(hours=2)
AHEAD = timedelta(hours=1)

#: The most operations that are looked at, the latest first: some 50 ms. Those of one
#: small app lie far apart in the table, so that each costs more.
LOOKED_AT = 50_000
LOOKED_AT_OF_APP = 10_000

#: The most rows of missed occurrences, and the most occurrences of each.
_MISSED_ROWS = 500
_MISSED_EACH = 1_000

_MINUTE = timedelta(minutes=1)


class minute_of(FunctionElement[datetime]):  # noqa: N801 - reads as SQL's own
    """SQL expression: the beginning of the minute of an instant."""

    type = UtcDateTime
    inherit_cache = True
    name = "minute_of"


@compiles(minute_of, "postgresql")
def _postgresql_minute(element: minute_of, compiler: Any, **options: Any) -> str:
    return f"date_trunc('minute', {compiler.process(element.clauses, **options)})"


@compiles(minute_of, "sqlite")
def _sqlite_minute(element: minute_of, compiler: Any, **options: Any) -> str:
    instant = compiler.process(element.clauses, **options)
    # Instants are text of a fixed width: models/database/engine.py.
    return f"(substr({instant}, 1, 16) || ':00.000000+00:00')"


class MinuteJson(TypedDict):
    """
    The operations of a minute, by state; states that none is in are left out.

    ``missed`` counts occurrences, and ``planned`` those that are coming.
    """

    at: datetime
    counts: dict[str, int]


class MinutesJson(TypedDict):
    """
    The minutes in which there was or will be something, in order.

    ``counted_since`` is later than ``since`` if there were too many operations to look
    at; ``planned_is_whole`` false: there was no time to foresee all. ``unled`` are the
    times in which nobody led.
    """

    now: datetime
    since: datetime
    until: datetime
    counted_since: datetime
    planned_is_whole: bool
    minutes: list[MinuteJson]
    unled: list[Unled]


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
        planned_is_whole: Whether all that is coming was counted.
        counts: By the beginning of the minute and by state, or PLANNED; an operation
            counts in the minute in which it was due.
        unled: When nobody led.
    """

    now: datetime
    since: datetime
    until: datetime
    counted_since: datetime
    planned_is_whole: bool
    counts: Mapping[datetime, Mapping[str, int]]
    unled: Sequence[Unled]

    def as_json(self) -> MinutesJson:
        """Return the documented object; keys are only added."""
        return {
            "now": self.now,
            "since": self.since,
            "until": self.until,
            "counted_since": self.counted_since,
            "planned_is_whole": self.planned_is_whole,
            "minutes": [
                {"at": at, "counts": dict(counts)}
                for at, counts in sorted(self.counts.items())
            ],
            "unled": list(self.unled),
        }


def fetch_minutes(
    connection: sa.Connection,
    *,
    app: str | None = None,
    back: timedelta = BACK,
    ahead: timedelta = AHEAD,
    most: int | None = None,
) -> Minutes:
    """
    Return what each minute around now had or will have.

    Args:
        app: Uid of the only small app that counts. None: all.
        back: Reaches so far back.
        ahead: And so far ahead.
        most: The most operations to look at. None: LOOKED_AT, or LOOKED_AT_OF_APP.

    Raises:
        NotFoundError: There is no such small app.
    """
    find_filtered(connection, app=app, action=None)
    now = read_clock(connection)
    this_minute = now.replace(second=0, microsecond=0)
    since, until = this_minute - back, this_minute + ahead + _MINUTE
    bound = most or (LOOKED_AT if app is None else LOOKED_AT_OF_APP)
    counts: dict[datetime, Counter[str]] = defaultdict(Counter)
    counted_since = _count_recorded(connection, app, since, now, bound, counts)
    _count_missed(connection, app, since, counts)
    planned, planned_is_whole = foresee_minutes(
        connection, since=this_minute + _MINUTE, until=until, app=app
    )
    for minute, count in planned.items():
        counts[minute][PLANNED] += count
    return Minutes(
        now=now,
        since=since,
        until=until,
        counted_since=counted_since,
        planned_is_whole=planned_is_whole,
        counts=counts,
        unled=fetch_unled(connection, since=since),
    )


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
        sa.select(
            minute_of(placed_at).label("minute"),
            kept.recorded_at,
            kept.state,
        )
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
    return oldest.replace(second=0, microsecond=0) + _MINUTE


def _count_missed(
    connection: sa.Connection,
    app: str | None,
    since: datetime,
    counts: dict[datetime, Counter[str]],
) -> None:
    """Count missed occurrences, each in its minute: one row is for a whole outage."""
    kept, revisions = operations.c, scheduled_action_revisions
    query = (
        sa.select(kept.details, kept.occurrence, revisions.c.timing)
        .join_from(
            operations,
            revisions,
            sa.and_(
                revisions.c.uid == kept.action_uid,
                revisions.c.revision == kept.action_revision,
            ),
            isouter=True,
        )
        .where(
            TROUBLED.of(),
            kept.state == OperationState.MISSED,
            kept.finished_at >= since,
            *belongs_to(app),
        )
        .order_by(kept.finished_at.desc())
        .limit(_MISSED_ROWS)
    )
    known: dict[tuple[str, str, str], list[datetime]] = {}
    for details, occurrence, timing in connection.execute(query):
        given = details or {}
        first, last = given.get("first"), given.get("last")
        if timing is None or first is None or last is None:
            found = [occurrence]
        else:
            key = timing, first, last
            if key not in known:
                known[key] = _find_missed(timing, first, last, since)
            found = known[key]
        for at in found:
            if at >= since:
                counts[at.replace(second=0, microsecond=0)][OperationState.MISSED] += 1


def _find_missed(timing: str, first: str, last: str, since: datetime) -> list[datetime]:
    """Return the occurrences from *first* to *last*, those before *since* left out."""
    begin, end = datetime.fromisoformat(first), datetime.fromisoformat(last)
    try:
        schedule = parse_timing(timing)
    except RuleError:
        return [begin]
    return list(
        find_occurrences(
            schedule,
            max(begin, since),
            end + timedelta(seconds=1),
            limit=_MISSED_EACH,
        )
    )
