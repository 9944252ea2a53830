"""Where in a JSON text something stands: line and column for editors. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\r\n]*")


def find_place(text: str | bytes, pointer: str) -> tuple[int, int] | None:
    r"""
    Return line and column, from 1, of what *pointer* points at.

    Args:
        text: JSON.

        pointer: RFC 6901. If the last part is not there, the place is that of the
            object or list that lacks it.

    Returns:
        None if *text* is not JSON.

    >>> find_place('{"when":\n  {"cron_rule": 7}}', "/when/cron_rule")
    (2, 17)
    """
    found = _find(text, pointer)
    if found is None:
        return None
    decoded, start, _ = found
    line = decoded.count("\n", 0, start) + 1
    return line, start - decoded.rfind("\n", 0, start)


def find_value(text: str | bytes, pointer: str) -> tuple[Any] | None:
    """Return the one value that *pointer* points at, or None if it is not there."""
    found = _find(text, pointer)
    if found is None or not found[2]:
        return None
    decoded, start, _ = found
    return (_DECODER.raw_decode(decoded, start)[0],)


def _find(text: str | bytes, pointer: str) -> tuple[str, int, bool] | None:
    """Return the text, where the value begins, and whether it is that of *pointer*."""
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        start = _skip_blank(decoded, 0)
        _DECODER.raw_decode(decoded, start)
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            inner = _enter(decoded, start, key)
            if inner is None:
                return decoded, start, False
            start = inner
    except (ValueError, RecursionError):
        return None
    return decoded, start, True


def _enter(text: str, start: int, key: str) -> int | None:
    """Return where the value of *key* begins in the object or list at *start*."""
    if text[start] == "[":
        return _enter_list(text, start, key)
    if text[start] != "{":
        return None
    at = _skip_blank(text, start + 1)
    while text[at] == '"':
        name, at = _DECODER.raw_decode(text, at)
        at = _skip_blank(text, _skip_blank(text, at) + 1)  # the colon
        if name == key:
            return at
        at = _skip_value(text, at)
        if text[at] != ",":
            break
        at = _skip_blank(text, at + 1)
    return None


def _enter_list(text: str, start: int, key: str) -> int | None:
    if not key.isascii() or not key.isdigit():
        return None
    at = _skip_blank(text, start + 1)
    for _ in range(int(key)):
        if text[at] == "]":
            return None
        at = _skip_value(text, at)
        if text[at] != ",":
            return None
        at = _skip_blank(text, at + 1)
    return None if text[at] == "]" else at


def _skip_value(text: str, at: int) -> int:
    return _skip_blank(text, _DECODER.raw_decode(text, at)[1])


def _skip_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None  # it matches an empty text, too
    return found.end()
