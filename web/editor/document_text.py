"""
The text of an action, as people read and write it.

Pure. What nobody asked to change stays as it was typed, character for character.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from models.door.places import Places

#: The longest list or object that is written on one line.
_LONGEST_LINE = 48

_INDENT = "    "

_DECODER = json.JSONDecoder()


def write_text(document: Mapping[str, JsonValue]) -> str:
    r"""
    Return the text of *document*: a member a line, short values on one line.

    >>> print(write_text({"name": "a", "except": ["2026-12-25", "2027-01-01"]}))
    {
        "name": "a",
        "except": ["2026-12-25", "2027-01-01"]
    }
    """
    return _write_object(document, "")


def replace_members(
    text: str, old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]
) -> str:
    """
    Return *text* so that it says *new*.

    Args:
        text: Of *old*.
        old: An object.
        new: The same with other members. An object that lost or got members is written
            anew; everything else stays as it is written.
    """
    if old == new and text.strip():
        return text
    edits = []
    places = Places(text)
    for pointer, value, depth in _find_edits(old, new, "", 1):
        span = places.find_span(pointer) if pointer else None
        if span is None:
            return write_text(new)
        edits.append((span, _write(value, _INDENT * depth)))
    # From the end, so that what was found before stays where it is.
    for (start, end), written in sorted(edits, reverse=True):
        text = text[:start] + written + text[end:]
    return text


def _find_edits(
    old: Mapping[str, JsonValue], new: Mapping[str, JsonValue], path: str, depth: int
) -> Iterator[tuple[str, JsonValue, int]]:
    """Yield the smallest objects or values that differ: pointer, value and depth."""
    if list(old) != list(new):
        yield path, dict(new), depth - 1
        return
    for key, value in new.items():
        before = old[key]
        pointer = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        if isinstance(before, dict) and isinstance(value, dict):
            yield from _find_edits(before, value, pointer, depth + 1)
        elif value != before:
            yield pointer, value, depth


def replace_token(text: str, place: tuple[int, int], instead: str) -> str:
    """
    Return *text* with another key or text in a place.

    Args:
        text: JSON.
        place: Line and column, from 1. If there is no key or text, nothing changes.
        instead: What is to stand there.
    """
    lines = text.split("\n")
    line, column = place
    at = sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
    if not text.startswith('"', at):
        return text
    end = _DECODER.raw_decode(text, at)[1]
    return text[:at] + json.dumps(instead, ensure_ascii=False) + text[end:]


def _write(value: JsonValue, indent: str) -> str:
    if isinstance(value, dict) and value:
        plain = not any(isinstance(each, dict) for each in value.values())
        return (plain and _write_short(value)) or _write_object(value, indent)
    if isinstance(value, list) and value:
        return _write_short(value) or _write_list(value, indent)
    return json.dumps(value, ensure_ascii=False)


def _write_short(value: JsonValue) -> str | None:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_LINE else None


def _write_object(value: Mapping[str, JsonValue], indent: str) -> str:
    inner = indent + _INDENT
    lines = (
        f"{inner}{json.dumps(key, ensure_ascii=False)}: {_write(each, inner)}"
        for key, each in value.items()
    )
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def _write_list(value: list[JsonValue], indent: str) -> str:
    inner = indent + _INDENT
    lines = (f"{inner}{_write(each, inner)}" for each in value)
    return "[\n" + ",\n".join(lines) + f"\n{indent}]"
