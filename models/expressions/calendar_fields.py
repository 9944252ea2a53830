"""
The fields of a calendar expression: numbers, ranges, steps and weekdays. Pure.

Reads, checks and writes as systemd 252 does (src/shared/calendarspec.c).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from models.errors import RuleError
from models.fields.field_types import DAY_NAMES, WEEKDAYS

_MICROSECONDS = 1_000_000

#: Two-digit years below this are in this century, the others in the last one.
_CENTURY_SPLIT = 70

_NUMBER = r"([0-9]{1,18}(?:\.[0-9]{1,6})?)"
_SPAN = re.compile(rf"{_NUMBER}(?:\.\.{_NUMBER})?(?:/{_NUMBER})?")


@dataclass(frozen=True, slots=True, order=True)
class NumberSpan:
    """
    Some numbers of a field: from *start* to *stop* in steps of *repeat*.

    Args:
        start: The first number.
        stop: The last number that may match; -1: the end of the field.
        repeat: The step; 0: *start* alone.
    """

    start: int
    stop: int = -1
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class CalendarField:
    """
    What a field may hold.

    Args:
        name: What messages call it.
        first: The least number.
        last: The greatest number, at which a repetition without an end stops.
        width: Digits in the normalized form.
    """

    name: str
    first: int
    last: int
    width: int = 2

    @property
    def plural(self) -> str:
        """The name of several: "hours", "days before the end of the month"."""
        return re.sub(r"^\w+", r"\g<0>s", self.name)

    def expand(
        self, spans: tuple[NumberSpan, ...] | None, last: int | None = None
    ) -> tuple[int, ...]:
        """
        Return the numbers that *spans* match, ascending.

        Args:
            spans: None is every number.
            last: The end of the field, if not its own: the length of a month, for days.
        """
        end = self.last if last is None else last
        if spans is None:
            return tuple(range(self.first, end + 1))

        numbers: set[int] = set()
        for span in spans:
            start, stop = span.start, span.stop
            if self is DAYS_FROM_END:
                # Days are counted from the last one, so the range is reversed.
                start = end + 1 - start
                if stop >= 0:
                    start, stop = end + 1 - stop, start
            if span.repeat == 0:
                stop = start
            elif stop < 0:
                stop = end
            numbers.update(range(start, min(stop, end) + 1, span.repeat or 1))

        return tuple(sorted(numbers))


YEAR = CalendarField("year", 1970, 2199, width=4)
MONTH = CalendarField("month", 1, 12)
DAY = CalendarField("day", 1, 31)
#: Every month has 28 days, so these exist in all of them.
DAYS_FROM_END = CalendarField("day before the end of the month", 1, 28)
HOUR = CalendarField("hour", 0, 23)
MINUTE = CalendarField("minute", 0, 59)
SECOND = CalendarField("second", 0, 59)


def parse_spans(text: str, field: CalendarField) -> tuple[NumberSpan, ...] | None:
    """
    Read one field of a rule.

    Args:
        text: Such as "*", "1,15" or "0..30/10".
        field: What it may hold.

    Returns:
        Sorted, without repetitions, each stop a number that matches; None for ``*``,
        which is every number.

    Raises:
        RuleError: If *text* cannot be read, is out of the bounds of *field*, or is
            finer than a second.
    """
    if text == "*":
        return None

    spans = tuple(sorted({_parse_span(part, field) for part in text.split(",")}))
    # systemd, too, writes these seconds as "*".
    every = field is SECOND and spans == (NumberSpan(0, repeat=1),)
    return None if every else spans


def _parse_span(text: str, field: CalendarField) -> NumberSpan:
    match = _SPAN.fullmatch(text)
    if match is None or (field is not SECOND and re.search(r"[0-9]\.[0-9]", text)):
        raise _unreadable(text, field)

    start, stop, repeat = (
        _parse_number(number, field) if number else None for number in match.groups()
    )
    # Seconds are counted in microseconds until the range is cut to whole steps.
    unit = _MICROSECONDS if field is SECOND else 1
    assert start is not None  # the pattern demands it
    if repeat == 0:
        msg = f"{text!r} has step 0 for the {field.name}; a step is 1 or more."
        raise RuleError(msg, "Write the step after the '/', such as '0/5'.")
    if repeat is None:
        repeat = 0 if stop is None else unit
        if stop is not None and field is SECOND and start <= stop < start + unit:
            msg = f"{text!r} is a range of less than a second."
            raise RuleError(msg, f"Write '{start // unit}' alone.")

    if field is YEAR:
        start = _widen_year(start)
        stop = None if stop is None else _widen_year(stop)

    if stop is not None and stop > start:
        stop -= (stop - start) % repeat
    if stop == start:
        stop, repeat = None, 0

    _check_bounds(text, field, (start, stop, repeat), unit)
    if start % unit or repeat % unit:
        msg = f"{text!r} is finer than a second; occurrences fall on whole seconds."
        raise RuleError(msg, "Write seconds without a fraction.")

    return NumberSpan(
        start // unit, -1 if stop is None else stop // unit, repeat // unit
    )


def _parse_number(number: str, field: CalendarField) -> int:
    if field is not SECOND:
        return int(number)

    whole, _, fraction = number.partition(".")
    return int(whole) * _MICROSECONDS + int(fraction.ljust(6, "0"))


def _widen_year(year: int) -> int:
    if year < _CENTURY_SPLIT:
        return 2000 + year
    return 1900 + year if year < 100 else year


def _check_bounds(
    text: str, field: CalendarField, span: tuple[int, int | None, int], unit: int
) -> None:
    """Refuse numbers that are out of bounds, and steps that are too large."""
    start, stop, repeat = span
    first, last = field.first * unit, (field.last + 1) * unit - 1
    for number in (start, stop):
        if number is not None and not first <= number <= last:
            msg = f"{text!r} has {field.name} {number // unit}; "
            msg += f"{field.plural} go from {field.first} to {field.last}."
            raise RuleError(msg, "Write a number within these bounds.")

    if stop is not None and stop < start:
        msg = f"{text!r} is a range that ends before it starts."
        hint = f"Ranges do not wrap around; write '{start // unit}..{field.last},"
        hint += f"{field.first}..{stop // unit}'."
        raise RuleError(msg, hint)

    counts_down = field is DAYS_FROM_END and stop is None
    reach = start - repeat if counts_down else start + repeat
    if repeat and not first <= reach <= last:
        msg = f"{text!r} has a step that is too large for the {field.name}."
        raise RuleError(msg, f"Write a smaller step, or '{start // unit}' alone.")


def _unreadable(text: str, field: CalendarField) -> RuleError:
    msg = f"{text!r} is not a valid {field.name}."
    if re.fullmatch(r"\*/[0-9]+", text):
        return RuleError(msg, f"Write '{field.first}{text[1:]}' to repeat.")
    if re.fullmatch(r"[0-9]+-[0-9]+", text):
        return RuleError(msg, f"Write the range as '{text.replace('-', '..')}'.")

    return RuleError(msg, "Write '*', '5', '1,15', '0..30' or '0/10'.")


def format_spans(spans: tuple[NumberSpan, ...] | None, field: CalendarField) -> str:
    """Return the normalized form of *spans*; ``*`` for None."""
    if spans is None:
        return "*"

    return ",".join(_format_span(span, field.width) for span in spans)


def _format_span(span: NumberSpan, width: int) -> str:
    text = f"{span.start:0{width}}"
    if span.stop >= 0:
        text += f"..{span.stop:0{width}}"
    # A range steps by one unless it says otherwise.
    if span.repeat and not (span.stop > 0 and span.repeat == 1):
        text += f"/{span.repeat}"
    return text


#: A set of weekdays is kept as bits: Monday is bit 0.
_NUMBERS = {name: number % len(WEEKDAYS) for number, name in enumerate(DAY_NAMES)}
EVERY_DAY = (1 << len(WEEKDAYS)) - 1

_HINT = "Write weekdays as 'Mon,Wed' or 'Mon..Fri'."


def names_weekday(word: str) -> bool:
    """Tell whether *word* begins like a list of weekdays."""
    return re.split(r"[,.-]", word, maxsplit=1)[0].lower() in _NUMBERS


def parse_weekdays(word: str, text: str) -> int:
    """
    Read a list of weekdays and ranges of them.

    Args:
        word: Such as "Mon..Wed,Fri"; one comma at the end is allowed, as in systemd.
        text: The whole rule, which errors quote.

    Returns:
        A bit for each weekday; 0 if all are named, which is the same as none.

    Raises:
        RuleError: If *word* is not such a list, or a range runs past Sunday.
    """
    weekdays = 0
    for item in word.removesuffix(",").split(","):
        # The hyphen is systemd's older spelling of a range.
        names = re.split(r"\.\.|-", item.lower(), maxsplit=1)
        for name in names:
            if name not in _NUMBERS:
                msg = f"{text!r} has {item!r} where a weekday is expected."
                raise RuleError(msg, _HINT)

        first, last = _NUMBERS[names[0]], _NUMBERS[names[-1]]
        if last < first:
            listed = ",".join((WEEKDAYS * 2)[first : last + 1 + len(WEEKDAYS)])
            msg = f"{text!r} has the weekdays {item!r}, which run past Sunday."
            raise RuleError(msg, f"Weeks start on Monday here; write '{listed}'.")

        weekdays |= (2 << last) - (1 << first)

    return 0 if weekdays == EVERY_DAY else weekdays


def format_weekdays(weekdays: int) -> str:
    """Return the shortest list, with ranges of three days or more; "" for 0."""
    runs = re.finditer("1+", f"{weekdays:07b}"[::-1])
    return ",".join(
        WEEKDAYS[run.start()]
        + ("" if len(run[0]) == 1 else ".." if len(run[0]) > 2 else ",")
        + (WEEKDAYS[run.end() - 1] if len(run[0]) > 1 else "")
        for run in runs
    )
