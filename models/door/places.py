"""Where in a JSON text something stands: line and column for editors. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from models.door.json_text import find_line, without_mark
from models.errors import Problem

# Integers stay text: nobody counts with them, and Python refuses to read long ones.
_SKIPPER = json.JSONDecoder(parse_int=str)
_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\r\n]*")


def locate(problem: Problem, text: str | bytes) -> tuple[int, int] | None:
    """Return line and column, from 1, of *problem* in *text*; None: nobody can tell."""
    if problem.place is not None:
        return problem.place
    return find_place(text, problem.pointer, of_key=problem.about_key)


def find_place(
    text: str | bytes, pointer: str, *, of_key: bool = False
) -> tuple[int, int] | None:
    r"""
    Return line and column, from 1, of what *pointer* points at.

    Args:
        text: JSON. Of a key that appears more than once, the last counts.

        pointer: RFC 6901. If the last part is not there, the place is that of the
            object or list that lacks it.

        of_key: Whether the key is meant, not its value.

    Returns:
        None if *text* is not JSON.

    >>> find_place('{"when":\n  {"cron_rule": 7}}', "/when/cron_rule")
    (2, 17)
    >>> find_place('{"when":\n  {"cron_rule": 7}}', "/when/cron_rule", of_key=True)
    (2, 4)
    """
    found = _find(text, pointer)
    if found is None:
        return None
    decoded, start, is_there, key_at = found
    return find_line(decoded, key_at if of_key and is_there else start)


def find_span(text: str, pointer: str) -> tuple[int, int] | None:
    """Return where in *text* a value begins and ends; None if it is not there."""
    found = _find(text, pointer)
    if found is None or not found[2]:
        return None
    start = found[1]
    return start, _SKIPPER.raw_decode(text, start)[1]


def find_value(text: str | bytes, pointer: str) -> tuple[Any] | None:
    """Return the one value that *pointer* points at, or None if it is not there."""
    found = _find(text, pointer)
    if found is None or not found[2]:
        return None
    decoded, start = found[:2]
    try:
        return (_DECODER.raw_decode(decoded, start)[0],)
    except ValueError:
        return (_SKIPPER.raw_decode(decoded, start)[0],)


def _find(text: str | bytes, pointer: str) -> tuple[str, int, bool, int] | None:
    """
    Return the text, and where the value is.

    Then where it begins; whether it is that of *pointer*, not of what lacks it; and
    where its key begins, or the value of a list.
    """
    try:
        # a byte order mark is not a column of anybody's editor
        plain = without_mark(text)
        decoded = plain.decode() if isinstance(plain, bytes) else plain
        start = key_at = _skip_blank(decoded, 0)
        _SKIPPER.raw_decode(decoded, start)
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            inner = _enter(decoded, start, key)
            if inner is None:
                return decoded, start, False, key_at
            key_at, start = inner
    except (ValueError, RecursionError):
        return None
    return decoded, start, True, key_at


def _enter(text: str, start: int, key: str) -> tuple[int, int] | None:
    """Return where *key* and its value begin in the object or list at *start*."""
    if text[start] == "[":
        at_entry = _enter_list(text, start, key)
        return None if at_entry is None else (at_entry, at_entry)
    if text[start] != "{":
        return None
    found = None
    at = _skip_blank(text, start + 1)
    while text[at] == '"':
        key_at = at
        name, at = _SKIPPER.raw_decode(text, at)
        at = _skip_blank(text, _skip_blank(text, at) + 1)  # the colon
        if name == key:
            found = key_at, at
        at = _skip_value(text, at)
        if text[at] != ",":
            break
        at = _skip_blank(text, at + 1)
    return found


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
    return _skip_blank(text, _SKIPPER.raw_decode(text, at)[1])


def _skip_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None  # it matches an empty text, too
    return found.end()
