"""
The audit's own way from dates and times of day to instants. Pure.

Dates are counted on the calendar alone; the changes of the zone's clocks, listed in
order, then say at which instant such a time of day came: docs/time.md.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from actions.explaining.cron_reading import OffsetChange, find_changes, get_offset
from models.fields.delay import Delay

#: A leap forward of this or more is a clock that was set: nothing is made up for.
SET = timedelta(hours=3)

#: No local calendar strays further from elapsed time: offsets go from -12 to +14 hours.
ASTRAY = timedelta(days=2)

#: How far ahead the next day with a time of day may be: two, if one was left out.
_AHEAD = timedelta(days=4)

_MONTHS_OF_YEAR = 12
_NONE = timedelta()
_DAY = timedelta(days=1)


class ZoneClocks(NamedTuple):
    """The clocks of a zone: their UTC offset, and their changes from then on."""

    offset: timedelta
    changes: Sequence[OffsetChange]


def read_clocks(zone: ZoneInfo, begin: datetime, end: datetime) -> ZoneClocks:
    """Return the clocks of *zone* from *begin* to *end*, both aware UTC."""
    return ZoneClocks(get_offset(zone, begin), find_changes(zone, begin, end))


def count_from(day: date, *, months: int, days: int) -> date:
    """Return *day* plus *months*, but not past the end of the month, plus *days*."""
    years, index = divmod(day.month - 1 + months, _MONTHS_OF_YEAR)
    year, month = day.year + years, index + 1
    last = monthrange(year, month)[1]
    return date(year, month, min(day.day, last)) + days * _DAY


def find_instant(local: datetime, clocks: ZoneClocks) -> tuple[datetime, timedelta]:
    """
    Return the first instant at which the clocks showed *local*, or leapt over it.

    Args:
        local: Naive.
        clocks: From before *local* until after it.

    Returns:
        Aware UTC, and the size of the leap; zero if there was none.
    """
    shown, offset = local.replace(tzinfo=UTC), clocks.offset
    for change in clocks.changes:
        if shown < change.at + change.before:
            break
        if shown < change.at + change.after:
            return change.at, change.after - change.before
        offset = change.after
    return shown - offset, _NONE


def read_delay(event_at: datetime, delay: Delay, zone: ZoneInfo) -> datetime:
    """
    Return the occurrence of an event.

    Args:
        event_at: Aware UTC.
        delay: Its days are of the calendar of *zone*, its time of day of the clocks.
    """
    months, days = delay.duration.months, delay.duration.days
    at = event_at
    if months or days:
        local = event_at.astimezone(zone).replace(tzinfo=None)
        day = count_from(local.date(), months=months, days=days)
        at = _find_on(datetime.combine(day, local.time()), zone)[0]
    at = (at + delay.duration.rest).replace(microsecond=0)
    if delay.at is None:
        return at

    first = at.astimezone(zone).date() - _DAY  # a gap may lead from one day to the next
    for number in range(_AHEAD // _DAY + 1):
        local = datetime.combine(first + number * _DAY, delay.at)
        found, leap = _find_on(local, zone)
        if found >= at and leap < SET:
            return found
    msg = f"no day from {first} on has a {delay.at} in {zone}"
    raise AssertionError(msg)


def _find_on(local: datetime, zone: ZoneInfo) -> tuple[datetime, timedelta]:
    shown = local.replace(tzinfo=UTC)
    begin = (shown - ASTRAY).replace(microsecond=0)
    return find_instant(local, read_clocks(zone, begin, shown + ASTRAY))
