"""Lengths of time as people type them, and as documents have them. Pure."""

from __future__ import annotations

import re

#: The units of ISO 8601, before and after its T, and what people call them.
_DATES = {"Y": "year", "M": "month", "W": "week", "D": "day"}
_TIMES = {"H": "hour", "M": "minute", "S": "second"}

_ISO = re.compile(r"P(?P<dates>(?:\d+[YMWD])*)(?:T(?P<times>(?:\d+[HMS])+))?", re.ASCII)
_PART = re.compile(r"(\d+)([A-Z])", re.ASCII)
_WORDS = re.compile(r"(\d+)\s*([a-z]+)\s*(?:,|and\b)?\s*", re.ASCII)
_UNITS = {
    **{f"{word}{s}": ("", unit) for unit, word in _DATES.items() for s in ("", "s")},
    **{f"{word}{s}": ("T", unit) for unit, word in _TIMES.items() for s in ("", "s")},
    **dict.fromkeys(("y", "yr", "yrs"), ("", "Y")),
    **dict.fromkeys(("mo", "mos", "mon"), ("", "M")),
    **dict.fromkeys(("w", "wk", "wks"), ("", "W")),
    "d": ("", "D"),
    **dict.fromkeys(("h", "hr", "hrs"), ("T", "H")),
    **dict.fromkeys(("m", "min", "mins"), ("T", "M")),
    **dict.fromkeys(("s", "sec", "secs"), ("T", "S")),
}


def tell_duration(text: str) -> str:
    """
    Return an ISO 8601 duration in words; what cannot be told so, as it is.

    >>> tell_duration("P7DT30S")
    '7 days 30 seconds'
    """
    found = _ISO.fullmatch(text)
    if found is None or text == "P":
        return text
    words = []
    for part, names in ((found["dates"], _DATES), (found["times"] or "", _TIMES)):
        for number, letter in _PART.findall(part):
            words.append(f"{number} {names[letter]}{'' if number == '1' else 's'}")
    return " ".join(words) or text


def read_duration(words: str) -> str:
    """
    Return what was typed as an ISO 8601 duration; what is none, as it is.

    The door refuses what is none, and says what to write.

    >>> [read_duration(each) for each in ("90 minutes", "7 days, 30 s", "PT5M")]
    ['PT90M', 'P7DT30S', 'PT5M']
    """
    typed = words.strip().casefold()
    parts: dict[str, str] = {"": "", "T": ""}
    at = 0
    while at < len(typed):
        found = _WORDS.match(typed, at)
        if found is None or found[2] not in _UNITS:
            return words.strip()
        half, letter = _UNITS[found[2]]
        parts[half] += f"{found[1]}{letter}"
        at = found.end()
    if not at:
        return words.strip()
    return f"P{parts['']}" + (f"T{parts['T']}" if parts["T"] else "")
