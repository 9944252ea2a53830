"""
When the n-th working day of a month is. Pure.

A working day is one that ``except`` does not name; unless it names weekdays, Saturdays
and Sundays are none either.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from actions.when.excluding import DaysOff
from actions.when.local_time import get_local_floor, resolve_fixed
from models.days_off import get_free_weekdays
from models.fields.delay import parse_time_of_day
from models.fields.instants import LAST_YEAR
from models.fields.zone import load_zone
from models.when import WorkingDayModel

_DAY = timedelta(days=1)
_DECEMBER = 12

#: Months in a row without such a day, after which there is none any more. The weekdays
#: of months repeat within 28 years, or within 40 where a leap day is left out.
_MOST_MONTHS = 12 * 40


@dataclass(frozen=True, slots=True)
class WorkingDayRule:
    """
    One time of day, on one working day of each month.

    Args:
        number: 1 is the first of the month, -1 the last.
        at: Local time of day, a fixed time (local_time.py).
        zone: Whose calendar and clocks they are.
        free: The days that are no working days.
    """

    number: int
    at: time
    zone: ZoneInfo
    free: DaysOff

    def next_from(self, instant: datetime) -> datetime | None:
        """Return the first occurrence at or after *instant*, as ``Rule`` demands."""
        if instant.microsecond:
            instant = instant.replace(microsecond=0) + timedelta(seconds=1)
        floor = get_local_floor(self.zone, instant)
        for day in self._find_days(floor.date()):
            # A day that the zone left out, or a large leap of its clocks, has none.
            occurrence = resolve_fixed(datetime.combine(day, self.at), self.zone)
            if occurrence is not None and occurrence >= instant:
                return occurrence
        return None

    def in_zone(self, zone: ZoneInfo) -> WorkingDayRule:
        """Return the same days and time in *zone*."""
        return replace(self, zone=zone)

    def without_clock_changes(self) -> WorkingDayRule:
        """Return the same days and time in UTC."""
        return self.in_zone(load_zone("UTC"))

    def without(self, excluded: DaysOff) -> WorkingDayRule:
        """Return the same rule for an action that excepts *excluded*."""
        weekdays = get_free_weekdays(excluded.weekdays)
        return replace(self, free=DaysOff(excluded.ranges, weekdays))

    def _find_days(self, day: date) -> Iterator[date]:
        """Yield the days asked for, from the month of *day* on."""
        year, month, tried = day.year, day.month, 0
        while year <= LAST_YEAR and tried < _MOST_MONTHS:
            found = self._find_day(year, month)
            if found is not None:
                yield found
            beyond = self._find_end_of_run(year, month)
            # Ranges come to an end, so only months beyond them count as tried.
            tried = 0 if found or beyond else tried + 1
            if beyond is not None:
                year, month = beyond.year, beyond.month
            elif month == _DECEMBER:
                year, month = year + 1, 1
            else:
                month += 1

    def _find_day(self, year: int, month: int) -> date | None:
        """Return the day asked for in one month; None: it has too few."""
        first, length = date(year, month, 1), monthrange(year, month)[1]
        days = range(length) if self.number > 0 else reversed(range(length))
        left = abs(self.number)
        for offset in days:
            day = first + offset * _DAY
            left -= not self.free.covers(day)
            if not left:
                return day
        return None

    def _find_end_of_run(self, year: int, month: int) -> date | None:
        """Return the first day after excluded dates that reach beyond the month."""
        last = date(year, month, monthrange(year, month)[1])
        found = self.free.find_range(last)
        if found is None or found[1] in {last, date.max}:
            return None
        return found[1] + _DAY


def make_working_day_rule(model: WorkingDayModel) -> WorkingDayRule:
    """
    Return the rule that *model* describes, for an action that excepts nothing.

    Raises:
        RuleError: If its zone or its time of day cannot be read.

    >>> model = WorkingDayModel(working_day=-1, at="18:00", timezone="Europe/Paris")
    >>> from datetime import UTC
    >>> rule = make_working_day_rule(model)
    >>> str(rule.next_from(datetime(2026, 10, 1, tzinfo=UTC)))
    '2026-10-30 17:00:00+00:00'
    """
    return WorkingDayRule(
        model.working_day,
        parse_time_of_day(model.at),
        load_zone(model.timezone),
        DaysOff(weekdays=get_free_weekdays(())),
    )
