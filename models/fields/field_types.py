"""
The kinds of text that documents are made of, checked: names, zones, days. Pure.

A checker takes a str, and raises RuleError.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from models.errors import RuleError
from models.fields.instants import parse_date, parse_instant
from models.fields.strict_model import Most, find_near, show
from models.fields.zone import load_zone

#: The longest note, in characters: some sentences.
LONGEST_NOTE = 1000

#: Monday is 0, as ``date.weekday`` counts, and January is 0.
DAYS_OF_WEEK = (
    *("Monday", "Tuesday", "Wednesday", "Thursday"),
    *("Friday", "Saturday", "Sunday"),
)
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)

#: Days of the week as they are stored and shown in lists.
WEEKDAYS = tuple(name[:3] for name in DAYS_OF_WEEK)

#: As people may write them, in any case.
_BY_NAME = {
    name.casefold(): short
    for names in (WEEKDAYS, DAYS_OF_WEEK)
    for name, short in zip(names, WEEKDAYS, strict=True)
}
DAY_NAMES = tuple(_BY_NAME)


def read_weekday(text: str) -> str:
    """
    Return the short name of the weekday that *text* names, whole or short, in any case.

    Raises:
        RuleError: If it is none. Numbers are refused, since schedulers count weekdays
            from different days; so are ranges, since a list can be read at a glance.

    >>> read_weekday("SATURDAY")
    'Sat'
    """
    name = _BY_NAME.get(text.strip().casefold())
    if name is not None:
        return name

    msg = f"{show(text)} is not a weekday."
    if ".." in text or "-" in text:
        msg = f"{show(text)} is not one weekday."
        raise RuleError(msg, 'List each day: ["Sat", "Sun"].')
    near = find_near(text, _BY_NAME)
    meant = "" if near is None else f"Did you mean '{_BY_NAME[near.casefold()]}'? "
    raise RuleError(msg, f"{meant}Write one of: {', '.join(WEEKDAYS)}.")


#: Characters. Rules, dates and durations are never longer, so parsers get no more.
LONGEST_RULE = 500

#: Characters of a name that people give to something.
LONGEST_NAME = 200

#: Users and groups in one list; for more people, use a group.
MOST_NAMES = 10_000

#: Bytes of the name of a queue; AMQP has no room for more.
LONGEST_QUEUE = 255

#: Embeddings, overrides and isolates of Unicode's bidirectional algorithm.
_TURNING = frozenset(["LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"])

_Parsed = TypeVar("_Parsed")


def check_name(text: str) -> str:
    """Return *text* without surrounding space; refuse what a list could not show."""
    name = text.strip()
    if not name:
        msg = f"{show(text)} is empty."
        raise RuleError(msg, "Write a name of 1 to 200 characters.")
    return check_note(name)


def check_note(text: str) -> str:
    """Refuse what a terminal or a list could not show."""
    # Of what is printable nothing is refused, and a look at all of it costs nothing.
    for character in "" if text.isprintable() else text:
        # Cc are control characters, Cs halves of one; Zl and Zp break lines. Of others,
        # some turn the direction of all that follows, so that a name is read as
        # another one.
        kind = unicodedata.category(character), unicodedata.bidirectional(character)
        if kind[0] in {"Cc", "Cs", "Zl", "Zp"} or kind[1] in _TURNING:
            msg = f"{show(text)} contains the control character {character!r}."
            raise RuleError(msg, "Write it on one line, without tabs and the like.")

    return text


def demand(pattern: str, what: str, hint: str) -> AfterValidator:
    """Return a validator that refuses what does not have the form *pattern*."""
    form = re.compile(pattern, re.ASCII)

    def check(text: str) -> str:
        if form.fullmatch(text) is None:
            raise RuleError(f"{show(text)} is not {what}.", hint)
        return text

    return AfterValidator(check)


def read_day(value: object) -> date:
    """Return the day that *value* is or names; refuse one with a time of day."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        msg = f"{show(value)} is not a date."
        raise RuleError(msg, 'Write a date in quotes: "2026-12-25".')

    return parse_date(value)


def read_instant(value: object) -> datetime:
    """Return the instant that *value* is or names, in UTC; it must have an offset."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if not isinstance(value, str):
        msg = f"{show(value)} is not a date and time."
        raise RuleError(msg, 'Write it in quotes: "2026-12-01T09:00:00+01:00".')

    return parse_instant(value)


def check_queue(text: str) -> str:
    """Refuse a name that a queue of RabbitMQ could not have."""
    name = check_name(text)
    if len(name.encode()) > LONGEST_QUEUE:
        msg = f"{show(text)} takes more than {LONGEST_QUEUE} bytes."
        raise RuleError(msg, "Write a shorter name.")

    return name


def parsed_by(parse: Callable[[str], _Parsed]) -> AfterValidator:
    """Return a validator that keeps the text as it is if *parse* can read it."""

    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


def drop_repeated(names: tuple[str, ...]) -> tuple[str, ...]:
    """Keep each name once, where it came first."""
    return tuple(dict.fromkeys(names))


#: Unchecked text, but never longer than a parser should be given.
RuleText = Annotated[str, Field(max_length=LONGEST_RULE)]

Name = Annotated[str, Field(max_length=LONGEST_NAME), AfterValidator(check_name)]
QueueName = Annotated[str, Field(max_length=200), AfterValidator(check_queue)]
_UID = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}"
#: Can be part of a URL, a log line or the text of an id.
Uid = Annotated[
    RuleText,
    demand(
        _UID,
        "a uid",
        "Write 1 to 128 letters, digits, '.', '_', ':' or '-', "
        "beginning with a letter or digit.",
    ),
]
#: In a setting: one small app, or all of them.
AppOrAll = Annotated[
    RuleText,
    demand(rf"\*|{_UID}", "the uid of a small app", "Write one, or '*' for all."),
]
#: One that the tz database has.
ZoneName = Annotated[RuleText, parsed_by(load_zone)]
#: Could be the name of a file.
DomainName = Annotated[
    RuleText,
    demand(
        r"(?![. ])[^\x00-\x1f\x7f/\\]{1,100}(?<![. ])",
        "a domain name",
        "Write 1 to 100 characters without '/' or '\\', "
        "with no dot or space at either end.",
    ),
]
#: A user is named by id or mail address, which may have 320 characters.
UserName = Annotated[str, Field(max_length=320), AfterValidator(check_name)]
Names = Annotated[tuple[Name, ...], Most(MOST_NAMES), AfterValidator(drop_repeated)]
UserNames = Annotated[
    tuple[UserName, ...], Most(MOST_NAMES), AfterValidator(drop_repeated)
]
Day = Annotated[
    date, PlainValidator(read_day), WithJsonSchema({"type": "string", "format": "date"})
]
#: Why somebody does something, in their words.
Note = Annotated[
    str, Field(min_length=1, max_length=LONGEST_NOTE), AfterValidator(check_note)
]
Instant = Annotated[
    datetime,
    PlainValidator(read_instant),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
