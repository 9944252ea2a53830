"""Where in a JSON text something stands: line and column for editors. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from models.door.json_text import find_line, format_place, without_mark
from models.errors import InvalidDocumentError, Problem
from models.fields.strict_model import LONGEST_SHOWN, show

# Integers stay text: nobody counts with them, and Python refuses to read long ones.
_SKIPPER = json.JSONDecoder(parse_int=str)
_DECODER = json.JSONDecoder()
#: Characters of a list or object in which to look for its end, before it is cut.
_LONGEST_BEGIN = 4 * LONGEST_SHOWN

_BLANK = re.compile(r"[ \t\r\n]*")

#: Where the list of all JSON lines begins, as if there were one.
_LINES = -1

#: A key or the number of an entry, where it begins, and where its value does.
_Entry = tuple[str, tuple[int, int]]


class Places:
    r"""
    Where things begin in a text, each part of which is read once, and when needed.

    Args:
        text: JSON, or JSON lines; where it is none, nothing is found. Of a key that
            appears more than once, the last counts.

    >>> places = Places('{"when":\n  {"cron_rule": 7}}')
    >>> places.find("/when/cron_rule")
    (2, 17)
    >>> places.find("/when/cron_rule", of_key=True)
    (2, 4)
    """

    def __init__(self, text: str | bytes) -> None:
        """Read nothing yet."""
        self._given = text
        self._text: str | None = None
        self._entered: dict[int, tuple[dict[str, tuple[int, int]], Iterator[_Entry]]]
        self._entered = {}

    def locate(self, problem: Problem) -> tuple[int, int] | None:
        """Return line and column, from 1, of *problem*; None: nobody can tell."""
        if problem.place is not None:
            return problem.place
        return self.find(problem.pointer, of_key=problem.about_key)

    def find(self, pointer: str, *, of_key: bool = False) -> tuple[int, int] | None:
        """
        Return line and column, from 1, of what *pointer* points at.

        Args:
            pointer: RFC 6901. If the last part is not there, the place is that of the
                object or list that lacks it.
            of_key: Whether the key is meant, not its value.

        Returns:
            None if the text is not JSON.
        """
        found = self._find(pointer)
        if found is None:
            return None
        text, start, is_there, key_at = found
        return find_line(text, key_at if of_key and is_there else start)

    def show(self, pointer: str) -> str | None:
        """Return how messages show what *pointer* points at; None: it is not there."""
        found = self._find(pointer)
        if found is None or not found[2]:
            return None
        text, start = found[:2]
        if text[start] in "[{":
            begin = text[start : start + _LONGEST_BEGIN]
            try:
                return show(_DECODER.raw_decode(begin)[0])
            except ValueError:  # it goes on, and nobody reads the rest
                return f"{' '.join(begin.split())[:LONGEST_SHOWN]}..."
        try:
            return show(_DECODER.raw_decode(text, start)[0])
        except ValueError:
            return show(_SKIPPER.raw_decode(text, start)[0])

    def _find(self, pointer: str) -> tuple[str, int, bool, int] | None:
        """
        Return the text, and where the value is.

        Then where it begins; whether it is that of *pointer*, not of what lacks it; and
        where its key begins, or the value of a list.
        """
        try:
            if self._text is None:
                # a byte order mark is not a column of anybody's editor
                plain = without_mark(self._given)
                self._text = plain.decode() if isinstance(plain, bytes) else plain
            text = self._text
            start = key_at = _skip_blank(text, 0)
            parts = pointer.split("/")[1:]
            if parts and parts[0].isdecimal() and _are_lines(text, start):
                start = key_at = _LINES
            for part in parts:
                name = part.replace("~1", "/").replace("~0", "~")
                inner = self._enter(text, start, name)
                if inner is None:
                    return text, start, False, key_at
                key_at, start = inner
        except (ValueError, IndexError, RecursionError):
            return None
        return text, start, start < len(text), key_at  # of nothing, nothing is there

    def _enter(self, text: str, start: int, name: str) -> tuple[int, int] | None:
        """Return where *name* and its value begin in what begins at *start*."""
        if start not in self._entered:
            opening = "" if start == _LINES else text[start]
            enter = {"{": _enter_object, "[": _enter_list, "": _enter_lines}
            entries = enter[opening](text, start) if opening in enter else iter(())
            self._entered[start] = {}, entries
        found, rest = self._entered[start]
        # Of an object, a later key may be the same; of a list, no entry is.
        is_object = start != _LINES and text[start] == "{"
        if is_object or name not in found:
            for key, places in rest:
                found[key] = places
                if key == name and not is_object:
                    break
        return found.get(name)


def place_all(
    error: InvalidDocumentError, source: str, text: str | bytes
) -> Iterator[Problem]:
    """Yield the problems of *error*; pointers begin with file, line and column."""
    places = Places(text)
    for each in error.problems:
        place = places.locate(each)
        where = source if place is None else f"{source}:{place[0]}:{place[1]}"
        said = each.message
        if each.place is not None:  # which *where* names, too
            said = said.removeprefix(format_place(each.place))
        pointer = f"{where} {each.pointer}".rstrip()
        yield replace(each, pointer=pointer, message=said)


def _enter_object(text: str, start: int) -> Iterator[_Entry]:
    at = _skip_blank(text, start + 1)
    while text[at] == '"':
        key_at = at
        name, at = _SKIPPER.raw_decode(text, at)
        at = _skip_blank(text, _skip_blank(text, at) + 1)  # the colon
        yield name, (key_at, at)
        at = _skip_value(text, at)
        if text[at] != ",":
            break
        at = _skip_blank(text, at + 1)


def _enter_list(text: str, start: int) -> Iterator[_Entry]:
    at = _skip_blank(text, start + 1)
    number = 0
    while text[at] != "]":
        yield str(number), (at, at)
        number += 1
        at = _skip_value(text, at)
        if text[at] == ",":
            at = _skip_blank(text, at + 1)


def _are_lines(text: str, start: int) -> bool:
    """Tell whether the text is JSON lines: another value follows the first object."""
    return text[start] == "{" and _skip_value(text, start) < len(text)


def _enter_lines(text: str, _start: int) -> Iterator[_Entry]:
    at = _skip_blank(text, 0)
    for number in count():
        yield str(number), (at, at)
        at = _skip_value(text, at)


def _skip_value(text: str, at: int) -> int:
    return _skip_blank(text, _SKIPPER.raw_decode(text, at)[1])


def _skip_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None  # it matches an empty text, too
    return found.end()
