"""
At which instants the local times of a rule happen when the clocks change. Pure.

Minutehand follows Debian's cron: a fixed local time happens once. If it is in a gap, it
happens at the first instant after the gap; in a repeated hour, in the first pass. A
shift of three hours or more (such as a date that a zone left out) is not a clock
change: the local times that it skips do not happen at all.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from models.fields.zone import first_instant_at

#: A leap forward of this or more is not a clock change, nor is a leap back of more than
#: this. Source: Debian's cron(8), and its source code for exactly three hours.
NO_CLOCK_CHANGE = timedelta(hours=3)

_NO_SHIFT = timedelta()
_SECOND = timedelta(seconds=1)

#: How many years of zones are cached: all zones in use, for this year and the next, and
#: what previews ask for.
_KEPT_YEARS = 2048

#: How far the stretches of a year reach beyond it, so that a shift at New Year is seen
#: from both sides.
_MARGIN = timedelta(days=3)


def resolve_fixed(local: datetime, zone: ZoneInfo) -> datetime | None:
    """
    Return the one instant at which a fixed local time happens.

    Args:
        local: Naive local time of *zone*, years 1900 to 9990.
        zone: In which *local* is read.

    Returns:
        Aware UTC: the first pass if *local* repeats; the first instant after the gap if
        it does not exist. None: that gap is three hours or more.

    >>> paris = ZoneInfo("Europe/Paris")
    >>> str(resolve_fixed(datetime(2026, 3, 29, 2, 30), paris))
    '2026-03-29 01:00:00+00:00'
    >>> str(resolve_fixed(datetime(2026, 10, 25, 2, 30), paris))
    '2026-10-25 00:30:00+00:00'
    >>> resolve_fixed(datetime(2011, 12, 30, 7), ZoneInfo("Pacific/Apia")) is None
    True
    """
    aware = local.replace(tzinfo=zone, fold=0)
    shift = (aware.replace(fold=1).utcoffset() or _NO_SHIFT) - (
        aware.utcoffset() or _NO_SHIFT
    )
    if shift <= _NO_SHIFT:
        return aware.astimezone(UTC)
    if shift >= NO_CLOCK_CHANGE:
        return None

    return first_instant_at(local, zone)


@dataclass(frozen=True, slots=True)
class Stretch:
    """
    A stretch of time in which the clocks of a zone run evenly.

    Args:
        starts_at: Aware UTC, inclusive.
        ends_at: Aware UTC, exclusive. Not always a clock change: at the end of the
            searched year the clocks just run on.
        offset: Of local time from UTC.
        left: Naive; what the clocks would have shown at *starts_at* without a change
            there. If it is less than *first*, there is a gap; if more, times repeat.
        first: Naive; what the clocks show at *starts_at*.
        last: Naive; what the clocks would show at *ends_at* without a change there.
        following: Naive; what the clocks show at *ends_at*.
    """

    starts_at: datetime
    ends_at: datetime
    offset: timedelta
    left: datetime
    first: datetime
    last: datetime
    following: datetime


def get_stretch(zone: ZoneInfo, instant: datetime) -> Stretch:
    """
    Return the stretch of *zone* that contains *instant*.

    Args:
        instant: Aware UTC, years 1900 to 9996.
    """
    starts, stretches = _get_stretches(zone, instant.year)
    return stretches[bisect_right(starts, instant) - 1]


def get_local_floor(zone: ZoneInfo, instant: datetime) -> datetime:
    """
    Return the first local time that, as a fixed time, happens at *instant* or later.

    Args:
        instant: Aware UTC, whole seconds.

    Returns:
        Naive: what the clocks show; at the end of a gap its beginning, and in the
        second pass of a repeated hour its end, since such times happened before.
    """
    stretch = get_stretch(zone, instant)
    if instant == stretch.starts_at:
        return stretch.left
    return max((instant + stretch.offset).replace(tzinfo=None), stretch.left)


@lru_cache(maxsize=_KEPT_YEARS)
def _get_stretches(
    zone: ZoneInfo, year: int
) -> tuple[list[datetime], tuple[Stretch, ...]]:
    """
    Return the stretches of *year* and their starts.

    zoneinfo does not expose its transitions, so each day is checked, once for each
    zone and year. Two changes that cancel out within a day would be missed; none exist.
    """
    begin = datetime(year, 1, 1, tzinfo=UTC) - _MARGIN
    end = datetime(year + 1, 1, 1, tzinfo=UTC) + _MARGIN
    changes = [(begin, _offset_at(begin, zone))]
    day = begin
    while day < end:
        next_day = day + timedelta(days=1)
        while (offset := _offset_at(next_day, zone)) != changes[-1][1]:
            changed_at = _find_change(max(day, changes[-1][0]), next_day, zone)
            offset = _offset_at(changed_at, zone)
            changes.append((changed_at, offset))
        day = next_day

    changes.append((end, changes[-1][1]))
    stretches = []
    former = changes[0][1]
    for (starts_at, offset), (ends_at, next_offset) in pairwise(changes):
        start, end = starts_at.replace(tzinfo=None), ends_at.replace(tzinfo=None)
        stretches.append(
            Stretch(
                starts_at=starts_at,
                ends_at=ends_at,
                offset=offset,
                left=start + former,
                first=start + offset,
                last=end + offset,
                following=end + next_offset,
            )
        )
        former = offset

    return [stretch.starts_at for stretch in stretches], tuple(stretches)


def _offset_at(instant: datetime, zone: ZoneInfo) -> timedelta:
    return instant.astimezone(zone).utcoffset() or _NO_SHIFT


def _find_change(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """Return the first second after *before* with another offset."""
    old = _offset_at(before, zone)
    low, high = 0, (after - before) // _SECOND
    while high - low > 1:
        middle = (low + high) // 2
        if _offset_at(before + middle * _SECOND, zone) == old:
            low = middle
        else:
            high = middle

    return before + high * _SECOND
