"""How one JSON document differs from another, and is merged with a patch. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

from pydantic import JsonValue

from models.door.json_text import make_pointer

_Path = tuple[str | int, ...]

#: Stands for a value that one of two documents lacks.
_ABSENT = object()


class DifferenceKind(StrEnum):
    """What happened to one value of a document."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """
    One value that differs between two documents.

    Args:
        pointer: JSON pointer (RFC 6901) of the value.
        before: None: it is null, or there was none (*kind* tells).
        after: None: it is null, or there is none.
    """

    pointer: str
    kind: DifferenceKind
    before: JsonValue = None
    after: JsonValue = None


def find_differences(
    old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]
) -> tuple[ValueDifference, ...]:
    """
    Return what differs between two documents, in the order of *new*, then of *old*.

    Objects and lists are compared member by member, so that a difference is as small
    as it can be. Two values of different types are one difference.

    >>> find_differences({"a": [1, 2], "b": 3}, {"a": [1, 4, 5]})[0].pointer
    '/a/1'
    """
    return tuple(_compare((), old, new))


def _compare(path: _Path, old: object, new: object) -> Iterator[ValueDifference]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in (*new, *(key for key in old if key not in new)):
            yield from _compare(
                (*path, key), old.get(key, _ABSENT), new.get(key, _ABSENT)
            )
    elif isinstance(old, list) and isinstance(new, list):
        pairs = zip_longest(old, new, fillvalue=_ABSENT)
        for index, (before, after) in enumerate(pairs):
            yield from _compare((*path, index), before, after)
    elif old is _ABSENT:
        yield _make(path, DifferenceKind.ADDED, None, new)
    elif new is _ABSENT:
        yield _make(path, DifferenceKind.REMOVED, old, None)
    # In Python, true equals 1.
    elif old != new or isinstance(old, bool) is not isinstance(new, bool):
        yield _make(path, DifferenceKind.CHANGED, old, new)


def _make(
    path: _Path, kind: DifferenceKind, before: object, after: object
) -> ValueDifference:
    # Both are parts of JSON documents.
    return ValueDifference(make_pointer(path), kind, before, after)  # type: ignore[arg-type]


def apply_merge_patch(target: object, patch: object) -> object:
    """
    Return *target* with *patch* merged in; neither is changed.

    Members of *patch* replace those of *target*; null removes one; objects are merged
    member by member; anything else, a list too, replaces as a whole.

    Args:
        target: Decoded JSON.
        patch: Decoded JSON, whose depth the door has checked.

    >>> apply_merge_patch({"a": 1, "b": {"c": 2, "d": 3}}, {"a": None, "b": {"c": 4}})
    {'b': {'c': 4, 'd': 3}}
    """
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), value)
    return merged
