"""
When a calendar rule is due. Pure.

These are systemd's rules, except in the hours in which the clocks change. There they
follow Minutehand's own rule: with a fixed hour and minute, a local time happens once
(local_time.py); with a ``*`` in either, the rule follows the clock, in both passes of a
repeated hour and never in a gap.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from actions.when.local_time import NO_CLOCK_CHANGE, Stretch, get_stretch
from models.expressions.calendar import CalendarExpression
from models.fields.instants import LAST_YEAR
from models.fields.zone import load_zone
from models.when import CalendarModel

#: Local times differ from UTC by less than this.
_LARGEST_OFFSET = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class CalendarRule:
    """
    A calendar rule in a zone.

    Args:
        expression: The days and times that it asks for.
        zone: In which it is read; the zone that the rule itself names, if it names one.
    """

    expression: CalendarExpression
    zone: ZoneInfo

    def next_from(self, instant: datetime) -> datetime | None:
        """
        Return the first occurrence at or after *instant*, as ``Rule`` demands.

        The search goes from one even stretch of the zone's clocks to the next, and
        leaps over stretches without a match, so a few rounds always suffice.
        """
        if instant.microsecond:
            instant = instant.replace(microsecond=0) + timedelta(seconds=1)

        while True:
            stretch = get_stretch(self.zone, instant)
            floor = (instant + stretch.offset).replace(tzinfo=None)
            if not self.expression.follows_clock and self._is_clock_change(stretch):
                if instant == stretch.starts_at and self._is_due_in_gap(stretch):
                    return instant
                # Repeated local times were due in the first pass.
                floor = max(floor, stretch.left)

            local = find_next_local(self.expression, floor)
            if local is not None and local < stretch.last:
                return (local - stretch.offset).replace(tzinfo=UTC)

            instant = stretch.ends_at
            if stretch.following >= floor:
                if local is None:
                    return None
                # Nothing matches before *local*, which may lie just after a change.
                leap = local.replace(tzinfo=UTC) - _LARGEST_OFFSET
                instant = max(instant, leap)

    def in_zone(self, zone: ZoneInfo) -> CalendarRule:
        """Return the same expression in *zone*, even if the rule names another."""
        return replace(self, zone=zone)

    def without_clock_changes(self) -> CalendarRule:
        """Return the same expression in UTC."""
        return self.in_zone(load_zone("UTC"))

    @staticmethod
    def _is_clock_change(stretch: Stretch) -> bool:
        # Back by exactly three hours is still one, as in Debian's cron and cron.py.
        shift = stretch.first - stretch.left
        return -NO_CLOCK_CHANGE <= shift < NO_CLOCK_CHANGE

    def _is_due_in_gap(self, stretch: Stretch) -> bool:
        """Return whether the gap at the start of *stretch* left out a match."""
        if stretch.left >= stretch.first:
            return False

        local = find_next_local(self.expression, stretch.left)
        return local is not None and local < stretch.first


def make_calendar_rule(model: CalendarModel) -> CalendarRule:
    """
    Return the rule that *model* describes; a zone in its text beats *model*'s zone.

    Raises:
        RuleError: If a zone is unknown, or the rule is unreadable or never due.

    >>> rule = make_calendar_rule(CalendarModel(calendar="Mon 9:00 Asia/Tokyo"))
    >>> str(rule.next_from(datetime(2026, 11, 21, tzinfo=UTC)))
    '2026-11-23 00:00:00+00:00'
    """
    zone = load_zone(model.timezone)
    expression = CalendarExpression.parse(model.calendar)
    return CalendarRule(
        expression, load_zone(expression.zone_name) if expression.zone_name else zone
    )


def find_next_local(expression: CalendarExpression, floor: datetime) -> datetime | None:
    """
    Return the first local time at or after *floor* that *expression* matches.

    Args:
        expression: Any.
        floor: Naive local time on a whole second.

    Returns:
        Naive local time, whether or not it exists in any zone. None: nothing matches
        up to the year 9990.
    """
    date = _find_date(expression, floor.year, floor.month, floor.day)
    if date is None:
        return None

    time = (expression.hours[0], expression.minutes[0], expression.seconds[0])
    if date == (floor.year, floor.month, floor.day):
        rest_of_day = _find_time(expression, floor.hour, floor.minute, floor.second)
        if rest_of_day is not None:
            time = rest_of_day
        else:
            date = _find_date(expression, floor.year, floor.month, floor.day + 1)
            if date is None:
                return None

    return datetime(*date, *time)  # noqa: DTZ001 - local times have no zone here


def _find_date(
    expression: CalendarExpression, year: int, month: int, day: int
) -> tuple[int, int, int] | None:
    """Return the first matching date at or after the given one; *day* may be 32."""
    while year <= LAST_YEAR:
        if expression.years is not None:
            index = bisect_left(expression.years, year)
            if index == len(expression.years):
                return None
            if expression.years[index] > year:
                year, month, day = expression.years[index], 1, 1

        for matching in expression.months[bisect_left(expression.months, month) :]:
            start = day if matching == month else 1
            days = expression.days_in(year, matching) >> start
            if days:
                # The lowest bit that is set is the first day.
                return year, matching, start + (days & -days).bit_length() - 1

        year, month, day = year + 1, 1, 1

    return None


def _find_time(
    expression: CalendarExpression, hour: int, minute: int, second: int
) -> tuple[int, int, int] | None:
    """Return the first matching time of day at or after the given one."""
    hours, minutes, seconds = expression.hours, expression.minutes, expression.seconds
    at_hour = bisect_left(hours, hour)
    if at_hour < len(hours) and hours[at_hour] == hour:
        at_minute = bisect_left(minutes, minute)
        if at_minute < len(minutes) and minutes[at_minute] == minute:
            at_second = bisect_left(seconds, second)
            if at_second < len(seconds):
                return hour, minute, seconds[at_second]
            at_minute += 1
        if at_minute < len(minutes):
            return hour, minutes[at_minute], seconds[0]
        at_hour += 1
    if at_hour < len(hours):
        return hours[at_hour], minutes[0], seconds[0]

    return None
