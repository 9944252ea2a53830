"""
What ran and what will run, by day and hour, as the clocks of a zone show them.

What was decided is counted from the operations, by the database; what is still to come
from the rules, as ticks will find it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.leader import get_last_tick_at
from actions.load.forecast import Load
from actions.load.foresee import TIME, Whose, find_undecided
from actions.lookup import find_filtered
from models.database.engine import read_clock
from models.errors import UsageError
from models.fields.zone import load_zone
from models.json_form import LocalTimeJson, make_local_time
from models.operation_state import LIVE_STATES, TROUBLED_STATES, OperationState
from web.calendar.fetch_coming import find_coming
from web.calendar.fetch_decided import count_missed, count_operations
from web.calendar.local_days import Hour, LocalDay, find_hour, find_local_days

#: Days of a calendar, unless the caller says otherwise, and the most.
WEEK = 7
MOST_DAYS = 15

#: The years that rules are asked about, with room on both sides.
YEARS = range(1971, 9990)

#: How long foreseeing may take; what is left then is told.
PATIENCE = timedelta(seconds=2)

_MINUTE = timedelta(minutes=1)


class HourKind(StrEnum):
    """What there is to say of an hour, in one word."""

    EMPTY = "empty"  # nothing was or will be due
    PLANNED = "planned"  # nothing is decided yet
    RUNNING = "running"  # something is still to be done, and nothing went wrong
    OK = "ok"  # nothing failed, and nothing was missed
    MIXED = "mixed"  # some failed, others did not
    FAILED = "failed"  # whatever ended has failed
    MISSED = "missed"  # something was missed, whatever else happened


class HourJson(TypedDict):
    """
    An hour; ``turn`` is 2 if clocks show it for the second time on that day.

    ``due`` is how many were and will be due in all, ``planned`` how many of them are
    not decided yet, ``states`` how many are in each state; of those that were missed,
    each occurrence counts. ``missed_since`` is the first occurrence of the outages of
    which this hour has a part.
    """

    starts: LocalTimeJson
    ends_at: datetime
    turn: int
    kind: HourKind
    due: int
    planned: int
    states: dict[OperationState, int]
    missed_since: datetime | None


class CalendarDayJson(TypedDict):
    """A local day; ``change`` is what the clocks do on it."""

    date: str
    change: str | None
    hours: list[HourJson]


CalendarJson = TypedDict(
    "CalendarJson",
    {
        "at": datetime,
        "zone": str,
        "from": datetime,
        "until": datetime,
        "planned_from": datetime,
        "actions": int,
        "left_out": dict[str, int],
        "is_partial": bool,
        "days": list[CalendarDayJson],
    },
)


@dataclass(slots=True)
class HourCounts:
    """
    What was and will be due in an hour.

    Args:
        planned: Not decided yet.
        states: Of those that were decided. Of outages, each occurrence counts.
        missed_since: The first occurrence of the outages that touch the hour.
    """

    planned: int = 0
    states: Counter[OperationState] = field(default_factory=Counter)
    missed_since: datetime | None = None

    @property
    def decided(self) -> int:
        """How many were decided."""
        return sum(self.states.values())

    @property
    def due(self) -> int:
        """How many there are in all."""
        return self.planned + self.decided

    @property
    def live(self) -> int:
        """How many are still to be done."""
        return sum(self.states[state] for state in LIVE_STATES)

    @property
    def kind(self) -> HourKind:
        """What there is to say of it, in one word: the worst."""
        failed = self.states[OperationState.FAILED]
        if self.states[OperationState.MISSED]:
            return HourKind.MISSED
        if failed:
            is_all = failed == self.decided - self.live
            return HourKind.FAILED if is_all else HourKind.MIXED
        if self.live:
            return HourKind.RUNNING
        if self.decided:
            return HourKind.OK
        return HourKind.PLANNED if self.planned else HourKind.EMPTY


@dataclass(frozen=True, slots=True)
class CountedHour:
    """An hour of a day, and what it has."""

    hour: Hour
    counts: HourCounts


@dataclass(frozen=True, slots=True)
class CountedDay:
    """
    A local day.

    Args:
        hours: In order; 23 or 25 if the clocks change.
    """

    day: LocalDay
    hours: Sequence[CountedHour]

    @property
    def due(self) -> int:
        """How many were and will be due."""
        return sum(each.counts.due for each in self.hours)


@dataclass(frozen=True, slots=True)
class Calendar:
    """
    Days, hour by hour.

    Args:
        at: The time of the database, aware UTC.
        planned_from: What is due from here on was not decided when this was counted.
        actions: How many actions were asked when they are due.
        left_out: How many were not, by the reason; see ``Load``.
        is_partial: Whether something is not counted for lack of time, or because there
            are too many different outages.
    """

    at: datetime
    zone: ZoneInfo
    days: Sequence[CountedDay]
    planned_from: datetime
    actions: int
    left_out: Mapping[str, int]
    is_partial: bool

    def count(self, *states: OperationState) -> int:
        """Return how many are in *states*."""
        return sum(
            each.counts.states[state]
            for day in self.days
            for each in day.hours
            for state in states
        )

    @property
    def planned(self) -> int:
        """How many are not decided yet."""
        return sum(each.counts.planned for day in self.days for each in day.hours)

    @property
    def troubled(self) -> int:
        """How many failed or were missed."""
        return self.count(*TROUBLED_STATES)

    def as_json(self) -> CalendarJson:
        """Return the documented object; keys are only added."""
        return {
            "at": self.at,
            "zone": self.zone.key,
            "from": self.days[0].day.starts_at,
            "until": self.days[-1].day.ends_at,
            "planned_from": self.planned_from,
            "actions": self.actions,
            "left_out": dict(self.left_out),
            "is_partial": self.is_partial,
            "days": [self._make_day_json(each) for each in self.days],
        }

    def _make_day_json(self, counted: CountedDay) -> CalendarDayJson:
        change = counted.day.change
        return {
            "date": counted.day.day.isoformat(),
            "change": None if change is None else change.describe(),
            "hours": [self._make_hour_json(each) for each in counted.hours],
        }

    def _make_hour_json(self, counted: CountedHour) -> HourJson:
        hour, counts = counted.hour, counted.counts
        return {
            "starts": make_local_time(hour.starts_at, self.zone),
            "ends_at": hour.ends_at,
            "turn": hour.turn,
            "kind": counts.kind,
            "due": counts.due,
            "planned": counts.planned,
            "states": {s: counts.states[s] for s in OperationState if counts.states[s]},
            "missed_since": counts.missed_since,
        }


def fetch_calendar(  # noqa: PLR0913 - what is asked, and a clock
    connection: sa.Connection,
    *,
    zone: str = "UTC",
    first: date | None = None,
    days: int = WEEK,
    whose: Whose | None = None,
    load: Load | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> Calendar:
    """
    Return what was and will be due in each hour of some days.

    Operations count in the hour of their occurrence, whenever they ran. Of what was
    missed, an outage that ended more than a week after these days is not counted.

    Args:
        zone: IANA name of the zone whose days and hours are meant.
        first: The first local day. None: the Monday of this week.
        days: How many, at most MOST_DAYS.
        whose: Whose occurrences. None: all.
        load: Theirs: what it has is not counted again. None: it is not known.
        monotonic: Returns seconds that never jump.

    Raises:
        NotFoundError: There is no such small app.
        RuleError: There is no such zone.
        UsageError: The days are too many, or too far away.
    """
    whose = whose or Whose()
    find_filtered(connection, app=whose.app, action=None)
    now = read_clock(connection)
    clocks = load_zone(zone)
    today = now.astimezone(clocks).date()
    first = first or today - timedelta(days=today.weekday())
    _refuse_days(first, days)
    found = find_local_days(first, days, clocks)
    hours = [hour for day in found for hour in day.hours]
    counts = [HourCounts() for _ in hours]
    is_whole = _add_decided(connection, whose, hours, counts)
    last_tick_at = get_last_tick_at(connection)
    planned_from = find_undecided(now, last_tick_at)
    deadline = monotonic() + PATIENCE.total_seconds()
    coming = find_coming(
        connection,
        whose,
        max(planned_from, hours[0].starts_at),
        hours[-1].ends_at,
        load=load,
        is_over=lambda: monotonic() >= deadline,
    )
    for minute in coming.minutes:
        hour = find_hour(hours, minute.at)
        assert hour is not None  # the period lies within the hours
        counts[hour].planned += minute.total
    each = iter(zip(hours, counts, strict=True))
    return Calendar(
        at=now,
        zone=clocks,
        days=[
            CountedDay(day, [CountedHour(*next(each)) for _ in day.hours])
            for day in found
        ],
        planned_from=planned_from,
        actions=coming.actions,
        left_out=coming.left_out,
        is_partial=not is_whole or TIME in coming.left_out,
    )


def _refuse_days(first: date, days: int) -> None:
    if not 1 <= days <= MOST_DAYS:
        msg = f"{days} days are not 1 to {MOST_DAYS}. Ask for some of them at a time."
        raise UsageError(msg)
    if first.year not in YEARS:
        msg = f"{first} is not in the years {YEARS[0]} to {YEARS[-1]}."
        raise UsageError(msg)


def _add_decided(
    connection: sa.Connection,
    whose: Whose,
    hours: Sequence[Hour],
    counts: Sequence[HourCounts],
) -> bool:
    """Count the operations; return whether all could be counted."""
    since, until = hours[0].starts_at, hours[-1].ends_at
    for at, state, count in count_operations(connection, whose, since, until):
        number = find_hour(hours, at)
        if number is not None:
            counts[number].states[state] += count
    missed = count_missed(connection, whose, since, until)
    for outage in missed.outages:
        for at in outage.occurrences:
            number = find_hour(hours, at)
            if number is not None:
                hour = counts[number]
                hour.states[OperationState.MISSED] += outage.actions
                hour.missed_since = min(hour.missed_since or at, outage.first)
    return missed.is_whole
