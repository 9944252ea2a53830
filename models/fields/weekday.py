"""Weekdays as people write them. Pure."""

from __future__ import annotations

from models.errors import RuleError
from models.fields.strict_model import find_near, show

#: As they are stored and shown; Monday is 0, as ``date.weekday`` counts.
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

_WHOLE = (
    *("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
)
#: As people may write them, in any case.
DAY_NAMES = (*(name.casefold() for name in WEEKDAYS), *_WHOLE)

_BY_NAME = {
    **{name.casefold(): name for name in WEEKDAYS},
    **dict(zip(_WHOLE, WEEKDAYS, strict=True)),
}


def read_weekday(text: str) -> str:
    """
    Return the short name of the weekday that *text* names, whole or short, in any case.

    Raises:
        RuleError: If it is none. Numbers are refused, since schedulers count weekdays
            from different days; so are ranges, since a list can be read at a glance.

    >>> read_weekday("SATURDAY")
    'Sat'
    """
    name = _BY_NAME.get(text.strip().casefold())
    if name is not None:
        return name

    msg = f"{show(text)} is not a weekday."
    if ".." in text or "-" in text:
        msg = f"{show(text)} is not one weekday."
        raise RuleError(msg, 'List each day: ["Sat", "Sun"].')
    near = find_near(text, _BY_NAME)
    meant = "" if near is None else f"Did you mean '{_BY_NAME[near.casefold()]}'? "
    raise RuleError(msg, f"{meant}Write one of: {', '.join(WEEKDAYS)}.")
