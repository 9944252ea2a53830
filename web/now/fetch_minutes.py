"""Minute by minute: what ran, what did not, what waits, and what is planned."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

import sqlalchemy as sa

from actions.lookup import find_filtered
from actions.occurrences import Schedule, parse_timing
from actions.when.searching import find_each, find_occurrences
from models.database.engine import UtcDateTime, read_clock
from models.database.lists import belongs_to
from models.database.sql_time import minute_of
from models.database.tables import (
    TROUBLED,
    operations,
    scheduled_action_revisions,
    scheduled_actions,
)
from models.errors import RuleError
from models.operation_state import OperationState, Trigger
from overview.installation.leaders import Unled, fetch_unled

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

#: How long plans may take, after what there is has been read.
PATIENCE = timedelta(seconds=0.3)

#: Actions with the same rule that are due next at different instants.
_RULES = 20_000

_action = scheduled_actions.c

#: How the timing of an action with jitter reads: canonical JSON.
_HAS_JITTER = _action.timing.contains('"jitter":"', autoescape=True)

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


def fetch_minutes(
    connection: sa.Connection,
    *,
    app: str | None = None,
    most: int | None = None,
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
    this_minute = now.replace(second=0, microsecond=0)
    since, until = this_minute - BACK, this_minute + AHEAD + _MINUTE
    bound = most or (LOOKED_AT if app is None else LOOKED_AT_OF_APP)
    counts: dict[datetime, Counter[str]] = defaultdict(Counter)
    counted_since = _count_recorded(connection, app, since, now, bound, counts)
    _count_missed(connection, app, since, counts)
    planned, planned_is_whole = _count_planned(
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


def _count_planned(
    connection: sa.Connection,
    *,
    since: datetime,
    until: datetime,
    app: str | None = None,
) -> tuple[Counter[datetime], bool]:
    """
    Return how many occurrences each minute has, and whether all were counted.

    Args:
        since: The first minute, aware; in the future.
        until: The end of the last one.
        app: Uid of the only small app that counts. None: all.
    """
    # With jitter each action has its own minutes; without it, all of a rule the same.
    uid = sa.case((_HAS_JITTER, _action.uid))
    rows = connection.execute(
        sa.select(_action.timing, _action.next_due_at, uid, sa.func.count())
        .where(
            _action.next_due_at < until,
            _action.active,
            _action.paused_at.is_(None),
            _action.quarantined_at.is_(None),
            _action.deleted_at.is_(None),
            _action.timing.is_not(None),
            *belongs_to(app, _action.app),
        )
        .group_by(_action.timing, _action.next_due_at, uid)
        .limit(_RULES + 1)
    ).all()
    deadline = time.monotonic() + PATIENCE.total_seconds()
    counts: Counter[datetime] = Counter()
    for timing, next_due_at, spread_uid, count in islice(rows, _RULES):
        if time.monotonic() >= deadline:
            return counts, False
        try:
            schedule = parse_timing(timing)
        except RuleError:
            continue  # it goes into quarantine when it is due
        begin = max(since, next_due_at)
        for due_at in _find_due(schedule, spread_uid, begin, until):
            counts[due_at.replace(second=0, microsecond=0)] += count
    return counts, len(rows) <= _RULES


def _find_due(
    schedule: Schedule, uid: str | None, begin: datetime, until: datetime
) -> list[datetime]:
    """Return when a schedule is due, with the jitter of *uid* if it has any."""
    if uid is None:
        return list(find_each(schedule, begin, until))
    found = find_each(schedule, begin - schedule.jitter, until)
    return [
        due_at
        for due_at in (schedule.due_at(each, uid) for each in found)
        if begin <= due_at < until
    ]
