"""Where in a JSON text something stands: line and column for editors. Pure."""

from __future__ import annotations

import json
import re
from functools import lru_cache
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
    places = _read(text)
    if places is None:
        return None
    start = key_at = places.start
    for part in pointer.split("/")[1:]:
        inner = places.enter(start).get(part.replace("~1", "/").replace("~0", "~"))
        if inner is None:
            return places.text, start, False, key_at
        key_at, start = inner
    return places.text, start, True, key_at


# A text may have a hundred problems, each of which is looked for by itself.
@lru_cache(maxsize=4)
def _read(text: str | bytes) -> _Places | None:
    """Return the places of *text*; None if it is not JSON."""
    try:
        # a byte order mark is not a column of anybody's editor
        plain = without_mark(text)
        return _Places(plain.decode() if isinstance(plain, bytes) else plain)
    except (ValueError, RecursionError):
        return None


class _Places:
    """Where things begin in a text, each part of which is read once."""

    def __init__(self, text: str) -> None:
        """Read it; ValueError or RecursionError: it is not JSON."""
        self.text = text
        self.start = _skip_blank(text, 0)
        self._inner: dict[int, dict[str, tuple[int, int]]] = {}
        _SKIPPER.raw_decode(text, self.start)

    def enter(self, start: int) -> dict[str, tuple[int, int]]:
        """Return where each key and its value begin in what begins at *start*."""
        if start not in self._inner:
            self._inner[start] = {
                "{": _enter_object,
                "[": _enter_list,
            }.get(self.text[start], _enter_nothing)(self.text, start)
        return self._inner[start]


def _enter_object(text: str, start: int) -> dict[str, tuple[int, int]]:
    found = {}
    at = _skip_blank(text, start + 1)
    while text[at] == '"':
        key_at = at
        name, at = _SKIPPER.raw_decode(text, at)
        at = _skip_blank(text, _skip_blank(text, at) + 1)  # the colon
        found[name] = key_at, at
        at = _skip_value(text, at)
        if text[at] != ",":
            break
        at = _skip_blank(text, at + 1)
    return found


def _enter_list(text: str, start: int) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    at = _skip_blank(text, start + 1)
    while text[at] != "]":
        found[str(len(found))] = at, at
        at = _skip_value(text, at)
        if text[at] == ",":
            at = _skip_blank(text, at + 1)
    return found


def _enter_nothing(_text: str, _start: int) -> dict[str, tuple[int, int]]:
    return {}


def _skip_value(text: str, at: int) -> int:
    return _skip_blank(text, _SKIPPER.raw_decode(text, at)[1])


def _skip_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None  # it matches an empty text, too
    return found.end()
