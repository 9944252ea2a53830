"""
What ran and what will run, by day and hour, as the clocks of a zone show them.

What was decided is counted from the operations, by the database, a quarter at a time;
what is still to come from the rules, as ticks will find it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import accumulate
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.load.counting import Counting, LoadedMinute
from actions.load.forecast import Load
from actions.load.foresee import (
    TIME,
    HotMinute,
    Whose,
    find_undecided,
    foresee,
    name_minutes,
)
from actions.occurrences import parse_timing
from actions.when.searching import find_occurrences
from models.database.engine import read_clock
from models.database.sql_time import number_of
from models.database.tables import UNSUCCESSFUL, operations, scheduled_action_revisions
from models.errors import RuleError, UsageError
from models.operation_state import OperationState
from operations.operation_filter import match_period
from web.calendar.local_days import (
    CalendarDay,
    CalendarHour,
    find_hour,
    find_local_days,
)

WEEK = 7

#: How long after its end an outage may have been recorded and still counts.
LATEST = timedelta(days=7)

#: Outages that are looked at: those of actions with the same rule are one.
MOST_OUTAGES = 2_000

#: Occurrences of one outage: as many as a missed row counts itself.
MOST_MISSED = 1_000

#: Every zone's clocks differ from UTC by a multiple of this, so each hour of each zone
#: begins with one.
_QUARTER_S = 900


_run = operations.c
_revision = scheduled_action_revisions.c


@dataclass(frozen=True, slots=True)
class Calendar:
    """
    Days, hour by hour.

    Args:
        at: The time of the database, aware UTC.
        planned_from: What is due from here on was not decided when this was counted.
        is_partial: Whether something is not counted for lack of time, or because there
            are too many different outages.
    """

    at: datetime
    zone: ZoneInfo
    days: Sequence[CalendarDay]
    planned_from: datetime
    is_partial: bool

    def count(self, *states: OperationState) -> int:
        """Return how many are in *states*."""
        return sum(e.states[s] for day in self.days for e in day.hours for s in states)

    @property
    def planned(self) -> int:
        """How many are not decided yet."""
        return sum(each.planned for day in self.days for each in day.hours)


def fetch_calendar(
    connection: sa.Connection,
    zone: ZoneInfo,
    first: date,
    *,
    whose: Whose,
    load: Load | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> Calendar:
    """
    Return what was and will be due in each hour of a week.

    Operations count in the hour of their occurrence, whenever they ran. Of what was
    missed, an outage that ended more than a week after these days is not counted.

    Args:
        zone: Whose days and hours are meant.
        first: The first local day, years 1971 to 9980.
        whose: Whose occurrences.
        load: Theirs. What it has is not counted again, unless there was no time left to
            count all of that. None: it is not known.
        monotonic: Returns seconds that never jump.
    """
    now = read_clock(connection)
    days = find_local_days(first, WEEK, zone)
    hours = [hour for day in days for hour in day.hours]
    end = hours[-1].ends_at
    is_whole = _add_decided(connection, whose, hours)
    planned_from = find_undecided(connection, now)
    begin = max(planned_from, hours[0].starts_at)
    minutes: Sequence[LoadedMinute] = ()
    if begin < end and load is not None and load.has_all(begin, end):
        minutes = [each for each in load.minutes if begin <= each.at < end]
    elif begin < end:
        counting = Counting(begin, end)
        found = foresee(connection, counting, whose, before=end, monotonic=monotonic)
        minutes = counting.list_minutes()
        is_whole = is_whole and not found.left_out[TIME]
    for minute in minutes:
        hour = find_hour(hours, minute.at)
        assert hour is not None  # the period lies within the hours
        hour.planned += minute.total
    return Calendar(now, zone, days, planned_from, is_partial=not is_whole)


def _add_decided(
    connection: sa.Connection, whose: Whose, hours: Sequence[CalendarHour]
) -> bool:
    """Count the operations; return whether all could be counted."""
    since, until = hours[0].starts_at, hours[-1].ends_at
    quarter = number_of(connection.dialect.name, _run.occurrence, _QUARTER_S)
    query = (
        sa.select(quarter, _run.state, sa.func.count())
        .where(
            match_period(since, until),
            _run.state != OperationState.MISSED.value,
            *whose.conditions(_run),
        )
        .group_by(quarter, _run.state)
    )
    for number, state, count in connection.execute(query):
        hour = find_hour(hours, datetime.fromtimestamp(number * _QUARTER_S, UTC))
        if hour is not None:
            hour.states[OperationState(state)] += count
    outages = _fetch_outages(connection, whose, since, until)
    for row in outages[:MOST_OUTAGES]:
        details = row.details or {}
        limit = min(int(details.get("count", 1)), MOST_MISSED)
        missed = list_missed(
            row.timing, row.occurrence, details.get("last"), limit=limit
        )
        for at in missed:
            hour = find_hour(hours, at)
            if hour is not None:
                hour.states[OperationState.MISSED] += row.actions
                hour.missed_since = min(hour.missed_since or at, row.occurrence)
    return len(outages) <= MOST_OUTAGES


def _fetch_outages(
    connection: sa.Connection, whose: Whose, since: datetime, until: datetime
) -> Sequence[sa.Row[Any]]:
    """
    Return what was missed: rule, first occurrence, details, and of how many actions.

    A missed row is a range. Those that began before *since* are found as far as they
    were recorded since.
    """
    query = (
        select_with_timing(
            _run.occurrence, _run.details, sa.func.count().label("actions")
        )
        .where(
            UNSUCCESSFUL.of(),
            _run.state == OperationState.MISSED.value,
            _run.recorded_at >= since,
            _run.recorded_at < until + LATEST,
            _run.occurrence < until,
            *whose.conditions(_run),
        )
        .group_by(_revision.timing, _run.occurrence, _run.details)
        .order_by(_run.occurrence.desc())
        .limit(MOST_OUTAGES + 1)
    )
    return connection.execute(query).all()


def select_with_timing(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Select of operations, and of each the rule that its action had."""
    is_revision = sa.and_(
        _revision.uid == _run.action_uid, _revision.revision == _run.action_revision
    )
    shown: sa.Select[Any] = sa.select(_revision.timing, *columns)
    return shown.join_from(
        operations, scheduled_action_revisions, is_revision, isouter=True
    )


