"""
Instants as people type them at a shell: ``now``, ``today``, ``-1h``, or in full.

Pure: the present is handed in. Days begin at midnight by the clock of this host, on
which people also see all times.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from models.errors import RuleError
from models.fields.instants import parse_instant
from models.fields.strict_model import find_near

#: Days from the present one to the one whose midnight is meant.
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}

#: What may follow the number, and what it counts.
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

#: Of these the clock keeps its hour, also in a night that has 23 hours or 25.
_NOMINAL = frozenset({"d", "w"})

_RELATIVE = re.compile(r"([+-])(\d{1,6})([smhdw])", re.ASCII)

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
    return _parse_in_full(text)


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


def _parse_in_full(text: str) -> datetime:
    if text[:1].isdecimal():
        return parse_instant(text)
    near = find_near(text.casefold(), ["now", *_DAYS])
    meant = _HINT if near is None else f"Did you mean {near}? {_HINT}"
    msg = f"{text!r} is not a time."
    raise RuleError(msg, meant)
