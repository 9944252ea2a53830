"""
Dates and times as people write them, turned into instants. Pure.

Due dates, anchors, bounds and the times of users and events are all read here, so a
text means the same instant everywhere.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

from models.errors import RuleError
from models.fields.delay import read_clock
from models.fields.strict_model import find_near
from models.fields.zone import first_instant_at

#: Instants outside these years are refused: before them, zones are guesswork; after
#: them, adding an offset or a step could leave the range of a datetime.
FIRST_YEAR, LAST_YEAR = 1970, 9990

#: An instant with an offset, as the hints show it.
EXAMPLE = "2026-12-01T09:00:00+01:00"

#: No place on earth is further from UTC (Kiribati); more is a typo.
LARGEST_OFFSET = timedelta(hours=14)


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TEXT = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"
    r"[Tt ](?P<hour>\d{2}):(?P<minute>\d{2})"
    r"(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"(?P<offset>[Zz]|[+-]\d{2}(?::?\d{2})?)?",
    re.ASCII,
)


def parse_due_date(text: str, zone: ZoneInfo | None) -> datetime:
    """
    Return the instant of a due date.

    Args:
        text: ISO 8601, seconds optional; local time of *zone* unless it has an offset.
        zone: The zone of a *text* without an offset; None: such a text is refused.

    Returns:
        Aware UTC datetime on a whole second, between the years 1970 and 9990. A
        local time that occurs twice (autumn) means the first of the two.

    Raises:
        RuleError: If *text* cannot be read, has a fraction of a second, or is a
            local time that does not exist (spring); the hint has both neighbours.

    >>> parse_due_date("2026-12-01T09:00", ZoneInfo("Europe/Paris")).isoformat()
    '2026-12-01T08:00:00+00:00'
    """
    instant = parse_instant(text, zone)
    if instant.microsecond:
        msg = f"{text!r} has a fraction of a second; occurrences fall on whole seconds."
        raise RuleError(msg, "Write it without the fraction.")

    return instant


def format_instant(instant: datetime) -> str:
    """
    Return *instant* (aware) in the form that our JSON uses.

    >>> format_instant(datetime(2026, 11, 23, 6, tzinfo=UTC))
    '2026-11-23T06:00:00Z'
    """
    # The text of a UTC instant ends in "+00:00".
    return instant.astimezone(UTC).isoformat()[:-6] + "Z"


def parse_instant(text: str, zone: ZoneInfo | None = None) -> datetime:
    """
    Return the instant that *text* names.

    Args:
        text: ISO 8601 date and time, seconds and fraction optional.
        zone: The zone of a *text* without an offset; None: such a text is refused.

    Returns:
        Aware UTC datetime, cut to the microsecond, between the years 1970 and 9990.

    Raises:
        RuleError: As for ``parse_due_date``, except that a fraction is accepted.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise _unreadable(text, zone)

    year = int(match["year"])
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise _outside(text)

    local = _make_local(text, match)
    if match["offset"] is not None:
        instant = local.replace(tzinfo=_make_offset(text, match["offset"]))
    elif zone is None:
        msg = f"{text!r} has no UTC offset, so it does not name one instant."
        hint = f"Add the offset: '{_plain(local)}Z' or '{_plain(local)}+01:00'."
        raise RuleError(msg, hint)
    else:
        instant = _find_local(text, local, zone)

    instant = instant.astimezone(UTC)
    if not FIRST_YEAR <= instant.year <= LAST_YEAR:
        raise _outside(text)

    return instant


def parse_date(text: str) -> date:
    """
    Return the day that *text* names, ``2026-12-25``, in the years 1970 to 9990.

    Raises:
        RuleError: If it does not.
    """
    hint = "Write year, month and day: '2026-12-25'."
    if _DATE.fullmatch(text) is None:
        raise RuleError(f"{text!r} is not a date.", hint)

    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        msg = f"{text!r} is not a day of the calendar: {error}."
        raise RuleError(msg, hint) from None

    if not FIRST_YEAR <= day.year <= LAST_YEAR:
        raise _outside(text, "2026-12-25")

    return day


def _plain(local: datetime) -> str:
    return local.replace(tzinfo=None).isoformat()


def _outside(text: str, example: str = EXAMPLE) -> RuleError:
    return RuleError(
        f"{text!r} is outside the years {FIRST_YEAR} to {LAST_YEAR}.",
        f"Write one within them, such as '{example}'.",
    )


def _unreadable(text: str, zone: ZoneInfo | None) -> RuleError:
    with suppress(RuleError):
        parse_date(text)
        # Without a zone, a time without an offset would be refused next.
        whole = f"{text}T00:00:00{'Z' if zone is None else ''}"
        return RuleError(
            f"{text!r} is a date without a time of day.",
            f"Write the time too: '{whole}'.",
        )
    # Without a zone, the form without an offset would be refused next.
    local = "" if zone is None else "'2026-12-01T09:00:00' or "
    return RuleError(
        f"{text!r} is not an ISO 8601 date and time.", f"Write {local}'{EXAMPLE}'."
    )


