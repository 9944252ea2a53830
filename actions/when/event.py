"""
When an action that waits for an event is due. Pure: time in, occurrence out.

The instant of the event and the delay make the occurrence, and with it the
identity of the run; when the event was recorded only decides when it can be sent.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from models.fields.duration import Duration, add_months

#: Events recorded later than this after they were due are history, not news: the
#: run is recorded as missed (docs/previews.md, "Events").
LATEST_RECORDING = timedelta(days=1)

#: No two UTC offsets of the tz database lie further apart (-12:00 and +14:00), so
#: no local calendar strays further from elapsed time.
_OFFSET_SPREAD = timedelta(hours=26)

#: Every position in the cycle of leap years, the century without one included, from
#: which a delay of at most 100 years can start.
_START_YEARS = range(1896, 2009)

_SECOND = timedelta(seconds=1)


def event_occurrence(event_at: datetime, delay: Duration, zone: ZoneInfo) -> datetime:
    """
    Return the occurrence that an event makes: *event_at* plus *delay*.

    Args:
        event_at: Aware UTC, fractions of a second allowed.

        delay: Months step the local calendar of *zone*; days have 24 hours. Zero
            for ``on``.

        zone: Of the rule; matters only if *delay* has months.

    Returns:
        Aware UTC, cut to the second, so that the identity survives any storage.

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
    """Say if the event came more than a day too late, so that the run is missed."""
    return recorded_at - occurrence > LATEST_RECORDING


def delay_bounds(delay: Duration) -> tuple[timedelta, timedelta]:
    """
    Return the least and the most that ``occurrence - event_at`` can be.

    An index knows instants, not months: whatever is due between *a* and *b* has its
    event in ``[a - most, b - least]``, and ``event_occurrence`` decides about those.

    Args:
        delay: Of the action, any zone.

    Returns:
        Both within a day or so of the truth, never inside it.
    """
    if not delay.months:
        # The occurrence is cut to the second, so it can be a little early.
        return delay.rest - _SECOND, delay.rest

    fewest, most = _days_of(delay.months)
    least = timedelta(days=fewest) - _OFFSET_SPREAD - _SECOND
    return least + delay.rest, timedelta(days=most) + _OFFSET_SPREAD + delay.rest


@cache
def _days_of(months: int) -> tuple[int, int]:
    """Return the fewest and the most days of so many calendar months."""
    counts = set()
    for year in _START_YEARS:
        for month in range(1, 13):
            # The last day is the one that a shorter month clamps.
            for day in (1, monthrange(year, month)[1]):
                start = datetime(year, month, day)  # noqa: DTZ001 - a calendar day
                counts.add((add_months(start, months) - start).days)
    return min(counts), max(counts)
