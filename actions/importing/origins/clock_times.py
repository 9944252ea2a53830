"""
Minutes, hours and days as sets of numbers, intervals, offsets: as rules of ours. Pure.

Every origin with fields like those of cron has a dialect of its own. So a text is never
taken over for what it looks like: it must mean the same days and times here, for each
shape that a month can have, or another text is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pydantic import JsonValue

from actions.importing.origins.imported import refuse
from actions.previews.clock_words import find_runs
from models.errors import RuleError
from models.expressions.cron import CronExpression
from models.expressions.cron_fields import FIELDS
from models.fields.field_types import WEEKDAYS

#: As they are written in fields; Sunday is 0, January is 1.
MONTH_NAMES, WEEKDAY_NAMES = (
    {name.lower(): number for number, name in enumerate(each.names, each.named_from)}
    for each in FIELDS[3:]
)

#: Lengths of months, and weekdays of their first days (Monday is 0).
_SHAPES = [(length, first) for length in range(28, 32) for first in range(7)]

_TERM = re.compile(r"([*?]|\w+)(?:-(\w+))?(?:/(\w+))?")


@dataclass(frozen=True, slots=True)
class Dialect:
    """
    How an origin reads lists of numbers, ranges and steps.

    Args:
        refusal: What is said of a term that it refuses, as a sentence with room for it.
        names: Of each field, lower-case.
        stars: What stands for all numbers.
        wraps: Whether a range may run backwards, over the end of its field.
        has_open_steps: Whether "5/15" goes on from 5 to the end.
        letters: Of a name that count. None: all of them.
    """

    refusal: str
    names: Sequence[Mapping[str, int]] = ({}, {}, {}, {}, {})
    stars: str = "*"
    wraps: bool = False
    has_open_steps: bool = False
    letters: int | None = None

    def read_fields(self, words: Sequence[str]) -> ClockFields:
        """
        Return what five fields mean: minute, hour, day, month, weekday.

        Raises:
            CannotBeError: If the origin cannot read them either.
        """
        every = EVERY.minutes, EVERY.hours, EVERY.days, EVERY.months, EVERY.weekdays
        minutes, hours, days, months, weekdays = map(
            self.read, words, every, self.names
        )
        return ClockFields(minutes, hours, days, months, weekdays)

    def read(
        self, text: str, every: frozenset[int], names: Mapping[str, int]
    ) -> frozenset[int]:
        """Return the numbers of *every* that a field names; see ``read_fields``."""

        def read_number(word: str) -> int:
            named = names.get(word[: self.letters].lower())
            number = int(word) if word.isdecimal() else named
            if number not in every:
                refuse(self.refusal.format(repr(word)))
            return number

        low, high = min(every), max(every)
        found: set[int] = set()
        for term in text.split(","):
            match = _TERM.fullmatch(term)
            if match is None or not self._has_form(*match.groups()):
                refuse(self.refusal.format(repr(term)))
            begin, end, step = match.groups()
            is_star = begin in self.stars
            first = low if is_star else read_number(begin)
            last = high if is_star or step else first
            if end:
                last = read_number(end)
            numbers = [*range(first, last + 1)]
            if last < first and self.wraps:
                numbers = [*range(first, high + 1), *range(low, last + 1)]
            if not numbers or (step and not (step.isdecimal() and int(step))):
                refuse(self.refusal.format(repr(term)))
            found.update(numbers[:: int(step or 1)])
        return frozenset(found)

    def _has_form(self, begin: str, end: str | None, step: str | None) -> bool:
        if begin in "*?":
            return begin in self.stars and not end
        return not step or bool(end) or self.has_open_steps


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
        seconds: 0 to 59.
        years: None: every year.
    """

    minutes: frozenset[int] = frozenset(range(60))
    hours: frozenset[int] = frozenset(range(24))
    days: frozenset[int] = frozenset(range(1, 32))
    months: frozenset[int] = frozenset(range(1, 13))
    weekdays: frozenset[int] = frozenset(range(7))
    either: bool = False
    written: str | None = None
    seconds: frozenset[int] = frozenset({0})
    years: frozenset[int] | None = None

    def make_rule(self, timezone: str) -> dict[str, JsonValue]:
        """
        Return the ``when`` that means the same: a cron rule, or else a calendar rule.

        Raises:
            CannotBeError: If neither can say it.
        """
        if self.seconds == EVERY.seconds and self.years is None:
            # A step with a star is a star to cron: then both day fields must match.
            spelled = [
                self.spell_cron(
                    spell(self.days, EVERY.days, steps_of=star),
                    spell(self.weekdays, EVERY.weekdays, steps_of=star),
                )
                for star in ("*", "{}-{}")
            ]
            for text in filter(None, (self.written, *spelled)):
                if self._is(text):
                    return {"cron_rule": text, "timezone": timezone}
        if self.either:
            refuse("No rule means these days. Write two actions, one for each field.")
        text = self.spell_calendar(f"-{_pad(self.days, EVERY.days)}")
        return {"calendar": text, "timezone": timezone}

    def spell_cron(self, day: str, weekday: str) -> str:
        """Return its times and months as a cron rule with these two day fields."""
        minute = spell(self.minutes, EVERY.minutes)
        hour, month = spell(self.hours, EVERY.hours), spell(self.months, EVERY.months)
        return f"{minute} {hour} {day} {month} {weekday}"

    def spell_calendar(self, day: str) -> str:
        """Return it as a calendar rule with this day, "-15" or "~01"."""
        weekdays = ",".join(
            name
            for number, name in enumerate(WEEKDAYS, 1)
            if number % 7 in self.weekdays and self.weekdays != EVERY.weekdays
        )
        years = "*" if self.years is None else ",".join(map(str, sorted(self.years)))
        date = f"{years}-{_pad(self.months, EVERY.months)}{day}"
        time = f"{_pad(self.hours, EVERY.hours)}:{_pad(self.minutes, EVERY.minutes)}"
        if self.seconds != EVERY.seconds:
            time += f":{_pad(self.seconds, EVERY.minutes)}"
        return f"{weekdays} {date} {time}".lstrip()

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
        match = any if self.either else all
        return sum(
            1 << day
            for day in range(1, length + 1)
            if match((day in self.days, (first_weekday + day) % 7 in self.weekdays))
        )


