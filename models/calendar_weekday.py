"""The weekdays of a calendar rule, as a set of bits: Monday is bit 0. Pure."""

from __future__ import annotations

import re

from models.errors import RuleError

_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_LONG = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_NUMBERS = {name.lower(): number for number, name in enumerate(_NAMES)}
_NUMBERS.update((name, number) for number, name in enumerate(_LONG))

_EVERY_DAY = (1 << len(_NAMES)) - 1

_HINT = "Write weekdays as 'Mon,Wed' or 'Mon..Fri'."


def names_weekday(word: str) -> bool:
    """Return whether *word* begins like a list of weekdays."""
    return re.split(r"[,.-]", word, maxsplit=1)[0].lower() in _NUMBERS


def parse_weekdays(word: str, text: str) -> int:
    """
    Read a list of weekdays and ranges of them.

    Args:
        word: Such as "Mon..Wed,Fri"; one comma at the end is allowed, as in systemd.

        text: The whole rule, for the error.

    Returns:
        A bit for each weekday; 0 if all of them are named, which means no choice.

    Raises:
        RuleError: If *word* is no such list, or a range runs over Sunday.
    """
    weekdays = 0
    for item in word.removesuffix(",").split(","):
        # The hyphen is systemd's older spelling of a range.
        names = re.split(r"\.\.|-", item.lower(), maxsplit=1)
        for name in names:
            if name not in _NUMBERS:
                msg = f"{text!r} has {item!r} where a weekday is expected."
                raise RuleError(msg, _HINT)

        first, last = _NUMBERS[names[0]], _NUMBERS[names[-1]]
        if last < first:
            listed = ",".join((_NAMES * 2)[first : last + 1 + len(_NAMES)])
            msg = f"{text!r} has the weekdays {item!r}, which run over Sunday."
            raise RuleError(msg, f"Weeks start on Monday here; write '{listed}'.")

        weekdays |= (2 << last) - (1 << first)

    return 0 if weekdays == _EVERY_DAY else weekdays


def format_weekdays(weekdays: int) -> str:
    """Return the shortest list, ranges from three days on; "" for 0."""
    runs = re.finditer("1+", f"{weekdays:07b}"[::-1])
    return ",".join(
        _NAMES[run.start()]
        + ("" if len(run[0]) == 1 else ".." if len(run[0]) > 2 else ",")
        + (_NAMES[run.end() - 1] if len(run[0]) > 1 else "")
        for run in runs
    )
