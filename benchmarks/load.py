"""
What every scheduler is asked for, so that all are asked for the same.

*registered* schedules, of which every so many is due at one instant; the others an
hour or so away. Nine in ten go to the queue "quick", one in ten to "heavy".
"""

from __future__ import annotations

from datetime import datetime, timedelta

TASK = "benchmarks.nothing"
QUEUES = ("quick", "heavy")

#: Half an hour away from any instant that is measured.
_AWAY = timedelta(minutes=30)


def is_due(number: int, registered: int, due: int) -> bool:
    """Tell whether schedule *number* of *registered* is one of the *due*."""
    return number * due // registered < (number + 1) * due // registered


def queue_of(number: int) -> str:
    """Return the queue of schedule *number*."""
    return QUEUES[number % 10 == 9]


def minutes_of(number: int, registered: int, due: int, now: datetime) -> str:
    """Return the minute field of the cron rule of schedule *number*."""
    if is_due(number, registered, due):
        return "*"
    return str((now + _AWAY).minute)


def arguments_of(number: int) -> dict[str, object]:
    """Return the keyword arguments of the task: some 200 bytes of JSON."""
    return {
        "report": f"report {number}",
        "recipients": [f"user-{number}@example.org", "everybody@example.org"],
        "text": "The quick brown fox jumps over the lazy dog. " * 2,
    }