#: All minutes of all days.
EVERY = ClockFields()


def spell(values: Iterable[int], every: frozenset[int], *, steps_of: str = "*") -> str:
    """
    Return *values* as a field of cron: a star, a step or a list of ranges.

    Args:
        values: Not empty.
        every: What a star means.
        steps_of: What is before the "/" of a step, with room for both bounds.

    >>> spell({0, 15, 30, 45}, EVERY.minutes), spell({1, 2, 3, 7}, EVERY.days)
    ('*/15', '1-3,7')
    """
    numbers, low = sorted(values), min(every)
    if frozenset(numbers) == every:
        return "*"
    if len(numbers) > 2 and numbers[0] == low:
        step = numbers[1] - low
        if step > 1 and numbers == sorted(every)[::step]:
            return f"{steps_of.format(low, max(every))}/{step}"
    return ",".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run))
        for run in find_runs(numbers)
    )


def name_counted_day(weekday: int, place: int) -> str:
    """
    Return a weekday (Sunday is 0) by its place in the month, as cron has it.

    >>> name_counted_day(2, 1), name_counted_day(5, -1)
    ('2#1', '5L')
    """
    return f"{weekday}L" if place == -1 else f"{weekday}#{place}"


def _pad(values: frozenset[int], every: frozenset[int]) -> str:
    return "*" if values == every else ",".join(f"{n:02}" for n in sorted(values))


def read_interval(seconds: float) -> int:
    """
    Return the whole seconds of an interval.

    Raises:
        CannotBeError: If it is shorter than a second or has a fraction.
    """
    if seconds < 1:
        refuse(
            f"Every {seconds:g} s is below a second. Let a task of every second do it"
            " in a loop, or leave this entry where it is."
        )
    if seconds != int(seconds):
        refuse(f"Every {seconds} s has a fraction of a second. Write whole seconds.")
    return int(seconds)


def name_offset(offset: timedelta) -> str:
    """
    Return the zone whose clocks are always *offset* ahead of UTC.

    Raises:
        CannotBeError: If there is none: they exist for whole hours.

    >>> name_offset(timedelta(hours=2)), name_offset(timedelta(0))
    ('Etc/GMT-2', 'UTC')
    """
    hours, rest = divmod(offset, timedelta(hours=1))
    if rest or not -12 <= hours <= 14:
        refuse(
            f"No zone is always {offset} ahead of UTC. Give the entry a zone by name,"
            " such as Asia/Kolkata."
        )
    # These names count westwards, as POSIX does.
    return f"Etc/GMT{-hours:+d}" if hours else "UTC"
