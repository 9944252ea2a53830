"""
The hours of local days: what a clock on the wall shows, and when. Pure.

A day has 23 or 25 of them if the clocks change, and one of them may be short.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from actions.previews.preview_notes import ClockChange, find_clock_changes
from models.fields.wall_clock import first_instant_at

_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Hour:
    """
    An hour of a local day, or what a clock change left of it.

    Args:
        starts_at: Aware UTC, inclusive.
        ends_at: Aware UTC, exclusive.
        shown: The hour that clocks show, 0 to 23.
        turn: 1, or 2 if clocks show this hour for the second time on that day.
    """

    starts_at: datetime
    ends_at: datetime
    shown: int
    turn: int


@dataclass(frozen=True, slots=True)
class LocalDay:
    """
    A day as the clocks of a zone count it.

    Args:
        hours: In order, without gaps.
        change: What the clocks do on that day. None: they run on.
    """

    day: date
    hours: Sequence[Hour]
    change: ClockChange | None

    @property
    def starts_at(self) -> datetime:
        """Its first instant, aware UTC."""
        return self.hours[0].starts_at

    @property
    def ends_at(self) -> datetime:
        """The first instant of the next day, aware UTC."""
        return self.hours[-1].ends_at


def find_local_days(first: date, days: int, zone: ZoneInfo) -> list[LocalDay]:
    """
    Return *days* days from *first* on; a date that the zone left out has no entry.

    Args:
        first: Local date of *zone*, years 1970 to 9990.
        days: At least 1.
    """
    bounds = [_begin(first + number * _DAY, zone) for number in range(days + 1)]
    found = []
    for number, (since, until) in enumerate(pairwise(bounds)):
        if since < until:
            changes = find_clock_changes(zone, since - _SECOND, until)
            change = next(iter(changes), None)
            hours = tuple(_find_hours(since, until, zone, change))
            found.append(LocalDay(first + number * _DAY, hours, change))
    return found


def _begin(day: date, zone: ZoneInfo) -> datetime:
    return first_instant_at(datetime.combine(day, time()), zone)


def _find_hours(
    since: datetime, until: datetime, zone: ZoneInfo, change: ClockChange | None
) -> Iterator[Hour]:
    seen: set[int] = set()
    begin = since
    while begin < until:
        local = begin.astimezone(zone)
        into = timedelta(
            minutes=local.minute, seconds=local.second, microseconds=local.microsecond
        )
        end = min(begin + _HOUR - into, until)
        if change is not None and begin < change.changed_at < end:
            end = change.changed_at
        yield Hour(begin, end, local.hour, 2 if local.hour in seen else 1)
        seen.add(local.hour)
        begin = end


def find_hour(hours: Sequence[Hour], at: datetime) -> int | None:
    """Return the number of the hour of *at* among *hours*, which leave no gap."""
    number = bisect_right(hours, at, key=lambda each: each.starts_at) - 1
    if number < 0 or at >= hours[number].ends_at:
        return None
    return number
