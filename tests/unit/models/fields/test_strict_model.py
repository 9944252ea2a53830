"""Tests for what all documents have in common: bounds that cost little to hold."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from models.door.documents import read_value
from models.errors import RuleError
from models.fields.strict_model import MOST_KEYS, DocumentModel, Most
from tests.unit.models.documents import find_problems

#: Values that were looked at.
read: list[object] = []


def note(value: int) -> int:
    """Note a value that is looked at, and refuse one below zero."""
    read.append(value)
    if value < 0:
        raise RuleError(f"{value} is below zero.")
    return value


_Noted = Annotated[int, AfterValidator(note)]


class _Long(DocumentModel):
    """A document with much in it."""

    several: Annotated[tuple[_Noted, ...], Most(10_000)] = ()
    named: Annotated[dict[str, _Noted], Most(10_000)] | None = None


def refuse(value: object) -> list[tuple[str, str]]:
    """Return pointers and messages; note anew what is looked at."""
    read.clear()
    found = find_problems(read_value, _Long, value, "document")
    return [(each.pointer, each.message) for each in found]


def test_what_is_right_is_read_whole():
    """In its order, however long it is."""
    value = {"several": [*range(9999)], "named": {f"k{n}": n for n in range(250)}}

    model = read_value(_Long, value, "document")

    assert tuple(range(9999)) == model.several
    assert value["named"] == model.named


@pytest.mark.parametrize(
    "entries", [[-1] * 10_001, {f"k{n}": -1 for n in range(10_001)}]
)
def test_entries_are_counted_before_they_are_read(entries: Any):
    """None of too many is looked at."""
    key = "several" if isinstance(entries, list) else "named"

    problems = refuse({key: entries})

    assert [
        (f"/{key}", "It has 10001 entries; at most 10000 are accepted.")
    ] == problems
    assert [] == read


def test_nothing_is_read_after_a_part_with_problems():
    """Those that are told have the numbers that they have in the whole."""
    problems = refuse({"several": [1] * 5050 + [-1, 1, -2] + [-3] * 4000})

    assert [
        ("/several/5050", "-1 is below zero."),
        ("/several/5052", "-2 is below zero."),
    ] == (problems[:2])
    assert 5100 == len(read)


def test_keys_are_counted_before_they_are_read():
    """Each that is unknown would be compared with those that are known."""
    problems = refuse({f"k{n}": n for n in range(MOST_KEYS + 1)})

    assert [("", "It has 201 entries; at most 200 are accepted.")] == problems
