"""
The audit's own reading of excepted days and of working days. Pure.

It goes from day to day, and asks of each whether it is excepted; it shares no code with
the tick, which skips days in a row, and counts only what it must.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from models.fields.zone import load_zone
from models.when import TimingModel, WorkingDayModel

#: Days in a row over which no occurrence is moved.
_TOO_MANY = 93

#: A leap of the clocks by this or more is none that is made up for.
_LARGEST = timedelta(hours=3)

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_WEEKEND = (5, 6)


def is_excepted(timing: TimingModel, day: date) -> bool:
    """Tell whether *timing* excepts *day*."""
    if day.weekday() in timing.weekdays:
        return True
    return any(first <= day <= last for first, last in timing.excluded)


def move_occurrence(
    timing: TimingModel, at: datetime, wall: datetime, zone: ZoneInfo
) -> datetime | None:
    """
    Return where an occurrence of *timing* ends up; None: it is left out.

    Args:
        timing: Whose occurrence it is.
        at: Aware UTC, as its rule says.
        wall: Naive local time of *zone*, as its rule says.
    """
    day = at.astimezone(zone).date()
    if not is_excepted(timing, day):
        return at
    if timing.instead is None:
        return None
    before, after = _walk(timing, day, -_DAY), _walk(timing, day, _DAY)
    if (after - before).days > _TOO_MANY:
        return None
    goal = before if timing.instead == "before" else after
    return find_first_instant(datetime.combine(goal, wall.time()), zone)


def widen(
    timing: TimingModel, begin: datetime, end: datetime, zone: ZoneInfo
) -> tuple[datetime, datetime]:
    """Return a period with all occurrences that may be moved to ``[begin, end)``."""
    if timing.instead is None:
        return begin, end
    first = _walk(timing, begin.astimezone(zone).date() - _DAY, -_DAY) - _DAY
    last = _walk(timing, end.astimezone(zone).date() + _DAY, _DAY) + _DAY
    return (
        min(begin, datetime.combine(first, time(), UTC)),
        max(end, datetime.combine(last, time(), UTC)),
    )


def read_working_days(
    rule: WorkingDayModel, timing: TimingModel, begin: datetime, end: datetime
) -> Iterator[datetime]:
    """
    Yield the occurrences of *rule* in ``[begin, end)``, oldest first, aware UTC.

    Args:
        rule: As the door accepted it.
        timing: Whose rule it is.
        begin: Aware, any zone.
        end: Aware, any zone.
    """
    zone = load_zone(rule.timezone)
    hour, minute = map(int, rule.at.split(":"))
    month = (begin.astimezone(zone).date() - _DAY).replace(day=1)
    while month <= end.astimezone(zone).date():
        length = monthrange(month.year, month.month)[1]
        days = [month + number * _DAY for number in range(length)]
        working = [day for day in days if _is_working_day(timing, day)]
        if len(working) >= abs(rule.working_day):
            day = working[rule.working_day - (rule.working_day > 0)]
            local = datetime.combine(day, time(hour, minute))
            at = find_first_instant(local, zone)
            leap = at.astimezone(zone).replace(tzinfo=None) - local
            if leap < _LARGEST and begin <= at < end:
                yield at
        month = days[-1] + _DAY


def find_first_instant(local: datetime, zone: ZoneInfo) -> datetime:
    """Return when the clocks of *zone* first show *local* or later, aware UTC."""
    earlier = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    later = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    # In a gap, fold 0 comes after fold 1, and neither shows *local*.
    if earlier <= later:
        return earlier
    low, high = later, earlier
    while high - low > _SECOND:
        middle = low + (high - low) // _SECOND // 2 * _SECOND
        if middle.astimezone(zone).replace(tzinfo=None) < local:
            low = middle
        else:
            high = middle
    return high


def _is_working_day(timing: TimingModel, day: date) -> bool:
    is_weekend = not timing.weekdays and day.weekday() in _WEEKEND
    return not is_weekend and not is_excepted(timing, day)


def _walk(timing: TimingModel, day: date, step: timedelta) -> date:
    """Return the first day from *day* on that is not excepted, or one far away."""
    for _ in range(_TOO_MANY + 1):
        if not is_excepted(timing, day):
            break
        day += step
    return day
