"""
The audit's own reading of the rules. Pure, and without the code of the tick.

Of a cron rule, cronsim finds the times that match on a clock that never changes. What
happens when a zone's clocks change is added here, following docs/time.md. cronsim has
such a rule as well, but not for changes by other than whole hours, nor for a date that
a zone left out.

Dates are counted on the calendar alone; the changes of the zone's clocks, listed in
order, then say at which instant such a time of day came.

Of excepted days and working days each day is looked at, and asked whether it is
excepted; the tick skips days in a row, and counts only what it must.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim

from models.fields.delay import Delay
from models.fields.duration import Duration
from models.fields.zone import load_zone
from models.when import CronModel, IntervalModel, TimingModel, WorkingDayModel

#: Macros that cronsim leaves to its callers.
_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

#: The rule for clock changes covers smaller leaps forward, and leaps back up to this.
_LARGEST = timedelta(hours=3)

#: The distance between two looks at a zone's offset; none has changed twice within it.
_STEP = timedelta(hours=3)

_NONE = timedelta(0)
_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)


class CronTime(NamedTuple):
    """
    An occurrence of a cron rule.

    Args:
        at: Aware UTC.
        wall: Naive local time that the rule names. It differs from what the clocks show
            if they left it out: *at* is then the first minute after the gap.
    """

    at: datetime
    wall: datetime


class OffsetChange(NamedTuple):
    """At this instant, aware UTC, a zone goes from one offset to another."""

    at: datetime
    before: timedelta
    after: timedelta


def read_cron(rule: CronModel, begin: datetime, end: datetime) -> Iterator[CronTime]:
    """
    Yield the occurrences of *rule* in ``[begin, end)``, oldest first.

    Args:
        rule: As the door accepted it.
        begin: Aware, any zone.
        end: Aware, any zone.

    Raises:
        CronSimError: cronsim cannot read the rule.
    """
    text = _MACROS.get(rule.cron_rule.strip().lower(), rule.cron_rule)
    is_fixed = not any(field.startswith("*") for field in text.split()[:2])
    zone = load_zone(rule.timezone)
    # The times that a change shortly before *begin* repeats must not be due again.
    start = begin.astimezone(UTC).replace(microsecond=0) - _LARGEST - _SECOND
    end = end.astimezone(UTC)
    offset = get_offset(zone, start)
    changes = find_changes(zone, start, end)
    ends = [*(change.at for change in changes), end]
    starts = [OffsetChange(start, offset, offset), *changes]
    for change, stop in zip(starts, ends, strict=True):
        for occurrence in _read_stretch(text, change, stop, is_fixed=is_fixed):
            if occurrence.at >= begin:
                yield occurrence


def _read_stretch(
    text: str, change: OffsetChange, stop: datetime, *, is_fixed: bool
) -> Iterator[CronTime]:
    """Yield the occurrences from *change* until the next one, at *stop*."""
    # What the local clock shows, as if it were UTC.
    was, now = change.at + change.before, change.at + change.after
    if is_fixed and was < now < was + _LARGEST:
        first = now + (-timedelta(seconds=now.second) % _MINUTE)
        left_out = next(_find_even(text, was, first), None)
        if left_out is not None:
            # What the gap left out is due in the first minute after it, but only once.
            itself = next(_find_even(text, first, first + _MINUTE), left_out)
            wall = itself if itself.date() == first.date() else first
            yield CronTime(first - change.after, wall.replace(tzinfo=None))
            now = first + _MINUTE
    elif is_fixed and now < was <= now + _LARGEST:
        now = was  # repeated times were due in their first pass
    for local in _find_even(text, now, stop + change.after):
        yield CronTime(local - change.after, local.replace(tzinfo=None))


def _find_even(text: str, start: datetime, end: datetime) -> Iterator[datetime]:
    """Yield the matching times in ``[start, end)`` on a clock that never changes."""
    for local in CronSim(text, start - _SECOND):
        if local >= end:
            return
        yield local


@lru_cache(maxsize=256)
def find_changes(
    zone: ZoneInfo, start: datetime, end: datetime
) -> tuple[OffsetChange, ...]:
    """Return the changes of *zone* in ``(start, end)``, in order; both aware UTC."""
    found = []
    here, before = start, get_offset(zone, start)
    while here < end:
        there = min(here + _STEP, end)
        after = get_offset(zone, there)
        if after != before:
            at = _find_change(zone, here, there)
            if at < end:
                found.append(OffsetChange(at, before, after))
        here, before = there, after
    return tuple(found)


def _find_change(zone: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """Return the first second of ``(low, high]`` with the offset of *high*."""
    before = get_offset(zone, low)
    while high - low > _SECOND:
        middle = low + (high - low) // _SECOND // 2 * _SECOND
        if get_offset(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)


def get_offset(zone: ZoneInfo, instant: datetime) -> timedelta:
    """Return the offset from UTC of the clocks of *zone* at *instant*."""
    return instant.astimezone(zone).utcoffset() or _NONE


#: A leap forward of this or more is a clock that was set: nothing is made up for.
SET = timedelta(hours=3)

#: No local calendar strays further from elapsed time: offsets go from -12 to +14 hours.
ASTRAY = timedelta(days=2)

#: How far ahead the next day with a time of day may be: two, if one was left out.
_AHEAD = timedelta(days=4)

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
    years, index = divmod(day.month - 1 + months, 12)
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
    raise AssertionError(f"no day from {first} on has a {delay.at} in {zone}")


def _find_on(local: datetime, zone: ZoneInfo) -> tuple[datetime, timedelta]:
    shown = local.replace(tzinfo=UTC)
    begin = (shown - ASTRAY).replace(microsecond=0)
    return find_instant(local, read_clocks(zone, begin, shown + ASTRAY))


#: Days in a row over which no occurrence is moved.
_TOO_MANY = 93


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
    return _find_on(datetime.combine(goal, wall.time()), zone)[0]


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
            at, leap = _find_on(local, zone)
            if leap < SET and begin <= at < end:
                yield at
        month = days[-1] + _DAY


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


_SHORTEST_MONTH = timedelta(days=28)
_LONGEST_MONTH = timedelta(days=31)


def read_interval(
    rule: IntervalModel, begin: datetime, end: datetime
) -> Iterator[datetime]:
    """
    Yield the occurrences of *rule* in ``[begin, end)``, oldest first, aware UTC.

    Args:
        rule: As it is stored, with an anchor.
        begin: Aware, any zone.
        end: Aware, any zone.
    """
    assert rule.anchor is not None  # filled in when the action was stored
    every, zone = Duration.parse(rule.every), load_zone(rule.timezone)
    anchor = datetime.fromisoformat(rule.anchor)
    anchor = anchor.replace(tzinfo=anchor.tzinfo or zone)
    local = anchor.astimezone(zone).replace(tzinfo=None)
    anchor = anchor.astimezone(UTC)
    # No step is longer, so this many of them end before *begin*.
    longest = every.months * _LONGEST_MONTH + every.elapsed
    count = max(0, (begin.astimezone(UTC) - ASTRAY - anchor) // longest)
    # None of the dates is earlier, for no month is shorter.
    first = anchor + count * (every.months * _SHORTEST_MONTH + every.days * _DAY)
    is_of_days = bool(every.months or every.days)
    last = end.astimezone(UTC) + ASTRAY if is_of_days else first
    clocks = read_clocks(zone, first - ASTRAY, last)
    while True:
        at, leap = anchor, _NONE  # an instant, whatever the clocks showed
        if count and is_of_days:
            months, days = count * every.months, count * every.days
            day = count_from(local.date(), months=months, days=days)
            at, leap = find_instant(datetime.combine(day, local.time()), clocks)
        at += count * every.rest
        if at >= end:
            return
        if at >= begin and leap < SET:
            yield at
        count += 1
