"""
The minutes in which plain cron rules are due, counted by days instead of one by one.

An hour and a day need no search: the days of the period are numbered once
for each zone, and the minutes of a matching day are sums. Days near a clock change are
left to the rule itself, which knows what happens then. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from actions.when.cron import CronRule
from actions.when.local_time import get_stretch
from actions.when.searching import find_each
from models.errors import RuleError
from models.expressions.cron import CronExpression
from models.fields.zone import load_zone

#: A timing that is one cron rule and nothing else: canonical JSON, without escapes.
_PLAIN = re.compile(
    r'\{"when":\[\{"cron_rule":"([^"\\]+)","timezone":"([^"\\]+)"\}\]\}'
)

#: Fields of a cron rule, and how many of them say the time of day.
_FIELDS = 5
_TIME_FIELDS = 2

#: No clock change further away than this repeats or skips a time of a day.
_BEYOND_SHIFTS = timedelta(days=2)

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
_NOTHING = timedelta()


@dataclass(frozen=True, slots=True)
class _Day:
    """
    A local day, as the rules of one zone meet it.

    Args:
        length: Of its month, in days.
        first_weekday: Of its month; Monday is 0.
        begins: The number of its first minute, negative before the period. None: the
            clocks change near it, so that its minutes are not the sums they seem.
        since: Its first instant, aware UTC.
        until: That of the next day.
    """

    month: int
    day: int
    length: int
    first_weekday: int
    begins: int | None
    since: datetime
    until: datetime

    def is_matched_by(self, expression: CronExpression) -> bool:
        """Tell whether *expression* is due on this date."""
        if self.month not in expression.months:
            return False
        days = expression.day_mask(self.length, self.first_weekday)
        return bool(days >> self.day & 1)


@dataclass(frozen=True, slots=True)
class _Matching:
    """
    The days on which a rule is due, whatever the time.

    Args:
        expression: Its months and days are those of the rule.
        begins: As of ``_Day``, of those that match.
        uneven: The days that the rule itself must be asked about.
    """

    expression: CronExpression
    zone: ZoneInfo
    begins: Sequence[int]
    uneven: Sequence[_Day]


class Days:
    """The days of a period, by zone."""

    def __init__(self, since: datetime, until: datetime) -> None:
        """Take a period from *since*, a whole minute, to before *until*; aware UTC."""
        self._since, self._until = since, until
        self._count = -((since - until) // _MINUTE)
        self._by_zone: dict[str, tuple[ZoneInfo, Sequence[_Day]]] = {}
        self._matching: dict[tuple[str, str], _Matching] = {}

    def find_minutes(self, timing: str) -> Sequence[int] | None:
        """
        Return the numbers of the minutes in which a rule is due, in any order.

        Args:
            timing: Canonical JSON of a TimingModel.

        Returns:
            Each minute once, 0 being the first of the period. None: *timing* is not a
            plain cron rule, or one that cannot be read.
        """
        found = _PLAIN.fullmatch(timing)
        if found is None:
            return None
        text, zone_name = found.groups()
        words = text.split()
        if len(words) != _FIELDS:
            return None
        try:
            # Thousands of rules differ by their time or by their day alone, so the two
            # are read apart: that many times and days are soon known.
            times = _parse(" ".join([*words[:_TIME_FIELDS], "*", "*", "*"]))
            days = " ".join(["0", "0", *words[_TIME_FIELDS:]])
            matching = self._match_days(days, zone_name)
        except RuleError:
            return None
        of_day = _multiply(times.hours, times.minutes)
        minutes = [begins + each for begins in matching.begins for each in of_day]
        if matching.uneven:
            rule = CronRule(_join(times, matching.expression), matching.zone)
            for day in matching.uneven:
                minutes += self._search(rule, day)
        return [each for each in minutes if 0 <= each < self._count]

    def _match_days(self, text: str, zone_name: str) -> _Matching:
        """Return the days of a zone that the last fields of *text* match."""
        found = self._matching.get((text, zone_name))
        if found is None:
            expression = _parse(text)
            zone, days = self._get_days(zone_name)
            begins = tuple(
                each.begins
                for each in days
                if each.begins is not None and each.is_matched_by(expression)
            )
            # Whatever the date: what a gap skipped may be due on the day after it.
            uneven = tuple(each for each in days if each.begins is None)
            found = _Matching(expression, zone, begins, uneven)
            self._matching[text, zone_name] = found
        return found

    def _get_days(self, zone_name: str) -> tuple[ZoneInfo, Sequence[_Day]]:
        found = self._by_zone.get(zone_name)
        if found is None:
            zone = load_zone(zone_name)
            days = tuple(self._find_days(zone))
            found = self._by_zone[zone_name] = zone, days
        return found

    def _find_days(self, zone: ZoneInfo) -> Iterator[_Day]:
        """Yield the local days that the period touches."""
        day = self._since.astimezone(zone).date() - _DAY
        last = self._until.astimezone(zone).date() + _DAY
        while day <= last:
            since, until = _find_bounds(day, zone), _find_bounds(day + _DAY, zone)
            stretch = get_stretch(zone, since)
            is_even = (
                stretch.starts_at <= since - _BEYOND_SHIFTS
                and until + _BEYOND_SHIFTS <= stretch.ends_at
                and stretch.offset % _MINUTE == _NOTHING
            )
            first = day.replace(day=1)
            following = (first + 31 * _DAY).replace(day=1)
            yield _Day(
                month=day.month,
                day=day.day,
                length=(following - first).days,
                first_weekday=first.weekday(),
                begins=(since - self._since) // _MINUTE if is_even else None,
                since=since,
                until=until,
            )
            day += _DAY

    def _search(self, rule: CronRule, day: _Day) -> list[int]:
        since = max(day.since, self._since)
        until = min(day.until, self._until)
        if until <= since:
            return []
        return [
            (each - self._since) // _MINUTE for each in find_each(rule, since, until)
        ]


def _find_bounds(day: date, zone: ZoneInfo) -> datetime:
    """
    Return the instant at which one day ends and *day* begins, aware UTC.

    Any such instants will do around clock changes, if one day ends where the next one
    begins: there the rule is asked, whatever the calendar says.
    """
    return datetime.combine(day, time(), zone).astimezone(UTC)


def _join(times: CronExpression, days: CronExpression) -> CronExpression:
    """Return the expression that has its times from one and its days from another."""
    return replace(
        days, minutes=times.minutes, hours=times.hours, is_fixed=times.is_fixed
    )


@lru_cache(maxsize=8192)
def _parse(text: str) -> CronExpression:
    return CronExpression.parse(text)


@lru_cache(maxsize=4096)
def _multiply(hours: tuple[int, ...], minutes: tuple[int, ...]) -> Sequence[int]:
    """Return the minutes of a day."""
    return tuple(60 * hour + minute for hour in hours for minute in minutes)
