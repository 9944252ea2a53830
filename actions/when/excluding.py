"""
Local days on which nothing is due (``except``). Pure.

A rule that is due every minute of an excluded year must cost one search, not half a
million. So excluded days are merged into ranges, and each range is skipped as a whole.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from actions.when.rule import Rule
from models.fields.zone import first_instant_at
from models.timing import DayRange

_DAY = timedelta(days=1)

#: How many runs of excluded days are searched in vain before a rule counts as never
#: due, such as each Sunday without Sundays. The rarest pair of a date and a weekday,
#: 29 February on a given day, comes every 40 years at least, and has some hundred.
_MOST_TRIES = 5_000


@dataclass(frozen=True, slots=True)
class DaysOff:
    """
    Excluded days, by their dates and by their weekdays.

    Args:
        ranges: As merge_days returns them.
        weekdays: Of every week, Monday is 0; ascending, not all seven.
    """

    ranges: tuple[DayRange, ...] = ()
    weekdays: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return bool(self.ranges or self.weekdays)

    def find_run(self, day: date) -> DayRange | None:
        """
        Return the excluded days in a row of which *day* is one; None: it is none.

        Its first day is preceded, and its last day followed, by a day that is none,
        unless the calendar of Python ends there.
        """
        found = self._find_part(day)
        if found is None:
            return None
        first, last = found
        while first > date.min and (part := self._find_part(first - _DAY)):
            first = part[0]
        while last < date.max and (part := self._find_part(last + _DAY)):
            last = part[1]
        return first, last

    def covers(self, day: date) -> bool:
        """Tell whether *day* is excluded."""
        return day.weekday() in self.weekdays or self.find_range(day) is not None

    def find_range(self, day: date) -> DayRange | None:
        """Return the range of dates with *day*, whatever its weekday."""
        index = bisect_right(self.ranges, day, key=lambda days: days[0]) - 1
        if index < 0 or self.ranges[index][1] < day:
            return None
        return self.ranges[index]

    def _find_part(self, day: date) -> DayRange | None:
        """Return the range with *day*, or just *day* if its weekday is excluded."""
        weekday = (day, day) if day.weekday() in self.weekdays else None
        return self.find_range(day) or weekday


NO_DAYS = DaysOff()


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
    return max(second, after + timedelta(seconds=1))


def get_local_day(instant: datetime, zone: ZoneInfo) -> date:
    """Return the day on which *instant* is in *zone*."""
    return instant.astimezone(zone).date()


def find_allowed(rule: Rule, instant: datetime, excluded: DaysOff) -> datetime | None:
    """
    Return the first occurrence of *rule* at or after *instant* on an allowed day.

    Args:
        rule: Its zone decides which local day an occurrence belongs to.
        instant: Aware UTC.
        excluded: Each run of days in a row costs at most one search.

    Returns:
        Aware UTC. None: the rule is never due again.
    """
    occurrence = rule.next_from(instant)
    if not excluded:
        return occurrence
    for _ in range(_MOST_TRIES):
        if occurrence is None:
            return None
        run = excluded.find_run(get_local_day(occurrence, rule.zone))
        if run is None:
            return occurrence
        if run[1] == date.max:
            return None
        day_start = find_day_start(run[1] + _DAY, rule.zone, after=occurrence)
        occurrence = rule.next_from(day_start)
    return None
