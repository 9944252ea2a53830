"""
Cron expressions: the minutes, hours and days that five fields ask for. Pure.

cron_fields.py reads the text, and cron_hints.py knows what was meant by one that is
refused. Here the days that it asks for are worked out once for each shape that a month
can have, so that finding a day costs a few bit operations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from models.errors import RuleError
from models.expressions.cron_fields import (
    LAST_DAY,
    LAST_WEEK,
    LAST_WORKDAY,
    CronFields,
    Value,
    parse_fields,
    quote,
)
from models.expressions.cron_hints import find_hint

_WEEK = 7
_SHORTEST_MONTH = 28
_LONGEST_MONTH = 31

#: The lengths each month can have; index 0 is unused.
_MONTH_LENGTHS = (
    *((), (31,), (28, 29), (31,), (30,), (31,), (30,)),
    *((31,), (31,), (30,), (31,), (30,), (31,)),
)

#: How many parsed rules are cached, at some hundred bytes each; and how many ways to
#: choose days, which most rules share.
_KEPT_RULES, _KEPT_DAYS = 4_096, 1_024

#: Every seventh bit: the days of one weekday, from the first of the month on.
_EVERY_WEEK = sum(1 << day for day in range(0, _LONGEST_MONTH, _WEEK))


@dataclass(frozen=True, slots=True)
class CronExpression:
    """
    A cron expression; two are equal if they ask for the same times in the same way.

    Args:
        text: As its author wrote it.
        canonical: *text* with numbers for names, macros spelled out and single
            spaces. Parses to an equal expression.
        minutes: Sorted, 0 to 59.
        hours: Sorted, 0 to 23.
        months: Sorted, 1 to 12.
        day_masks: The matching days, for each shape of a month; see ``day_mask``.
        is_fixed: True if neither the minute nor the hour field starts with ``*``: the
            text names times of day, each of which is due once a day, even when the
            clocks change. False: it follows the clock.
    """

    text: str = field(compare=False)
    canonical: str = field(compare=False)
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: tuple[int, ...]
    day_masks: tuple[int, ...]
    is_fixed: bool

    @classmethod
    @lru_cache(maxsize=_KEPT_RULES)
    def parse(cls, text: str) -> CronExpression:
        """
        Return the expression that *text* is.

        Args:
            text: Five fields, or a macro such as "@daily"; names in any case.

        Raises:
            RuleError: If it is not a cron rule, or one that is never due.

        >>> CronExpression.parse("0 7 * * mon").canonical
        '0 7 * * 1'
        >>> CronExpression.parse("61 * * * *")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        models.errors.RuleError: '61 * * * *' has minute 61; minutes go from 0 to 59...
        """
        try:
            return cls._parse(text)
        except RuleError as error:
            hint = find_hint(text, cls.accepts)
            if not hint:
                raise
            raise RuleError(error.message, hint) from None

    @classmethod
    def accepts(cls, text: str) -> bool:
        """Tell whether *text* is a cron rule that is due some day."""
        try:
            cls._parse(text)
        except RuleError:
            return False
        return True

    @classmethod
    def _parse(cls, text: str) -> CronExpression:
        fields = parse_fields(text)
        minutes, hours, days, months, weekdays = fields.values
        starts = [word[0] for word in fields.words]
        rule = cls(
            text=text,
            canonical=" ".join(fields.words),
            minutes=_numbers(minutes),
            hours=_numbers(hours),
            months=_numbers(months),
            # Debian's cron: a day must match both fields if either starts with a
            # star, otherwise one of the two.
            day_masks=_make_day_masks(
                days, weekdays, both=starts[2] == "*" or starts[4] == "*"
            ),
            is_fixed=starts[0] != "*" and starts[1] != "*",
        )
        if not rule.is_ever_due():
            raise _make_never_error(text, fields)
        return rule

    def day_mask(self, length: int, first_weekday: int) -> int:
        """
        Return the matching days of a month of this shape, day n as bit n.

        Args:
            length: Days of the month, 28 to 31.
            first_weekday: Weekday of the first of the month; Monday is 0.
        """
        return self.day_masks[(length - _SHORTEST_MONTH) * _WEEK + first_weekday]

    def is_ever_due(self) -> bool:
        """
        Tell whether any date matches; True for everything that was parsed.

        Exact: in 400 years, each month occurs in each of its lengths with each first
        weekday, including 29 February.
        """
        return any(
            self.day_mask(length, first_weekday)
            for month in self.months
            for length in _MONTH_LENGTHS[month]
            for first_weekday in range(_WEEK)
        )


def _numbers(values: Iterable[Value]) -> tuple[int, ...]:
    """Return the plain numbers among *values*, sorted."""
    return tuple(sorted(value for value in values if isinstance(value, int)))


@lru_cache(maxsize=_KEPT_DAYS)
def _make_day_masks(
    days: frozenset[Value], weekdays: frozenset[Value], *, both: bool
) -> tuple[int, ...]:
    """Return the matching days for each of the 28 shapes that a month can have."""
    numbers = sum(1 << day for day in _numbers(days))
    weekly = [
        sum(_EVERY_WEEK << _first_day(weekday, first) for weekday in _numbers(weekdays))
        for first in range(_WEEK)
    ]
    nth = [value for value in weekdays if isinstance(value, tuple)]
    masks = []
    for length in range(_SHORTEST_MONTH, _LONGEST_MONTH + 1):
        whole_month = (2 << length) - 2
        for first_weekday in range(_WEEK):
            by_day = numbers | _mask_of_ends(days, length, first_weekday)
            by_weekday = weekly[first_weekday] | _mask_of_nth(
                nth, length, first_weekday
            )
            mask = by_day & by_weekday if both else by_day | by_weekday
            masks.append(mask & whole_month)
    return tuple(masks)


def _first_day(weekday: int, first_weekday: int) -> int:
    """Return the first day of a month that is *weekday*: Sunday is 0, as in cron."""
    return (weekday - 1 - first_weekday) % _WEEK + 1


def _mask_of_ends(days: frozenset[Value], length: int, first_weekday: int) -> int:
    """Return the last day and the last working day, whichever *days* asks for."""
    mask = 0
    if LAST_DAY in days:
        mask |= 1 << length
    if LAST_WORKDAY in days:
        # Saturday is 5 and Sunday 6: one or two days back to Friday.
        last_weekday = (first_weekday + length - 1) % _WEEK
        mask |= 1 << length - max(last_weekday - 4, 0)
    return mask


def _mask_of_nth(
    nth_weekdays: Iterable[tuple[int, int]], length: int, first_weekday: int
) -> int:
    """Return the days such as "second Monday"; may have bits beyond the month."""
    mask = 0
    for weekday, nth in nth_weekdays:
        day = _first_day(weekday, first_weekday)
        if nth == LAST_WEEK:
            last = day + 4 * _WEEK
            mask |= 1 << (last if last <= length else last - _WEEK)
        else:
            mask |= 1 << day + (nth - 1) * _WEEK
    return mask


def _make_never_error(text: str, fields: CronFields) -> RuleError:
    """Return an error that names the date that does not exist."""
    days = fields.values[2]
    numbers = _numbers(days)
    if len(numbers) == len(days) and numbers[0] > _SHORTEST_MONTH:
        return RuleError(
            f"{quote(text)} is never due: "
            f"there is no day {numbers[0]} in month {fields.words[3]}.",
            "For the last day of the month, write L as the day.",
        )
    return RuleError(
        f"{quote(text)} is never due: no date matches both of its day fields.",
        "A date must match both if either of them starts with '*'.",
    )