def _make_local(text: str, match: re.Match[str]) -> datetime:
    fraction = (match["fraction"] or "").ljust(6, "0")[:6]
    try:
        return datetime(  # noqa: DTZ001 - the zone is put on by the caller
            int(match["year"]),
            int(match["month"]),
            int(match["day"]),
            int(match["hour"]),
            int(match["minute"]),
            int(match["second"] or 0),
            int(fraction),
        )
    except ValueError as error:
        hint = "Write a day of the calendar and a time from 00:00:00 to 23:59:59."
        if match["hour"] == "24":
            hint = "Midnight at the end of a day is 00:00:00 of the next one."
        raise RuleError(f"{text!r} is not a date and time: {error}.", hint) from None


def _make_offset(text: str, offset: str) -> timezone:
    if offset in {"Z", "z"}:
        return UTC

    hours = int(offset[1:3])
    minutes = int(offset[-2:]) if len(offset) > len("+01") else 0
    size = timedelta(hours=hours, minutes=minutes)
    if minutes >= 60 or size > LARGEST_OFFSET:
        msg = f"{text!r} has the UTC offset {offset}, which no place on earth has."
        raise RuleError(msg, "Write an offset between -14:00 and +14:00.")

    return timezone(-size if offset.startswith("-") else size)


def _find_local(text: str, local: datetime, zone: ZoneInfo) -> datetime:
    """Return when the clocks of *zone* first show *local*; refuse what they skip."""
    instant = first_instant_at(local, zone)
    shown = instant.astimezone(zone)
    if shown.replace(tzinfo=None) == local:
        return instant

    before = (instant - timedelta(seconds=1)).astimezone(zone)
    last, first = _plain(before), _plain(shown)
    msg = (
        f"{text!r} does not exist in {zone.key}: "
        f"the clocks go from {last} straight to {first}."
    )
    raise RuleError(msg, f"Write '{last}' or '{first}'.")


#: Days from the present one to the one whose midnight is meant.
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}

#: What may follow the number, and what it counts.
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

#: Of these the clock keeps its hour, also in a night that has 23 hours or 25.
_NOMINAL = frozenset({"d", "w"})

_RELATIVE = re.compile(r"([+-])(\d{1,6})([smhdw])", re.ASCII)

#: A distance without a sign.
_UNSIGNED = re.compile(r"\d{1,6}[smhdw]", re.ASCII)

#: How an instant in full begins.
_YEAR = re.compile(r"\d{4}-", re.ASCII)

_HINT = (
    "Write now, today, yesterday 07:00, tomorrow, 07:00, -1h or +2d (s, m, h, d, w),"
    " or 2026-12-01T09:00:00+01:00."
)


def parse_typed_instant(
    text: str, *, now: datetime, zone: ZoneInfo | None = None
) -> datetime:
    """
    Return the instant that *text* names, aware UTC.

    Args:
        text: A word, a time of day, both, a distance from *now*, or a time in full;
            with *zone* that needs no offset.
        now: Aware.
        zone: Whose clock is meant. None: this host's.

    Raises:
        RuleError: It is none of these, or is out of range.

    >>> now = datetime(2026, 11, 23, 6, tzinfo=UTC)
    >>> parse_typed_instant("-1h", now=now).isoformat()
    '2026-11-23T05:00:00+00:00'
    >>> paris = ZoneInfo("Europe/Paris")
    >>> parse_typed_instant("yesterday 7am", now=now, zone=paris).isoformat()
    '2026-11-22T06:00:00+00:00'
    """
    if text == "now":
        return now.astimezone(UTC)
    word, _, shown = text.partition(" ")
    if word not in _DAYS:
        word, shown = "today", text
    # "1h" is no hour of the day: its sign is missing.
    is_clock = text and not _UNSIGNED.fullmatch(text)
    clock = (read_clock(shown) if shown else time()) if is_clock else None
    if clock is not None:
        day = now.astimezone(zone).date() + timedelta(days=_DAYS[word])
        return _read_local(datetime.combine(day, clock), zone)
    match = _RELATIVE.fullmatch(text)
    if match is not None:
        return _step(text, match, now, zone)
    if _YEAR.match(text):
        return parse_instant(text, zone)
    raise RuleError(f"{text!r} is not a time.", _find_meant(text))


def _read_local(local: datetime, zone: ZoneInfo | None) -> datetime:
    """Return when a clock shows *local*; refuse what it never shows."""
    if zone is None:
        return local.astimezone(UTC)
    return parse_instant(local.isoformat(), zone)


def _step(
    text: str, match: re.Match[str], now: datetime, zone: ZoneInfo | None
) -> datetime:
    sign, number, unit = match.groups()
    distance = timedelta(**{_UNITS[unit]: int(f"{sign}{number}")})
    try:
        if unit in _NOMINAL:
            local = now.astimezone(zone).replace(tzinfo=None) + distance
            return local.replace(tzinfo=zone).astimezone(UTC)
        return now.astimezone(UTC) + distance
    except (OverflowError, ValueError, OSError):
        raise RuleError(f"{text!r} is too far away.", _HINT) from None


def _find_meant(text: str) -> str:
    """Return what to write instead of *text*."""
    if _UNSIGNED.fullmatch(text):
        return f"Write -{text} for the past, or +{text}."
    # Of several words none is a typo of one: "next monday" is not today.
    is_word = len(text.split()) == 1
    near = find_near(text.casefold(), ["now", *_DAYS]) if is_word else None
    return _HINT if near is None else f"Did you mean {near}? {_HINT}"
