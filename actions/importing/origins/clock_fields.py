"""
Minutes, hours and days as sets of numbers, and the rule of ours that means them. Pure.

Every origin with fields like those of cron has a dialect of its own. So a text is never
taken over for what it looks like: it must mean the same days and times here, for each
shape that a month can have, or another text is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import JsonValue

from actions.importing.origins.imported import CannotBeError
from models.errors import RuleError
from models.expressions.cron import CronExpression

EVERY_MINUTE = frozenset(range(60))
EVERY_HOUR = frozenset(range(24))
EVERY_DAY = frozenset(range(1, 32))
EVERY_MONTH = frozenset(range(1, 13))
#: Sunday is 0, as in cron.
EVERY_WEEKDAY = frozenset(range(7))

#: As they are written in fields; Sunday is 0, January is 1.
WEEKDAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MONTH_NAMES = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)

_WEEKDAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")

#: Lengths of months, and weekdays of their first days (Monday is 0).
_SHAPES = [(length, first) for length in range(28, 32) for first in range(7)]


@dataclass(frozen=True, slots=True)
class ClockFields:
    """
    Local times on local days.

    Args:
        minutes: 0 to 59.
        hours: 0 to 23.
        days: Of the month, 1 to 31.
        months: 1 to 12.
        weekdays: Sunday is 0.
        either: True: a day need only match one of *days* and *weekdays*.
        written: Five fields as somebody wrote them, for cron. None: not so.
        second: Of the minute.
        years: None: every year.
    """

    minutes: frozenset[int] = EVERY_MINUTE
    hours: frozenset[int] = EVERY_HOUR
    days: frozenset[int] = EVERY_DAY
    months: frozenset[int] = EVERY_MONTH
    weekdays: frozenset[int] = EVERY_WEEKDAY
    either: bool = False
    written: str | None = None
    second: int = 0
    years: frozenset[int] | None = None

    @property
    def needs_both(self) -> bool:
        """Whether both days of the month and weekdays are restricted, and must hold."""
        return (
            not self.either
            and self.days != EVERY_DAY
            and self.weekdays != EVERY_WEEKDAY
        )

    def make_rule(self, timezone: str | None) -> dict[str, JsonValue]:
        """
        Return the ``when`` that means the same: a cron rule, or else a calendar rule.

        Args:
            timezone: None: the default of whoever reads the document.

        Raises:
            CannotBeError: If neither can say it.
        """
        zone: dict[str, JsonValue] = {} if timezone is None else {"timezone": timezone}
        if not self.second and self.years is None:
            # A step with a star is a star to cron: then both day fields must match.
            spelled = (self._spell("*"), self._spell("{}-{}"))
            for text in filter(None, (self.written, *spelled)):
                if self._is(text):
                    return {"cron_rule": text, **zone}
        if self.either:
            msg = "No rule means these days. Write two actions, one for each field."
            raise CannotBeError(msg)
        return {"calendar": self._spell_calendar(), **zone}

    def _is(self, text: str) -> bool:
        """Tell whether the cron rule *text* means the same days and times."""
        try:
            rule = CronExpression.parse(text)
        except RuleError:
            return False
        times = (frozenset(rule.minutes), frozenset(rule.hours), frozenset(rule.months))
        return times == (self.minutes, self.hours, self.months) and all(
            rule.day_mask(length, first) == self._mask(length, first)
            for length, first in _SHAPES
        )

    def _mask(self, length: int, first_weekday: int) -> int:
        """Return the days of a month of this shape, day n as bit n."""
        mask = 0
        for day in range(1, length + 1):
            by_day = day in self.days
            by_weekday = (first_weekday + day) % 7 in self.weekdays
            if by_day or by_weekday if self.either else by_day and by_weekday:
                mask |= 1 << day
        return mask

    def _spell(self, steps_of: str) -> str:
        fields = (
            spell(self.minutes, EVERY_MINUTE),
            spell(self.hours, EVERY_HOUR),
            spell(self.days, EVERY_DAY, steps_of=steps_of),
            spell(self.months, EVERY_MONTH),
            spell(self.weekdays, EVERY_WEEKDAY, steps_of=steps_of),
        )
        return " ".join(fields)

    def _spell_calendar(self) -> str:
        years = "*" if self.years is None else ",".join(map(str, sorted(self.years)))
        date = "-".join(
            (years, _pad(self.months, EVERY_MONTH), _pad(self.days, EVERY_DAY))
        )
        time = f"{_pad(self.hours, EVERY_HOUR)}:{_pad(self.minutes, EVERY_MINUTE)}"
        if self.second:
            time += f":{self.second:02}"
        return " ".join(filter(None, (name_weekdays(self.weekdays), date, time)))


def spell(values: Iterable[int], every: frozenset[int], *, steps_of: str = "*") -> str:
    """
    Return *values* as a field of cron: a star, a step or a list of ranges.

    Args:
        values: Not empty.
        every: What a star means.
        steps_of: What is before the "/" of a step, with room for both bounds.

    >>> spell({0, 15, 30, 45}, EVERY_MINUTE), spell({1, 2, 3, 7}, EVERY_DAY)
    ('*/15', '1-3,7')
    """
    numbers = sorted(values)
    if frozenset(numbers) == every:
        return "*"
    low = min(every)
    if len(numbers) > 2 and numbers[0] == low:
        step = numbers[1] - low
        if step > 1 and numbers == sorted(every)[::step]:
            return f"{steps_of.format(low, max(every))}/{step}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run))
        for run in runs
    )


def name_weekdays(weekdays: Iterable[int]) -> str:
    """Return the names of *weekdays* (Sunday is 0) as a calendar rule has them."""
    chosen = frozenset(weekdays)
    if chosen == EVERY_WEEKDAY:
        return ""
    in_order = sorted(chosen, key=lambda day: (day - 1) % 7)
    return ",".join(_WEEKDAYS[day] for day in in_order)


def _pad(values: Iterable[int], every: frozenset[int]) -> str:
    chosen = frozenset(values)
    return "*" if chosen == every else ",".join(f"{n:02}" for n in sorted(chosen))
