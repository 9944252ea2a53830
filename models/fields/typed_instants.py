"""
Instants as people type them: ``now``, ``yesterday 07:00``, ``-1h``, or in full.

Pure: the present is handed in. Days begin at midnight by the clock of a zone; at a
shell it is this host's, by which people also see all times there.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from models.errors import RuleError
from models.fields.delay import read_clock
from models.fields.instants import parse_instant
from models.fields.strict_model import find_near

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
    msg = f"{text!r} is not a time."
    raise RuleError(msg, _find_meant(text))


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
        msg = f"{text!r} is too far away."
        raise RuleError(msg, _HINT) from None


def _find_meant(text: str) -> str:
    """Return what to write instead of *text*."""
    if _UNSIGNED.fullmatch(text):
        return f"Write -{text} for the past, or +{text}."
    # Of several words none is a typo of one: "next monday" is not today.
    is_word = len(text.split()) == 1
    near = find_near(text.casefold(), ["now", *_DAYS]) if is_word else None
    return _HINT if near is None else f"Did you mean {near}? {_HINT}"
