"""
Local days, hour by hour: what a clock on the wall shows, when, and what was due. Pure.

A day has 23 or 25 hours if the clocks change, and one of them may be short.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from actions.previews.preview_notes import ClockChange, find_clock_changes
from models.fields.zone import first_instant_at
from models.operation_state import OperationState
from web.charts import Outcome, judge

_HOUR = timedelta(hours=1)


@dataclass(slots=True)
class CalendarHour:
    """
    An hour of a local day, or what a clock change left of it, and what was due in it.

    Args:
        starts_at: Aware UTC, inclusive; *ends_at* is exclusive.
        shown: The hour that clocks show, 0 to 23.
        planned: How many are not decided yet.
        states: Of those that were decided. Of outages, each occurrence counts.
        missed_since: The first occurrence of the outages that touch the hour.
    """

    starts_at: datetime
    ends_at: datetime
    shown: int
    planned: int = 0
    states: Counter[OperationState] = field(default_factory=Counter)
    missed_since: datetime | None = None

    @property
    def decided(self) -> int:
        """How many were decided."""
        return self.states.total()

    @property
    def due(self) -> int:
        """How many there are in all."""
        return self.planned + self.decided

    @property
    def kind(self) -> Outcome:
        """What there is to say of it, in one word."""
        is_planned = self.planned and not self.decided
        return Outcome.PLANNED if is_planned else judge(self.states)


@dataclass(frozen=True, slots=True)
class CalendarDay:
    """
    A day as the clocks of a zone count it.

    Args:
        hours: In order, without gaps.
        change: What the clocks do on that day. None: they run on.
    """

    day: date
    hours: Sequence[CalendarHour]
    change: ClockChange | None

    @property
    def starts_at(self) -> datetime:
        """Its first instant, aware UTC."""
        return self.hours[0].starts_at

    @property
    def ends_at(self) -> datetime:
        """The first instant of the next day, aware UTC."""
        return self.hours[-1].ends_at


def find_local_days(first: date, days: int, zone: ZoneInfo) -> list[CalendarDay]:
    """
    Return *days* days from *first* on; a date that the zone left out has no entry.

    Args:
        first: Local date of *zone*, years 1970 to 9990.
        days: At least 1.
    """
    dates = [first + timedelta(days=number) for number in range(days + 1)]
    bounds = [first_instant_at(datetime.combine(e, time()), zone) for e in dates]
    found = []
    for day, (since, until) in zip(dates, pairwise(bounds), strict=False):
        if since < until:
            changes = find_clock_changes(zone, since - timedelta(seconds=1), until)
            change = next(iter(changes), None)
            hours = tuple(_find_hours(since, until, zone, change))
            found.append(CalendarDay(day, hours, change))
    return found


def _find_hours(
    since: datetime, until: datetime, zone: ZoneInfo, change: ClockChange | None
) -> Iterator[CalendarHour]:
    begin = since
    while begin < until:
        local = begin.astimezone(zone)
        hour = local.replace(minute=0, second=0, microsecond=0, tzinfo=None)
        end = min(begin + _HOUR - (local.replace(tzinfo=None) - hour), until)
        if change is not None and begin < change.changed_at < end:
            end = change.changed_at
        yield CalendarHour(begin, end, local.hour)
        begin = end


def find_hour(hours: Sequence[CalendarHour], at: datetime) -> CalendarHour | None:
    """Return the hour of *at* among *hours*, which leave no gap."""
    number = bisect_right(hours, at, key=lambda each: each.starts_at) - 1
    if number < 0 or at >= hours[number].ends_at:
        return None
    return hours[number]
