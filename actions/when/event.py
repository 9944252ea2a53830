"""
When an action that waits for an event is due. Pure: instant in, occurrence out.

The instant of the event plus the delay is the occurrence, which identifies the run; or
the first local time of day from there on, if the rule names one (``at``). When the
event was recorded only matters for when the run can be sent.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from actions.when.local_time import get_stretch, resolve_fixed
from models.fields.delay import LONGEST_WAIT, OFFSET_SPREAD, Delay
from models.fields.duration import Duration, add_months

#: If an event is recorded later than this after its occurrence, it is history rather
#: than news, and the run is recorded as missed (docs/previews.md, "Events").
LATEST_RECORDING = timedelta(days=1)

#: No tick comes so late.
NEVER = datetime(9999, 12, 31, tzinfo=UTC)

#: Start years that cover every position in the cycle of leap years, including the
#: century year without a leap day, for delays of at most 100 years.
_START_YEARS = range(1896, 2009)

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


def event_occurrence(event_at: datetime, delay: Delay, zone: ZoneInfo) -> datetime:
    """
    Return the occurrence that an event leads to: *event_at* plus *delay*.

    Args:
        event_at: Aware UTC, fractions of a second allowed.
        delay: Its months and days follow the local calendar of *zone*, and its time of
            day the clocks there, as a fixed time.

    Returns:
        Aware UTC, cut to whole seconds, which any storage keeps exactly.

    >>> from datetime import UTC
    >>> seen_at = datetime(2025, 6, 1, 10, tzinfo=UTC)
    >>> event_occurrence(seen_at, Delay.parse("P7DT30S"), ZoneInfo("UTC")).isoformat()
    '2025-06-08T10:00:30+00:00'
    >>> event_occurrence(seen_at, Delay.parse("P7D 09:00"), ZoneInfo("UTC")).isoformat()
    '2025-06-09T09:00:00+00:00'
    """
    passed_at = delay.duration.added_to(event_at, zone).replace(microsecond=0)
    if delay.at is None:
        return passed_at
    return _find_time_of_day(delay.at, passed_at, zone)


def event_due_at(occurrence: datetime, recorded_at: datetime) -> datetime:
    """Return when *occurrence* can be sent: not before its event was recorded."""
    return max(occurrence, recorded_at)


def is_recorded_late(occurrence: datetime, recorded_at: datetime) -> bool:
    """Return whether the event was recorded so late that the run counts as missed."""
    return recorded_at - occurrence > LATEST_RECORDING


def event_window(
    delay: Delay, zone: ZoneInfo, since: datetime, until: datetime
) -> tuple[datetime, datetime]:
    """
    Return between which instants the events happened whose occurrences lie in a range.

    Database indexes have instants, not months. So the events of a window are read, and
    ``event_occurrence`` then decides about each.

    Args:
        delay: Of the action.
        since: Of the range of occurrences; aware UTC, inclusive.
        until: Likewise.

    Returns:
        First and last instant, both inclusive. Never too narrow; to the second, but
        for months, clock changes, and the day that a time of day is waited for.
    """
    if delay.at is not None:
        since -= LONGEST_WAIT
    # The occurrence is cut to whole seconds, so what it was cut from is later.
    since, until = since - delay.duration.rest, until - delay.duration.rest + _SECOND
    if not delay.duration.is_calendar:
        return since, until

    fewest, most = _span_of(delay.duration)
    low, high = _get_offsets(
        zone, since - most - OFFSET_SPREAD, until - fewest + OFFSET_SPREAD
    )
    # An occurrence at the end of a gap has either offset, or one between them.
    lowest, highest = _get_offsets(zone, since - _SECOND, until)
    return since - most + (lowest - high), until - fewest + (highest - low)


def earliest_occurrence(event_at: datetime, delay: Delay, zone: ZoneInfo) -> datetime:
    """
    Return a bound: no event at or after *event_at* has an earlier occurrence.

    Args:
        event_at: Aware UTC.
        delay: Of the action.

    Returns:
        Aware UTC; exact to the second where an event at this very instant has its own
        occurrence then, and no clock change is near. NEVER if that is beyond the years
        that a datetime has.
    """
    try:
        return _find_earliest(event_at, delay, zone)
    except (OverflowError, ValueError):
        return NEVER


def _find_earliest(event_at: datetime, delay: Delay, zone: ZoneInfo) -> datetime:
    bound = event_at + delay.duration.rest - _SECOND
    if delay.duration.is_calendar:
        fewest, most = _span_of(delay.duration)
        # Later events cannot fall behind: no two offsets differ by so much.
        last = event_at + 2 * OFFSET_SPREAD
        low, _high = _get_offsets(zone, event_at, last)
        begin, end = event_at + fewest - OFFSET_SPREAD, last + most + OFFSET_SPREAD
        _low, highest = _get_offsets(zone, begin, end)
        bound += fewest + (low - highest)
    return bound if delay.at is None else _find_time_of_day(delay.at, bound, zone)


def longest_elapsed(duration: Duration) -> timedelta:
    """Return the most that *duration* can be, whichever months; days have 24 hours."""
    if not duration.months:
        return duration.elapsed
    _fewest, most = _days_of(duration.months)
    return most * _DAY + OFFSET_SPREAD + duration.elapsed


def _find_time_of_day(at: time, since: datetime, zone: ZoneInfo) -> datetime:
    """Return the first instant from *since* on at which it is *at*, as a fixed time."""
    # What a gap at midnight leaves out of a day happens on the next one.
    day = since.astimezone(zone).date() - _DAY
    while True:
        due_at = resolve_fixed(datetime.combine(day, at), zone)
        if due_at is not None and due_at >= since:
            return due_at
        day += _DAY


def _span_of(duration: Duration) -> tuple[timedelta, timedelta]:
    """Return the fewest and the most local days of *duration*, without its rest."""
    fewest, most = _days_of(duration.months)
    return (fewest + duration.days) * _DAY, (most + duration.days) * _DAY


def _get_offsets(
    zone: ZoneInfo, start: datetime, end: datetime
) -> tuple[timedelta, timedelta]:
    """Return the least and the greatest UTC offset of *zone* in ``[start, end]``."""
    offsets = set()
    while start <= end:
        stretch = get_stretch(zone, start)
        offsets.add(stretch.offset)
        start = stretch.ends_at
    return min(offsets), max(offsets)


@cache
def _days_of(months: int) -> tuple[int, int]:
    """Return the fewest and the most days that *months* calendar months can have."""
    counts = set()
    for year in _START_YEARS:
        for month in range(1, 13):
            # The last day is the one that a shorter month cuts off.
            for day in (1, monthrange(year, month)[1]):
                start = datetime(year, month, day)  # noqa: DTZ001 - a calendar day
                counts.add((add_months(start, months) - start).days)
    return min(counts), max(counts)
