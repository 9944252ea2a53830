"""Intervals and offsets of other schedulers, as we write them. Pure."""

from __future__ import annotations

from datetime import timedelta

from actions.importing.origins.imported import CannotBeError

_SHORTEST_S = 60
_HOUR = timedelta(hours=1)


def write_elapsed(seconds: int) -> str:
    """
    Return *seconds* of elapsed time: hours, never days, which the calendar counts.

    >>> write_elapsed(90), write_elapsed(259_200)
    ('PT1M30S', 'PT72H')
    """
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "H"), (minutes, "M"), (rest, "S"))
    return "PT" + ("".join(f"{n}{unit}" for n, unit in parts if n) or "0S")


def read_interval(seconds: float) -> int:
    """
    Return the whole seconds of an interval.

    Raises:
        CannotBeError: If it is shorter than a minute or has a fraction.
    """
    if seconds < _SHORTEST_S:
        msg = (
            f"Every {seconds:g} s is below a minute, the time between two ticks."
            " Let a task of every minute do it in a loop, or leave this entry where"
            " it is."
        )
        raise CannotBeError(msg)
    if seconds != int(seconds):
        msg = f"Every {seconds} s has a fraction of a second. Write whole seconds."
        raise CannotBeError(msg)
    return int(seconds)


def name_offset(offset: timedelta) -> str:
    """
    Return the zone whose clocks are always *offset* ahead of UTC.

    Raises:
        CannotBeError: If there is none: they exist for whole hours.

    >>> name_offset(timedelta(hours=2)), name_offset(timedelta(0))
    ('Etc/GMT-2', 'UTC')
    """
    hours, rest = divmod(offset, _HOUR)
    if rest or not -12 <= hours <= 14:
        msg = (
            f"No zone is always {offset} ahead of UTC. Give the entry a zone by name,"
            " such as Asia/Kolkata."
        )
        raise CannotBeError(msg)
    # These names count westwards, as POSIX does.
    return f"Etc/GMT{-hours:+d}" if hours else "UTC"