def list_missed(
    timing: str | None,
    first: datetime,
    last: str | None,
    *,
    since: datetime | None = None,
    limit: int = MOST_MISSED,
) -> Sequence[datetime]:
    """
    Return the occurrences of a missed row; which it has, its rule says.

    Args:
        timing: Of its action. None: it is known no more, so the first stands for all.
        first: Aware.
        last: As its details have it. None: there is but one.
        since: Those before are left out, if the rule can be read. None: none are.
        limit: The most.
    """
    if timing is None or last is None:
        return [first]
    begin = first if since is None else max(first, since)
    end = datetime.fromisoformat(last) + timedelta(seconds=1)
    try:
        return find_occurrences(parse_timing(timing), begin, end, limit=limit)
    except RuleError:
        return [first]


#: The longest period, and the one unless the caller says otherwise.
LONGEST = timedelta(days=1)
DEFAULT_PERIOD = timedelta(hours=1)

#: Actions that are named, in all.
MOST = 200


@dataclass(frozen=True, slots=True)
class Planned:
    """
    What is planned.

    Args:
        since: Aware UTC, inclusive: not before what ticks have looked at.
        until: Aware UTC, exclusive.
        total: How many occurrences there are.
        minutes: In order, from the first on; the actions of each, MOST in all.
        is_whole: Whether *minutes* has all that there is.
    """

    since: datetime
    until: datetime
    total: int
    minutes: Sequence[HotMinute]
    is_whole: bool


def list_planned(
    connection: sa.Connection,
    whose: Whose,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Planned:
    """
    Return which actions are due when, in a short time to come.

    Args:
        whose: Of which app and queue.
        since: Aware; its minute is the first. None, or past: what no tick has decided.
        until: Aware, exclusive; at most LONGEST after *since*. None: DEFAULT_PERIOD
            after it.

    Raises:
        UsageError: The period is empty or too long.
    """
    now = read_clock(connection)
    asked = (since or now).astimezone(UTC).replace(second=0, microsecond=0)
    end = (until or asked + DEFAULT_PERIOD).astimezone(UTC)
    if not timedelta() < end - asked <= LONGEST:
        raise UsageError(
            f"from {asked:%Y-%m-%d %H:%M}Z to {end:%Y-%m-%d %H:%M}Z is not a period of"
            " up to a day. Ask for another."
        )
    begin = max(asked, find_undecided(connection, now))
    if begin >= end:
        return Planned(asked, end, 0, [], is_whole=True)
    counting = Counting(begin, end, named=MOST)
    found = foresee(connection, counting, whose, before=end)
    minutes = counting.list_minutes()
    # The minute in which there is no more room for a name is the last.
    named = accumulate((each.total for each in minutes), initial=0)
    listed = [m for m, before in zip(minutes, named, strict=False) if before < MOST]
    total = counting.by_queue.total()
    return Planned(
        since=begin,
        until=end,
        total=total,
        minutes=name_minutes(connection, counting, listed, whose, most=MOST),
        is_whole=total <= MOST and not found.left_out[TIME],
    )
