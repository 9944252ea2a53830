"""
Local days on which nothing is due (``except``). Pure.

A rule that is due every minute of an excluded year must cost one search, not half a
million. So excluded days are merged into ranges, and each range is skipped as a whole.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from actions.when.rule import Rule
from models.fields.wall_clock import first_instant_at
from models.timing import DayRange

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)


def get_last_excluded_day(day: date, excluded: tuple[DayRange, ...]) -> date | None:
    """Return the last day of the merged range with *day*; None: it is not excluded."""
    index = bisect_right(excluded, day, key=lambda days: days[0]) - 1
    if index < 0 or excluded[index][1] < day:
        return None
    return excluded[index][1]


def find_day_start(day: date, zone: ZoneInfo, *, after: datetime) -> datetime:
    """
    Return the first instant later than *after* at which local *day* begins.

    Args:
        day: Local date of *zone*.

        zone: Whose midnight is meant. For a midnight that does not exist, it is the
            first instant after the gap. A midnight that comes twice counts twice, so
            that a date that the clocks leave and enter again is not missed.

        after: Aware UTC, on an earlier local day.

    Returns:
        Aware UTC, whole seconds.
    """
    midnight = datetime.combine(day, time())
    first = first_instant_at(midnight, zone)
    if first > after:
        return first
    # The clocks were set back over midnight, so the day begins a second time.
    second = midnight.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return max(second, after + _SECOND)


def find_allowed(
    rule: Rule, instant: datetime, excluded: tuple[DayRange, ...]
) -> datetime | None:
    """
    Return the first occurrence of *rule* at or after *instant* on an allowed day.

    Args:
        rule: Its zone decides which local day an occurrence belongs to.

        instant: Aware UTC.

        excluded: As merge_days returns them; each range costs at most one search.

    Returns:
        Aware UTC. None: the rule is never due again.
    """
    occurrence = rule.next_from(instant)
    if not excluded:
        return occurrence
    while occurrence is not None:
        local_day = occurrence.astimezone(rule.zone).date()
        last = get_last_excluded_day(local_day, excluded)
        if last is None or last == date.max:
            return occurrence if last is None else None
        day_start = find_day_start(last + _DAY, rule.zone, after=occurrence)
        occurrence = rule.next_from(day_start)
    return None
