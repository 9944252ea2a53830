"""A local time of day, as people write it. Pure."""

from __future__ import annotations

import re
from datetime import time

from models.errors import RuleError
from models.fields.strict_model import show

_TIME = re.compile(r"\d{2}:\d{2}", re.ASCII)


def parse_time_of_day(text: str) -> time:
    """
    Return the time of day that *text* names: hour and minute, ``09:00``.

    Raises:
        RuleError: If it names none.

    >>> parse_time_of_day("09:30")
    datetime.time(9, 30)
    """
    msg = f"{show(text)} is not a time of day."
    hint = "Write hours and minutes, 00:00 to 23:59, such as 09:00."
    if _TIME.fullmatch(text) is None:
        raise RuleError(msg, hint)
    try:
        return time.fromisoformat(text)
    except ValueError:
        raise RuleError(msg, hint) from None
