"""
Clock rules (cron and calendar) in words. Pure.

The words depend on the values that the fields stand for, not on their spelling, so
``*/15`` and ``0,15,30,45`` read the same. A rule that has no good words is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from models.expressions.calendar import CalendarExpression
from models.expressions.calendar_fields import (
    DAY,
    EVERY_DAY,
    parse_spans,
    parse_weekdays,
)
from models.expressions.cron_fields import LAST_DAY, LAST_WEEK, Value, parse_fields
from models.fields.field_types import DAYS_OF_WEEK, MONTHS

#: Times of day that are listed; more of them read better as a pattern.
_MOST_TIMES = 6

#: Values that make a pattern; fewer are listed.
_LEAST_RUN = 3

_NTH = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", LAST_WEEK: "last"}

#: The normalized form of a calendar rule for every year and second 0.
_CALENDAR = re.compile(
    r"(?:(?P<weekdays>[A-Z]\S*) )?\*-\S+-(?P<days>[\d,./*]+) \S+:00(?: \S+)?", re.ASCII
)

_DAYS = 31


@dataclass(frozen=True, slots=True)
class ClockWords:
    """
    What the fields of a clock rule allow.

    Args:
        minutes: 0 to 59, ascending.
        hours: 0 to 23, ascending.
        days: 1 to 31, ascending.
        months: 1 to 12, ascending.
        weekdays: 0 (Monday) to 6 (Sunday), ascending.
        special_days: Phrases for days that have no number ("the last day").
        special_weekdays: The same for weekdays ("the second Friday").
        either: True if a day need match only one of the two fields (cron's rule for
            two restricted fields).
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    special_days: tuple[str, ...] = ()
    special_weekdays: tuple[str, ...] = ()
    either: bool = False

    def describe(self) -> str:
        """Return the whole rule, without its zone: ``Mondays at 07:00``."""
        days = self._describe_days()
        if len(self.minutes) * len(self.hours) <= _MOST_TIMES:
            pairs = product(self.hours, self.minutes)
            times = join_words(f"{hour:02}:{minute:02}" for hour, minute in pairs)
            return f"{days or 'every day'} at {times}"

        pattern = self._describe_pattern()
        return f"{pattern}, {days}" if days else pattern

    def _describe_pattern(self) -> str:
        """Return how often the rule is due, and during which hours."""
        minutes = self._describe_minutes()
        step = _even_step(self.hours, 24)
        if step == 1:
            return minutes
        if step is not None and len(self.minutes) == 1:
            past = f"{self.minutes[0]:02}"
            return f"every {step} hours, from {self.hours[0]:02}:{past} on"

        first, last = self.hours[0], self.hours[-1]
        if len(self.hours) == last - first + 1:
            end = f"{last:02}:{self.minutes[-1]:02}"
            return f"{minutes}, from {first:02}:{self.minutes[0]:02} to {end}"
        hours = join_words(_collapse(self.hours, "{:02}".format))
        return f"{minutes}, during the hours {hours}"

    def _describe_minutes(self) -> str:
        """Return how often the rule is due within an hour."""
        step = _even_step(self.minutes, 60)
        if step == 1:
            return "every minute"
        if step is not None and self.minutes[0] == 0:
            return f"every {step} minutes"
        if self.minutes == (0,):
            return "every hour, on the hour"
        if len(self.minutes) == 1:
            return f"every hour, at minute {self.minutes[0]}"
        return f"every hour, at minutes {join_words(_collapse(self.minutes))}"

    def _describe_days(self) -> str:
        """Return the days on which the rule is due; empty for every day."""
        all_days = len(self.days) == _DAYS and not self.special_days
        all_weekdays = len(self.weekdays) == len(DAYS_OF_WEEK)
        parts = []
        if not all_days:
            parts.append(self._describe_days_of_month())
        if not all_weekdays:
            words = list_weekdays(self.weekdays)
            if self.special_weekdays:
                words.append(f"on {join_words(self.special_weekdays)} of the month")
            parts.append(join_words(words))
        said = (" and also " if self.either else ", but only ").join(parts)

        if len(self.months) == len(MONTHS) or (not all_days and self._is_one_date()):
            return said
        months = join_words(_collapse(self.months, _name_month))
        return f"{said or 'every day'} in {months}"

    def _is_one_date(self) -> bool:
        """Tell whether these are dates of one month: ``on 25 December``."""
        plain = bool(self.days) and not self.special_days and not self.either
        return plain and len(self.months) == 1

    def _describe_days_of_month(self) -> str:
        """Return the days as dates of the month."""
        step = _even_step(self.days, _DAYS)
        if step is not None and step > 1 and len(self.days) >= _LEAST_RUN:
            return f"every {step} days of the month from day {self.days[0]} on"

        numbers = join_words(_collapse(self.days))
        if self._is_one_date():
            return f"on {numbers} {_name_month(self.months[0])}"
        day = "day" if len(self.days) == 1 else "days"
        named = [f"{day} {numbers}"] if self.days else []
        return f"on {join_words([*named, *self.special_days])} of the month"


