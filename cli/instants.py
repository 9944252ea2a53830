"""
Instants as people type them at a shell: ``now``, ``today``, ``-1h``, or in full.

Pure: the present is handed in. Days begin at midnight by the clock of this host, on
which people also see all times.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

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
    "Write now, today, yesterday, tomorrow, -1h or +2d (s, m, h, d, w), or"
    " 2026-12-01T09:00:00+01:00."
)


def parse_typed_instant(text: str, *, now: datetime) -> datetime:
    """
    Return the instant that *text* names, aware UTC.

    Args:
        text: A word, a distance from *now*, or a time with its offset.
        now: Aware.

    Raises:
        RuleError: It is none of these, or is out of range.

    >>> now = datetime(2026, 11, 23, 6, tzinfo=UTC)
    >>> parse_typed_instant("-1h", now=now).isoformat()
    '2026-11-23T05:00:00+00:00'
    """
    if text == "now":
        return now.astimezone(UTC)
    if text in _DAYS:
        local = now.astimezone().replace(tzinfo=None)
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        return (midnight + timedelta(days=_DAYS[text])).astimezone(UTC)
    match = _RELATIVE.fullmatch(text)
    if match is not None:
        return _step(text, match, now)
    if _YEAR.match(text):
        return parse_instant(text)
    msg = f"{text!r} is not a time."
    raise RuleError(msg, _find_meant(text, now))


def _step(text: str, match: re.Match[str], now: datetime) -> datetime:
    sign, number, unit = match.groups()
    distance = timedelta(**{_UNITS[unit]: int(f"{sign}{number}")})
    try:
        if unit in _NOMINAL:
            local = now.astimezone().replace(tzinfo=None)
            return (local + distance).astimezone(UTC)
        return now.astimezone(UTC) + distance
    except (OverflowError, ValueError, OSError):
        msg = f"{text!r} is too far away."
        raise RuleError(msg, _HINT) from None


def _find_meant(text: str, now: datetime) -> str:
    """Return what to write instead of *text*."""
    if _UNSIGNED.fullmatch(text):
        return f"Write -{text} for the past, or +{text}."
    today = _find_today(text, now)
    if today is not None:
        return f"For today, write {today.isoformat()}."
    # Of several words none is a typo of one: "next monday" is not today.
    is_word = len(text.split()) == 1
    near = find_near(text.casefold(), ["now", *_DAYS]) if is_word else None
    return _HINT if near is None else f"Did you mean {near}? {_HINT}"


def _find_today(text: str, now: datetime) -> datetime | None:
    """Return when this host's clock shows *text* today; None: it is not a clock's."""
    at = read_clock(text)
    if at is None:
        return None
    return datetime.combine(now.astimezone().replace(tzinfo=None), at).astimezone()
