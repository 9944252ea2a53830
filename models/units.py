"""Lengths of time, instants and sizes in words, for messages and findings. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from zoneinfo import ZoneInfo

_Word = TypeVar("_Word", bound=str)

#: What a terminal obeys instead of showing it, but for line ends and tabs.
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def format_age(age: timedelta) -> str:
    """
    Return a length of time roughly, in its two largest units.

    >>> format_age(timedelta(seconds=3725))
    '1 h 2 min'
    """
    seconds = max(0, round(age.total_seconds()))
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    parts: list[str] = []
    for unit, size in units:
        if seconds >= size or (unit == "s" and not parts):
            parts.append(f"{seconds // size} {unit}")
            seconds %= size
    return " ".join(parts[:2])


def format_seconds(seconds: float | None) -> str:
    """
    Return the same of *seconds*; a dash if there are none to tell.

    >>> format_seconds(61), format_seconds(None)
    ('1 min 1 s', '-')
    """
    return "-" if seconds is None else format_age(timedelta(seconds=seconds))


def show_instant(instant: datetime, zone: ZoneInfo | None = None) -> str:
    """
    Return *instant* (aware) to the second: what the clocks of *zone* show, and UTC.

    >>> at = datetime(2026, 10, 20, 0, 30, tzinfo=UTC)
    >>> show_instant(at, ZoneInfo("Europe/Paris"))
    '2026-10-20 02:30:00 +02:00 (00:30:00Z)'
    >>> show_instant(at, ZoneInfo("America/New_York"))
    '2026-10-19 20:30:00 -04:00 (2026-10-20 00:30:00Z)'
    >>> show_instant(at)
    '2026-10-20 00:30:00Z'
    """
    utc = instant.astimezone(UTC)
    if zone is None or zone.key == "UTC":
        return f"{utc:%F %T}Z"
    local = instant.astimezone(zone)
    day = "" if utc.date() == local.date() else f"{utc:%F} "
    offset = local.isoformat()[-6:]
    return f"{local:%F %T} {offset} ({day}{utc:%T}Z)"


def format_count(number: int, one: str, many: str) -> str:
    """
    Return *number* with its noun, and its verb.

    >>> format_count(1, "mail is", "mails are"), format_count(1200, "mail", "mails")
    ('1 mail is', '1,200 mails')
    """
    return f"{number:,} {one if number == 1 else many}"


def list_counts(counts: Mapping[_Word, int]) -> str:
    """
    Return how many there are of what.

    >>> list_counts({"failed": 1200, "missed": 1})
    '1,200 failed, 1 missed'
    """
    return ", ".join(f"{count:,} {word}" for word, count in counts.items())


def format_bytes(size: int) -> str:
    """
    Return *size* (bytes) with a unit.

    >>> format_bytes(3 * 1024**3 // 2), format_bytes(4 << 30), format_bytes(12)
    ('1.5 GiB', '4 GiB', '12 B')
    """
    amount, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{f'{amount:.1f}'.removesuffix('.0')} {unit}"


def capitalize(sentence: str) -> str:
    """Return *sentence* with a capital letter, the rest as it is."""
    return sentence[:1].upper() + sentence[1:]
