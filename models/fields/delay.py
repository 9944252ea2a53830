"""
What lies between an event and its occurrence: a duration, then a time of day. Pure.

The columns that ticks read have it as one text, ``P30D 09:00``; without the time it is
the duration as its author wrote it, and without the duration, the time alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import time, timedelta

from models.errors import RuleError
from models.fields.duration import Duration

#: No calendar month is longer.
LONGEST_MONTH = timedelta(days=31)

#: The distance between the extreme UTC offsets of the time zone database, -12:00 and
#: +14:00: no local calendar strays further from elapsed time.
OFFSET_SPREAD = timedelta(hours=26)

#: The next 09:00 is a day away, or two if a zone leaves that day out, and the clocks
#: may go back meanwhile.
LONGEST_WAIT = timedelta(days=3)

_NOTHING = Duration(0, 0, timedelta())
_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]", re.ASCII)
_SHOWN = re.compile(
    r"([0-9]{1,2})(?:[:.h]?([0-9]{2})(?::([0-9]{2}))?|h)? *([ap]m)?",
    re.ASCII | re.IGNORECASE,
)
_NOON = 12


@dataclass(frozen=True, slots=True)
class Delay:
    """
    How long after an event its occurrence is.

    Args:
        duration: Counted from the event; zero for the event itself.
        at: The local time of day that is then waited for. None: nothing is.
    """

    duration: Duration = _NOTHING
    at: time | None = None

    @classmethod
    def parse(cls, text: str | None) -> Delay:
        """
        Read what ``str`` wrote. None is no delay.

        Raises:
            RuleError: *text* is neither a duration, nor a time of day, nor both.

        >>> Delay.parse("P1M 09:00").at
        datetime.time(9, 0)
        """
        if text is None:
            return cls()
        duration, _, at = text.rpartition(" ")
        if not duration and not at.startswith("P"):
            return cls(at=parse_time_of_day(at))
        if not duration:
            return cls(Duration.parse(at))
        return cls(Duration.parse(duration), parse_time_of_day(at))

    @property
    def longest(self) -> timedelta:
        """No occurrence is further from its event, in whichever zone and year."""
        most = self.duration.months * LONGEST_MONTH + self.duration.elapsed
        if self.duration.is_calendar:
            most += OFFSET_SPREAD
        return most if self.at is None else most + LONGEST_WAIT


def join_delay(duration: str | None, at: str | None) -> str | None:
    """Return the one text of both, as they stand in a document; None if neither is."""
    return " ".join(part for part in (duration, at) if part) or None


def split_delay(text: str | None) -> tuple[str | None, str | None]:
    """
    Return the duration and the time of day that ``join_delay`` joined.

    >>> split_delay("P30D 09:00"), split_delay("P30D"), split_delay("09:00")
    (('P30D', '09:00'), ('P30D', None), (None, '09:00'))
    """
    parts = (text or "").split()
    return (
        next((part for part in parts if part.startswith("P")), None),
        next((part for part in parts if not part.startswith("P")), None),
    )


def is_time_of_day(value: object) -> bool:
    """Tell whether *value* is one."""
    return isinstance(value, str) and _TIME.fullmatch(value) is not None


def parse_time_of_day(text: str) -> time:
    """
    Read a local time of day, ``HH:MM``.

    Raises:
        RuleError: It is not one; the hint has the one that was most likely meant.
    """
    if not is_time_of_day(text):
        raise RuleError(f"{text[:40]!r} is not a time of day.", _suggest(text))
    return time.fromisoformat(text)


def read_clock(text: str) -> time | None:
    """
    Return what a clock shows, as people type it. None: nobody can tell.

    Args:
        text: Of 24 hours, or of 12 with their half. An hour alone is none: it may be of
            either.

    >>> [str(read_clock(each)) for each in ("1700", "17h00", "5pm", "5:00 PM")]
    ['17:00:00', '17:00:00', '17:00:00', '17:00:00']
    >>> read_clock("5"), read_clock("13pm"), read_clock("24:00")
    (None, None, None)
    """
    shown = _SHOWN.fullmatch(text.strip())
    if shown is None or (text.strip().isdigit() and shown[2] is None):
        return None
    hour, minute, second = (int(each or 0) for each in shown.groups()[:3])
    if shown[4]:
        if not 1 <= hour <= _NOON:
            return None
        hour = hour % _NOON + (_NOON if shown[4].casefold() == "pm" else 0)
    try:
        return time(hour, minute, second)
    except ValueError:
        return None


def _suggest(text: str) -> str:
    """Return the hint for *text*."""
    meant = read_clock(text) or read_clock(f"{text.strip()}:00")
    if re.match(r"24\b", text.strip()):
        meant = read_clock(f"00{text.strip()[2:]}")  # it is midnight
    if meant is not None and not meant.second:
        return f"Write {meant:%H:%M}."
    return "Write hours and minutes, 00:00 to 23:59, such as 09:00."
