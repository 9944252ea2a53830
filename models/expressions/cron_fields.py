"""
The text of a cron expression: five fields, read and checked. Pure.

The dialect is Debian's cron with ``L``, ``LW`` and ``#``: a subset of what cronsim
reads, with the same meaning. What can only be a mistake is refused with a hint, so that
no rule fails, or is never due, at tick time.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import NoReturn

from models.errors import RuleError

#: One thing that a field asks for: a number; or, in the day fields, what depends on
#: the month: LAST_DAY, LAST_WORKDAY, or a weekday (Sunday is 0) and its number in the
#: month (LAST_WEEK for the last).
Value = int | str | tuple[int, int]

LAST_DAY = "L"
LAST_WORKDAY = "LW"
LAST_WEEK = 0

#: Characters; a rule that lists every value of every field has some 600.
_LONGEST_RULE = 1000

#: Characters of a rule that a message quotes.
_QUOTED = 60

_WEEK = 7

#: The largest step that a hint repeats; so many months are a duration, too.
_LARGEST_STEP = 1000

_EXAMPLE = "Write minute, hour, day of month, month and day of week: '0 7 * * 1'."


@dataclass(frozen=True, slots=True)
class CronField:
    """
    One of the five fields: what its values are called, and their bounds.

    Args:
        every: The duration of that many of them.
    """

    name: str
    plural: str
    low: int
    high: int
    every: str
    names: tuple[str, ...] = ()
    named_from: int = 0

    @property
    def count(self) -> int:
        """How many different values there are; Sunday is both 0 and 7."""
        return self.high - self.low + (0 if self.name == "day of the week" else 1)

    def spell_wrapped(self, first: int, last: int) -> str:
        """Return a range that runs backwards as two."""
        top = self.low + self.count - 1
        tail = f"{first}-{top}" if first < top else f"{first}"
        head = f"{self.low}-{last}" if last > self.low else f"{last}"
        return f"{tail},{head}"


_MONTHS = (
    *("JAN", "FEB", "MAR", "APR", "MAY", "JUN"),
    *("JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
)
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

_MINUTE = CronField("minute", "minutes", 0, 59, "PT{}M")
_HOUR = CronField("hour", "hours", 0, 23, "PT{}H")
_DAY = CronField("day of the month", "days of the month", 1, 31, "P{}D")
_MONTH = CronField("month", "months", 1, 12, "P{}M", _MONTHS, 1)
_WEEKDAY = CronField("day of the week", "days of the week", 0, 7, "P{}D", _WEEKDAYS)
FIELDS = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)

#: Source: crontab(5). @hourly is the one that follows the clock.
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_TERM = re.compile(
    r"(?P<first>\*|[0-9]+|[A-Z]{3})(?:-(?P<last>[0-9]+|[A-Z]{3}))?(?:/(?P<step>[0-9]+))?"
)
_NTH_WEEKDAY = re.compile(r"(?P<weekday>[0-9]+|[A-Z]{3})#(?P<nth>[0-9]+)")
_LAST_OF_WEEKDAY = re.compile(r"(?P<weekday>[0-9]+)L")


_SPREAD = "Write a number, and jitter beside the rule to spread the load."

_WEEKEND = (
    "Write a day, or LW for the last working day of the month; 'except' and 'instead' "
    "of the action move what falls on a weekend."
)

#: Terms of other dialects: their field if not any, how they begin, why they are
#: refused, and what to write instead.
_UNKNOWN = (
    (None, r"\?", "cron has no '?'.", "Write '*'."),
    (None, r"H(\(|/|$)", "cron has no 'H'.", _SPREAD),
    (None, r".*~|R(\(|/|$)", "a random time would be different at each tick.", _SPREAD),
    (
        *(_DAY, r"([0-9]+W|W[0-9]*)$", "the nearest working day is not supported."),
        _WEEKEND,
    ),
    (
        *(_DAY, "L", "only calendar rules count days from the end of a month."),
        'Write L or LW, or use {"calendar": "*-*~03 07:00"}.',
    ),
    (
        *(_WEEKDAY, rf"L|({'|'.join(_WEEKDAYS)})L$"),
        "the last weekday of a month needs its number.",
        "Write 5L for the last Friday of the month.",
    ),
)


@dataclass(frozen=True, slots=True)
class CronFields:
    """
    The five fields of a rule, as read.

    Args:
        words: The text of each field, in capitals, with numbers for names.
        values: What each field asks for; the day of the week is never 7.
    """

    words: tuple[str, ...]
    values: tuple[frozenset[Value], ...]


def parse_fields(text: str) -> CronFields:
    """
    Return the five fields of *text*, with macros spelled out.

    Raises:
        RuleError: If it is not a cron rule.
    """
    return _Parser(text).parse()


def quote(text: str) -> str:
    """Return *text* as messages show it: quoted, and cut to a readable length."""
    return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}...")


class _Parser:
    """Parses one rule, which every refusal quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def refuse(self, what: str, hint: str = "") -> NoReturn:
        raise RuleError(f"{quote(self.text)} {what}", hint)

    def parse(self) -> CronFields:
        words = self.split()
        values = tuple(map(self.parse_field, words, FIELDS))
        return CronFields(tuple(map(_canonical_field, words, FIELDS)), values)

    def split(self) -> list[str]:
        """Return the five fields in capitals, with macros spelled out."""
        if len(self.text) > _LONGEST_RULE:
            self.refuse(
                f"is too long: {len(self.text)} characters.",
                f"Write at most {_LONGEST_RULE} characters, with ranges and steps.",
            )
        for character in self.text:
            if not (" " <= character <= "~" or character == "\t"):
                self.refuse(
                    f"has the character {character!a}.",
                    "Rules are plain text: digits, English names, * , - / # and L.",
                )

        words = self.text.split()
        if not words:
            self.refuse("is empty.", _EXAMPLE)
        if words[0].startswith("@"):
            words = self.expand(words)
        if "TZ=" in words[0].upper():
            self.refuse(
                "sets a time zone inside the rule.",
                "Write the zone into the field timezone, beside the rule.",
            )
        if len(words) != len(FIELDS):
            self.refuse_count(words)
        return [word.upper() for word in words]

    def expand(self, words: list[str]) -> list[str]:
        """Spell out a macro."""
        macro = words[0].lower()
        if macro not in MACROS:
            self.refuse_macro(macro)
        if len(words) > 1:
            self.refuse(
                f"has more than {macro} in it.", f"Write {macro} alone, or five fields."
            )
        return MACROS[macro].split()

    def refuse_macro(self, macro: str) -> NoReturn:
        if macro == "@reboot":
            self.refuse(
                "is due when a machine starts, which is not a time.",
                "Write a time, such as '@daily'.",
            )
        if macro.startswith("@every"):
            self.refuse(
                "is not a cron rule.", 'Write an interval, such as {"every": "PT1M"}.'
            )
        near = difflib.get_close_matches(macro, MACROS, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(MACROS)}."
        self.refuse("is not a macro of cron.", hint)

    def refuse_count(self, words: list[str]) -> NoReturn:
        count = len(words)
        what = f"has {count} field{'' if count == 1 else 's'}; a cron rule has five."
        if count < len(FIELDS):
            self.refuse(what, _EXAMPLE)
        self.refuse(what, "Leave out seconds, years, user and command.")

    def parse_field(self, part: str, spec: CronField) -> frozenset[Value]:
        """Return the values of a field: numbers, and marks of the day fields."""
        values: set[Value] = set()
        for term in part.split(","):
            if not term:
                self.refuse(
                    f"has an empty {spec.name} in {part!r}.",
                    "Write a comma only between two values.",
                )
            values |= self.parse_term(term, spec)
        return frozenset(values)

    def parse_term(self, term: str, spec: CronField) -> set[Value]:
        if spec is _DAY and term in {LAST_DAY, LAST_WORKDAY}:
            return {term}

        if spec is _WEEKDAY and (match := _NTH_WEEKDAY.fullmatch(term)):
            weekday = self.parse_value(match["weekday"], spec) % _WEEK
            nth = int(match["nth"])
            if not 1 <= nth <= 5:
                self.refuse(
                    f"has {spec.name} number {nth} of a month; numbers go from 1 to 5.",
                    f"Write '{weekday}#1' to '{weekday}#5', or '{weekday}L'.",
                )
            return {(weekday, nth)}

        if spec is _WEEKDAY and (match := _LAST_OF_WEEKDAY.fullmatch(term)):
            return {(self.parse_value(match["weekday"], spec) % _WEEK, LAST_WEEK)}

        match = _TERM.fullmatch(term)
        if not match or (match["first"] == "*" and match["last"]):
            self.refuse_term(term, spec)

        first, last = self.parse_range(match, spec)
        step = self.parse_step(match["step"], first, spec)
        if first == last and match["last"] and match["step"]:
            # Debian's cron reads "2-2/3" as 2, others as "2/3".
            self.refuse(
                f"has {term!r} as {spec.name}: a range of one value has no steps.",
                f"Write {first}, or {first}/{step} for every step from there on.",
            )
        numbers = range(first, last + 1)[::step]
        if spec is _WEEKDAY:
            return {number % _WEEK for number in numbers}
        return set(numbers)

    def parse_range(self, match: re.Match[str], spec: CronField) -> tuple[int, int]:
        """Return first and last value of a term, before its step."""
        if match["first"] == "*":
            return spec.low, spec.high

        first = self.parse_value(match["first"], spec)
        if not match["last"]:
            # "5/15" is "from 5 on in steps of 15".
            return first, spec.high if match["step"] else first

        last = self.parse_value(match["last"], spec)
        if last < first:
            self.refuse(
                f"has the {spec.plural} {match['first']}-{match['last']}, "
                "a range that runs backwards.",
                "To wrap around with a step, list the values."
                if match["step"]
                else f"To wrap around, write {spec.spell_wrapped(first, last)}.",
            )
        return first, last

    def parse_step(self, digits: str | None, first: int, spec: CronField) -> int:
        if digits is None:
            return 1

        step = int(digits)
        if step == 0:
            self.refuse(
                f"has step 0 for {spec.plural}; a step is 1 or more.",
                "Write a single value, or a step such as '*/5'.",
            )
        if step > spec.count:
            # "*/90" would mean minute 0 of each hour, which is not what anybody means.
            even = spec.every.format(step if step <= _LARGEST_STEP else 90)
            midnight = " (midnight)" if spec is _HOUR and first == 0 else ""
            self.refuse(
                f"has step {step} for {spec.plural}, of which there are {spec.count}.",
                "A step starts again with each hour, day, month or year, so this is"
                f" {spec.name} {first}{midnight} alone: write {first}; for even steps"
                f' use an interval: {{"every": "{even}"}}.',
            )
        return step

    def parse_value(self, word: str, spec: CronField) -> int:
        """Return the number or name *word*."""
        if not word.isdecimal():
            if word in spec.names:
                return spec.names.index(word) + spec.named_from
            self.refuse_term(word, spec)

        value = int(word)
        if not spec.low <= value <= spec.high:
            hint = f"Write a number from {spec.low} to {spec.high}."
            if spec is _HOUR and value == spec.high + 1:
                hint = "Midnight is hour 0."
            number = word.lstrip("0") or "0"
            self.refuse(
                f"has {spec.name} {number}; {spec.plural} "
                f"go from {spec.low} to {spec.high}.",
                hint,
            )
        return value

    def refuse_term(self, term: str, spec: CronField) -> NoReturn:
        """Say why *term* is not a value of its field, as precisely as possible."""
        what = f"has {term!r} as {spec.name}"
        for field, pattern, why, hint in _UNKNOWN:
            if field in {None, spec} and re.match(pattern, term):
                self.refuse(f"{what}; {why}", hint)
        if spec.names:
            self.refuse_name(term, spec, what)
        self.refuse(
            f"{what}, which is not a number.",
            f"{spec.plural.capitalize()} go from {spec.low} to {spec.high}; "
            "write *, lists 1,2, ranges 1-5 and steps */5.",
        )

    def refuse_name(self, term: str, spec: CronField, what: str) -> NoReturn:
        near = difflib.get_close_matches(term[:3], spec.names, n=1)
        known = f"{spec.names[0]} to {spec.names[-1]} or {spec.low} to {spec.high}"
        hint = f"Did you mean {near[0]}? " if near and term.isalpha() else ""
        self.refuse(
            f"{what}, which is neither a number nor a name.",
            f"{hint}{spec.plural.capitalize()} are {known}.",
        )


def _canonical_field(part: str, spec: CronField) -> str:
    """Write numbers for names and drop leading zeros; the meaning stays the same."""

    def number(match: re.Match[str]) -> str:
        word = match[0]
        if word in spec.names:
            return str(spec.names.index(word) + spec.named_from)
        return str(int(word)) if word.isdecimal() else word

    return re.sub(r"[0-9]+|[A-Z]{3}", number, part)