def describe_cron(rule: str) -> str:
    """
    Return a cron rule in words, without its zone.

    Raises:
        RuleError: If *rule* is not a cron rule.

    >>> describe_cron("0 7 * * 1")
    'Mondays at 07:00'
    """
    fields = parse_fields(rule)
    minutes, hours, days, months, weekdays = fields.values
    _, _, day, _, weekday = fields.words
    ends = [
        "the last day" if value == LAST_DAY else "the last weekday"
        for value in sorted(days, key=str)
        if isinstance(value, str)
    ]
    nth = sorted(value for value in weekdays if isinstance(value, tuple))
    return ClockWords(
        minutes=_get_numbers(minutes),
        hours=_get_numbers(hours),
        days=_get_numbers(days),
        months=_get_numbers(months),
        # In cron, Sunday is 0; here, Monday is.
        weekdays=tuple(sorted((number - 1) % 7 for number in _get_numbers(weekdays))),
        special_days=tuple(ends),
        special_weekdays=tuple(
            f"the {_NTH[which]} {DAYS_OF_WEEK[(number - 1) % 7]}"
            for number, which in nth
        ),
        either=not (day.startswith("*") or weekday.startswith("*")),
    ).describe()


def describe_calendar(text: str) -> tuple[str, str | None]:
    """
    Return a calendar rule in words, and the zone that it names, or None.

    Raises:
        RuleError: If *text* is not a calendar rule.

    >>> describe_calendar("Mon..Fri 9:00")
    ('Monday to Friday at 09:00', None)
    """
    rule = CalendarExpression.parse(text)
    match = _CALENDAR.fullmatch(rule.text)
    if match is None:
        return f"as the calendar rule {text!r} says", rule.zone_name

    named = match["weekdays"]
    weekdays = parse_weekdays(named, text) if named else EVERY_DAY
    words = ClockWords(
        minutes=rule.minutes,
        hours=rule.hours,
        days=DAY.expand(parse_spans(match["days"], DAY)),
        months=rule.months,
        weekdays=tuple(day for day in range(len(DAYS_OF_WEEK)) if weekdays >> day & 1),
    )
    return words.describe(), rule.zone_name


def list_weekdays(numbers: Sequence[int]) -> list[str]:
    """
    Return weekdays in words, one by one or in runs.

    Args:
        numbers: Monday is 0; ascending, not empty.

    >>> list_weekdays((5, 6)), list_weekdays((0, 1, 2))
    (['Saturdays', 'Sundays'], ['Monday to Wednesday'])
    """
    words = _collapse(numbers, DAYS_OF_WEEK.__getitem__)
    if any(" to " in word for word in words):
        return words
    return [f"{word}s" for word in words]


def _name_month(number: int) -> str:
    return MONTHS[number - 1]


def _get_numbers(values: Iterable[Value]) -> tuple[int, ...]:
    """Return the plain numbers among *values*, ascending."""
    return tuple(sorted(value for value in values if isinstance(value, int)))


def join_words(words: Iterable[str]) -> str:
    """
    Return *words* as English lists them.

    >>> join_words(["a", "b", "c"])
    'a, b and c'
    """
    *most, last = list(words) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _even_step(values: Sequence[int], size: int) -> int | None:
    """Return the step of values that divide their whole range evenly, or None."""
    if len(values) == 1:
        return None
    steps = {after - before for before, after in pairwise(values)}
    if len(steps) != 1:
        return None
    step = steps.pop()
    if size == _DAYS:
        # Months differ in length, so there need only be no room for another value.
        return step if values[-1] + step > size else None
    return step if len(values) * step == size else None


def _collapse(values: Sequence[int], name: Callable[[int], str] = str) -> list[str]:
    """Return *values* as words, with runs of three or more as ``a to b``."""
    words: list[str] = []
    for run in find_runs(values):
        if len(run) < _LEAST_RUN:
            words += map(name, run)
        else:
            words.append(f"{name(run[0])} to {name(run[-1])}")
    return words


def find_runs(values: Sequence[int]) -> list[list[int]]:
    """Return *values* (ascending) as runs of consecutive numbers."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return runs
