"""Intervals of other schedulers as ISO 8601 durations. Pure."""

from __future__ import annotations

from actions.importing.origins.imported import CannotBeError

_SHORTEST_S = 60
_DAY_S = 86_400


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
