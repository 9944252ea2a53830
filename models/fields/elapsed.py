"""Spans of elapsed time in documents: hours, minutes and seconds. Pure."""

from __future__ import annotations

from datetime import timedelta

from models.errors import RuleError
from models.fields.duration import Duration
from models.fields.strict_model import show

#: The longest: what takes longer than a month is not waited for.
LONGEST_ELAPSED = timedelta(days=31)


def parse_elapsed(text: str) -> timedelta:
    """
    Read an ISO 8601 duration of hours, minutes and seconds: PT36H, never P1D.

    Days are left to those durations for which the calendar matters.

    Raises:
        RuleError: It is not such a duration, is zero, or is longer than a month.

    >>> parse_elapsed("PT90M")
    datetime.timedelta(seconds=5400)
    """
    elapsed = Duration.parse(text).rest
    if not text.startswith("PT"):
        msg = (
            f"{show(text)} has days or longer units, whose length depends on the date."
        )
        raise RuleError(msg, "Write hours, minutes and seconds: PT24H for a day.")
    if not elapsed:
        msg = f"{show(text)} is no time at all."
        raise RuleError(msg, "Write PT1M or more.")
    if elapsed > LONGEST_ELAPSED:
        msg = f"{show(text)} is more than a month."
        raise RuleError(msg, "Write at most PT744H.")
    return elapsed


def write_elapsed(seconds: int) -> str:
    """
    Return *seconds* of elapsed time: hours, never days, which the calendar counts.

    >>> write_elapsed(90), write_elapsed(259_200)
    ('PT1M30S', 'PT72H')
    """
    return str(Duration(0, 0, timedelta(seconds=seconds)))
