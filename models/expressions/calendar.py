"""
Calendar expressions: systemd's OnCalendar syntax, read and written back. Pure.

The syntax is that of systemd.time(7), "Calendar Events"; ``str`` of an expression is
what ``systemd-analyze calendar`` calls its normalized form. This is stricter than
systemd in two ways: an expression that can never be due is refused, and so are
fractions of a second, since occurrences fall on whole seconds.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from models.errors import RuleError
from models.expressions.calendar_fields import (
    DAY,
    DAYS_FROM_END,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    YEAR,
    NumberSpan,
    format_spans,
    format_weekdays,
    names_weekday,
    parse_spans,
    parse_weekdays,
)
from models.fields.zone import load_zone

#: Characters; nobody writes a longer rule.
_LONGEST_TEXT = 1_000

#: How many parsed rules are cached: parsing costs a hundred times a look-up.
_KEPT_RULES = 4_096

#: Source: systemd.time(7), including the misspelled "anually".
SHORTHANDS = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
    "semi-annually": "*-01,07-01 00:00:00",
    "biannually": "*-01,07-01 00:00:00",
    "bi-annually": "*-01,07-01 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
    "anually": "*-01-01 00:00:00",
}

#: The calendar repeats after this many years, weekdays included.
_CYCLE = range(2000, 2400)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The last second of 2199, the last year of systemd's rules.
_LAST_EPOCH = 7_258_118_399

_DAYS_OF_WEEK = 7
_SHORTEST_MONTH, _LONGEST_MONTH = 28, 31

_HINT = "Write it as in systemd, such as 'Mon..Fri *-*-* 09:00:00'."


@dataclass(frozen=True, slots=True)
class CalendarExpression:
    """
    A calendar expression, its fields listed. Two with the same text are equal.

    Args:
        text: The normalized form; the zone is part of it.
        years: Ascending, 1970 to 2199; None is every year.
        months: Ascending, 1 to 12.
        days: For each length of a month, 28 to 31, and each weekday of its first day
            (Monday is 0), a number whose bit d is set if day d matches.
        hours: Ascending, 0 to 23.
        minutes: Ascending, 0 to 59.
        seconds: Ascending, 0 to 59.
        follows_clock: True if hour or minute is ``*``: due at every instant at which
            clocks show a matching time. False: once for each local time.
        zone_name: The zone written in the text; None if there is none.
    """

    text: str
    years: tuple[int, ...] | None = field(compare=False)
    months: tuple[int, ...] = field(compare=False)
    days: tuple[tuple[int, ...], ...] = field(compare=False, repr=False)
    hours: tuple[int, ...] = field(compare=False)
    minutes: tuple[int, ...] = field(compare=False)
    seconds: tuple[int, ...] = field(compare=False)
    follows_clock: bool = field(compare=False)
    zone_name: str | None = field(compare=False)

    @classmethod
    @lru_cache(maxsize=_KEPT_RULES)
    def parse(cls, text: str) -> CalendarExpression:
        """
        Return the expression that *text* is.

        Raises:
            RuleError: If *text* is not systemd's syntax, names an unknown zone, has a
                fraction of a second, or can never be due. One whose years are all in
                the past is accepted.

        >>> str(CalendarExpression.parse("mon..fri 9:0"))
        'Mon..Fri *-*-* 09:00:00'
        """
        if len(text) > _LONGEST_TEXT:
            msg = f"{text[:20]!r}... has {len(text)} characters, too many for a rule."
            raise RuleError(msg, f"Write at most {_LONGEST_TEXT}.")
        if text != text.strip(" "):
            msg = f"{text!r} has spaces before or after the rule."
            raise RuleError(msg, f"Write {text.strip(' ')!r}.")

        return _Reader(text).read()

    def days_in(self, year: int, month: int) -> int:
        """Return the matching days of a month: bit d is set if day d matches."""
        first_weekday, length = _get_month(year, month)
        return self.days[length - _SHORTEST_MONTH][first_weekday]

    def __str__(self) -> str:
        """Return the normalized form."""
        return self.text


@dataclass(slots=True)
class _Reader:
    """Takes a text apart from both ends; errors quote the whole of it."""

    text: str
    weekdays: int = 0
    zone_name: str | None = None
    years: tuple[NumberSpan, ...] | None = None
    months: tuple[NumberSpan, ...] | None = None
    days: tuple[NumberSpan, ...] | None = None
    from_end: bool = False
    hours: tuple[NumberSpan, ...] | None = (NumberSpan(0),)
    minutes: tuple[NumberSpan, ...] | None = (NumberSpan(0),)
    seconds: tuple[NumberSpan, ...] | None = (NumberSpan(0),)

    def read(self) -> CalendarExpression:
        words = self._read_zone(self.text.split(" "))
        if len(words) == 1 and words[0].startswith("@"):
            words = self._read_epoch(words[0])
        elif len(words) == 1 and words[0].lower() in SHORTHANDS:
            words = SHORTHANDS[words[0].lower()].split(" ")

        if words and words[0][0].isalpha():
            self.weekdays = parse_weekdays(words.pop(0), self.text)
        if words and ":" not in words[0]:
            self._read_date(words.pop(0))
        if words:
            self._read_time(words.pop(0))
        if words:
            raise self._misplaced(words[0])

        return self._make_rule()

    def _read_zone(self, words: list[str]) -> list[str]:
        words = [word for word in words if word]
        if not words:
            msg = f"{self.text!r} is empty; a calendar rule says when."
            raise RuleError(msg, _HINT)

        last = words[-1]
        if len(words) == 1 or not last[0].isalpha():
            return words
        if names_weekday(last):
            msg = f"{self.text!r} has weekdays at its end, or separated by spaces."
            hint = "Write them first, without spaces: 'Mon,Tue 09:00'."
            raise RuleError(msg, hint)

        if last.lower() in SHORTHANDS:
            raise self._misplaced(last)

        self.zone_name = "UTC" if last.upper() == "UTC" else load_zone(last).key
        return words[:-1]

    def _read_epoch(self, word: str) -> list[str]:
        """Return the words for ``@seconds``, which count from 1970 in UTC."""
        if re.fullmatch(r"@[0-9]{1,18}", word) is None or int(word[1:]) > _LAST_EPOCH:
            msg = f"{word!r} is not a number of seconds from 1970 to the end of 2199."
            raise RuleError(msg, "Write whole seconds, such as '@1796122800'.")

        self.zone_name = "UTC"
        instant = _EPOCH + timedelta(seconds=int(word[1:]))
        return instant.strftime("%Y-%m-%d %H:%M:%S").split(" ")

    def _read_date(self, word: str) -> None:
        match = re.fullmatch(r"(?:([^-~]+)-)?([^-~]+)([-~])([^-~]+)", word)
        if match is None:
            msg = f"{self.text!r} has {word!r} where a date or a time is expected."
            if word.isdigit():
                raise RuleError(msg, f"If it is the hour, write '{word}:00'.")
            hint = "Write a date as '*-12-24' or '*-*-01', a time as '09:00'."
            raise RuleError(msg, hint)

        self.from_end = match[3] == "~" and match[4] != "*"
        day = DAYS_FROM_END if self.from_end else DAY
        self.years = None if match[1] is None else parse_spans(match[1], YEAR)
        self.months = parse_spans(match[2], MONTH)
        self.days = parse_spans(match[4], day)

    def _read_time(self, word: str) -> None:
        parts = word.split(":")
        if len(parts) not in {2, 3}:
            msg = f"{self.text!r} has {word!r} where a time is expected."
            raise RuleError(msg, "Write '09:00' or '09:00:00'.")

        self.hours = parse_spans(parts[0], HOUR)
        self.minutes = parse_spans(parts[1], MINUTE)
        if len(parts) == 3:
            self.seconds = parse_spans(parts[2], SECOND)

    def _misplaced(self, word: str) -> RuleError:
        msg = f"{self.text!r} has {word!r} where nothing more is expected."
        hint = "The order is weekdays, date, time, zone, each once: "
        return RuleError(msg, f"{hint}'Mon..Fri *-*-* 09:00 Europe/Paris'.")

    def _make_rule(self) -> CalendarExpression:
        rule = CalendarExpression(
            text=self._normalize(),
            years=None if self.years is None else YEAR.expand(self.years),
            months=MONTH.expand(self.months),
            days=self._make_days(),
            hours=HOUR.expand(self.hours),
            minutes=MINUTE.expand(self.minutes),
            seconds=SECOND.expand(self.seconds),
            follows_clock=self.hours is None or self.minutes is None,
            zone_name=self.zone_name,
        )
        years = _CYCLE if rule.years is None else rule.years
        if not any(rule.days_in(y, m) for y in years for m in rule.months):
            msg = f"{self.text!r} is never due: it names no date that exists."
            hint = "Check day, month and weekday; '*-02~01' is the last of February."
            raise RuleError(msg, hint)

        return rule

    def _make_days(self) -> tuple[tuple[int, ...], ...]:
        weekdays = self.weekdays or (1 << _DAYS_OF_WEEK) - 1
        of_weekday = tuple(
            sum(
                1 << day
                for day in range(1, _LONGEST_MONTH + 1)
                if weekdays >> (first + day - 1) % _DAYS_OF_WEEK & 1
            )
            for first in range(_DAYS_OF_WEEK)
        )
        field_of_days = DAYS_FROM_END if self.from_end else DAY
        of_month = (
            sum(1 << day for day in field_of_days.expand(self.days, length))
            for length in range(_SHORTEST_MONTH, _LONGEST_MONTH + 1)
        )
        return tuple(tuple(days & mask for mask in of_weekday) for days in of_month)

    def _normalize(self) -> str:
        weekdays = format_weekdays(self.weekdays)
        date = format_spans(self.years, YEAR) + "-" + format_spans(self.months, MONTH)
        date += "~" if self.from_end else "-"
        date += format_spans(self.days, DAY)
        times = ((self.hours, HOUR), (self.minutes, MINUTE), (self.seconds, SECOND))
        time = ":".join(format_spans(spans, kind) for spans, kind in times)
        return " ".join(filter(None, (weekdays, date, time, self.zone_name)))


#: The weekday of the first day of a month (Monday is 0), and its number of days.
_get_month = lru_cache(maxsize=1_024)(monthrange)
