"""
When an action that waits for an event is due. Pure: instant in, occurrence out.

The instant of the event plus the delay is the occurrence, which identifies the run.
When the event was recorded only matters for when the run can be sent.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from models.fields.duration import Duration, add_months

#: If an event is recorded later than this after its occurrence, it is history rather
#: than news, and the run is recorded as missed (docs/previews.md, "Events").
LATEST_RECORDING = timedelta(days=1)

#: The distance between the extreme UTC offsets of the time zone database, -12:00 and
#: +14:00: no local calendar strays further from elapsed time.
_OFFSET_SPREAD = timedelta(hours=26)

#: Start years that cover every position in the cycle of leap years, including the
#: century year without a leap day, for delays of at most 100 years.
_START_YEARS = range(1896, 2009)

_SECOND = timedelta(seconds=1)


def event_occurrence(event_at: datetime, delay: Duration, zone: ZoneInfo) -> datetime:
    """
    Return the occurrence that an event leads to: *event_at* plus *delay*.

    Args:
        event_at: Aware UTC, fractions of a second allowed.

        delay: Months follow the local calendar of *zone*; days have 24 hours. Zero for
            ``on``.

        zone: Of the rule; only matters if *delay* has months.

    Returns:
        Aware UTC, cut to whole seconds, which any storage keeps exactly.

    >>> from datetime import UTC
    >>> seen_at = datetime(2025, 6, 1, 10, tzinfo=UTC)
    >>> delay = Duration.parse("P7DT30S")
    >>> event_occurrence(seen_at, delay, ZoneInfo("UTC")).isoformat()
    '2025-06-08T10:00:30+00:00'
    """
    return delay.added_to(event_at, zone).replace(microsecond=0)


def event_due_at(occurrence: datetime, recorded_at: datetime) -> datetime:
    """Return when *occurrence* can be sent: not before its event was recorded."""
    return max(occurrence, recorded_at)


def is_recorded_late(occurrence: datetime, recorded_at: datetime) -> bool:
    """Return whether the event was recorded so late that the run counts as missed."""
    return recorded_at - occurrence > LATEST_RECORDING


def delay_bounds(delay: Duration) -> tuple[timedelta, timedelta]:
    """
    Return a lower and an upper bound of ``occurrence - event_at``.

    Database indexes have instants, not months. So the events of occurrences between *a*
    and *b* are looked for in ``[a - most, b - least]``, and ``event_occurrence`` then
    decides about each.

    Args:
        delay: Of the action; the bounds hold in any zone.

    Returns:
        Least and most; each may be a day or two too wide, but never too narrow.
    """
    if not delay.months:
        # The occurrence is cut to whole seconds, so it can be slightly early.
        return delay.rest - _SECOND, delay.rest

    fewest, most = _days_of(delay.months)
    least = timedelta(days=fewest) - _OFFSET_SPREAD - _SECOND
    return least + delay.rest, timedelta(days=most) + _OFFSET_SPREAD + delay.rest


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
