"""
When a cron rule is due. Pure: instant in, occurrence out.

Local times are found on the calendar and then converted to instants by Debian cron's
rule for clock changes; docs/time.md has the table of all cases.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from actions.when.local_time import NO_CLOCK_CHANGE, Stretch, get_stretch
from actions.when.searching import as_utc, find_last
from models.expressions.cron import CronExpression
from models.fields.zone import load_zone
from models.occurrence import LOOKBACK
from models.when import CronModel

#: No rule is asked about later years, and datetime ends soon after.
_LAST_YEAR = 9995

#: Longer than any clock change, so none can skip to or repeat a local time that is
#: further away.
_BEYOND_SHIFTS = timedelta(days=2)

_MINUTE = timedelta(minutes=1)
_NO_SHIFT = timedelta()

_FEBRUARY = 2
_DECEMBER = 12
_WEEK = 7

#: Days of each month, except a leap February; index 0 is unused.
_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True)
class CronRule:
    """A cron rule, read in *zone*."""

    expression: CronExpression
    zone: ZoneInfo

    def next_from(self, instant: datetime) -> datetime | None:
        """
        Return the first occurrence at or after *instant*, as ``Rule`` demands.

        The search goes from clock change to clock change, but leaps to the next
        matching day; a rule for 29 February costs a few dozen steps.

        Args:
            instant: Aware UTC, between the years 1900 and 9990.

        Returns:
            Aware UTC, on a whole minute of local time; None after the year 9995.
        """
        while True:
            stretch = get_stretch(self.zone, instant)
            shown = instant.replace(tzinfo=None) + stretch.offset
            local = self._next_local(stretch, _ceil_minute(shown))
            if local is None:
                return None

            found = (local - stretch.offset).replace(tzinfo=UTC)
            if local < stretch.last:
                return found

            # Not before the clocks change. Unless they change soon, no change before
            # *found* can repeat a matching local time, so leap close to it.
            change_is_far = stretch.ends_at - instant > _BEYOND_SHIFTS
            instant = stretch.ends_at
            if change_is_far:
                instant = max(instant, found - _BEYOND_SHIFTS)

    def in_zone(self, zone: ZoneInfo) -> CronRule:
        """Return the same expression in *zone*."""
        return replace(self, zone=zone)

    def without_clock_changes(self) -> CronRule:
        """Return the same expression in UTC."""
        return self.in_zone(load_zone("UTC"))

    def _next_local(self, stretch: Stretch, local: datetime) -> datetime | None:
        """Return the first match at or after *local*, as if *stretch* never ended."""
        shift = stretch.first - stretch.left
        if not shift or not self.expression.is_fixed:
            return self._first_at(local)

        # Fixed times up to here were due before the clocks changed.
        settled = _ceil_minute(stretch.left)
        if shift > _NO_SHIFT:
            first = _ceil_minute(stretch.first)
            if local > first or shift >= NO_CLOCK_CHANGE:
                return self._first_at(local)
            # The first minute after the gap stands for all matches in the gap.
            found = self._first_at(settled)
            return None if found is None else max(found, first)

        # Debian's limit: exactly three hours back is still a clock change.
        if shift < -NO_CLOCK_CHANGE:
            return self._first_at(local)
        return self._first_at(max(local, settled))

    def _first_at(self, local: datetime) -> datetime | None:
        """Return the first match at or after *local*, which is a whole minute."""
        expression = self.expression
        year, month, day = local.year, local.month, local.day
        if month in expression.months:
            first_weekday = (local.weekday() - day + 1) % _WEEK
            days = expression.day_mask(_length_of(year, month), first_weekday)
            if days >> day & 1:
                time = self._time_from(local.hour, local.minute)
                if time is not None:
                    return local.replace(hour=time[0], minute=time[1])
            days = days >> day + 1 << day + 1
            if days:
                return self._on(year, month, days)

        while year <= _LAST_YEAR:
            month += 1
            if month > _DECEMBER:
                year, month = year + 1, expression.months[0]
            if month in expression.months:
                first_weekday = date(year, month, 1).weekday()
                days = expression.day_mask(_length_of(year, month), first_weekday)
                if days:
                    return self._on(year, month, days)
        return None

    def _time_from(self, hour: int, minute: int) -> tuple[int, int] | None:
        """Return the first match at or after *hour*:*minute*. None: none that day."""
        hours, minutes = self.expression.hours, self.expression.minutes
        index = bisect_left(hours, hour)
        if index == len(hours):
            return None
        if hours[index] > hour:
            return hours[index], minutes[0]
        if minute <= minutes[-1]:
            return hour, minutes[bisect_left(minutes, minute)]
        if index + 1 == len(hours):
            return None
        return hours[index + 1], minutes[0]

    def _on(self, year: int, month: int, days: int) -> datetime:
        """Return the first match on the first day of the mask *days* (not 0)."""
        day = (days & -days).bit_length() - 1
        hour, minute = self.expression.hours[0], self.expression.minutes[0]
        return datetime(year, month, day, hour, minute)  # noqa: DTZ001 - local time


def _length_of(year: int, month: int) -> int:
    if month != _FEBRUARY or year % 4 or (not year % 100 and year % 400):
        return _LENGTHS[month]
    return 29


def _ceil_minute(local: datetime) -> datetime:
    if local.second or local.microsecond:
        return local.replace(second=0, microsecond=0) + _MINUTE
    return local


def make_cron_rule(model: CronModel) -> CronRule:
    """
    Return the rule that *model* describes.

    Raises:
        RuleError: If its rule or its zone cannot be read.

    >>> rule = make_cron_rule(CronModel(cron_rule="0 7 * * 1", timezone="UTC"))
    >>> str(rule.next_from(datetime(2026, 11, 21, tzinfo=UTC)))
    '2026-11-23 07:00:00+00:00'
    """
    return CronRule(CronExpression.parse(model.cron_rule), load_zone(model.timezone))


def get_cron_last_occurrence(
    rule: str, timezone: ZoneInfo, *, now: datetime, lookback: timedelta = LOOKBACK
) -> datetime | None:
    """
    Return the latest moment in ``(now - lookback, now]`` at which *rule* was due.

    It is found with ``next_from``, so it is one of the occurrences that were promised:
    in an hour that the clocks repeat, a fixed time was due in the first pass only.

    Args:
        rule: Five crontab fields or a macro.
        timezone: Zone in which *rule* is read, not that of *now*.
        now: Aware, any zone. Seconds count: at 07:00:00.0 a 07:00 rule is due.
        lookback: How far back to look.

    Returns:
        Aware UTC on a whole minute of local time. None: *rule* was not due.

    Raises:
        RuleError: If *rule* cannot be read.
        ValueError: If *now* has no UTC offset.

    >>> paris = ZoneInfo("Europe/Paris")
    >>> now = datetime(2024, 1, 1, 6, 4, tzinfo=UTC)
    >>> get_cron_last_occurrence("0 7 * * 1", paris, now=now).isoformat()
    '2024-01-01T06:00:00+00:00'
    """
    now = as_utc(now, "now")
    return find_last(
        CronRule(CronExpression.parse(rule), timezone), now - lookback, now
    )


#: The original spelling: docs/origin.md.
get_cron_last_occurence = get_cron_last_occurrence
