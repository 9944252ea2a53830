"""Lengths of time, instants and sizes in words, for messages and findings. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


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


def show_instant(instant: datetime) -> str:
    """
    Return *instant* (aware) to the second, in UTC.

    >>> show_instant(datetime(2026, 11, 23, 6, tzinfo=UTC))
    '2026-11-23 06:00:00Z'
    """
    return f"{instant.astimezone(UTC):%F %T}Z"


def format_bytes(size: int) -> str:
    """
    Return *size* (bytes) with a unit.

    >>> format_bytes(3 * 1024**3 // 2)
    '1.5 GiB'
    """
    amount, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
