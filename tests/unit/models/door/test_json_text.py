"""Tests of what JSON must be before anything looks at what it says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.door.json_text import (
    BYTES_PER_ENTRY,
    LARGEST_TEXT,
    TextTooLargeError,
    check_json,
    decode_json,
    make_pointer,
)
from models.errors import InvalidDocumentError
from tests.unit.models.json_values import nest

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
NUMBERS = st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(
    allow_nan=False, allow_infinity=False
)
VALUES = nest(st.none() | st.booleans() | NUMBERS | TEXTS, TEXTS)


@given(VALUES)
def test_json_is_read_as_it_was_written(value: object):
    """Whatever JSON can hold is read back, as text and as UTF-8."""
    text = json.dumps(value, ensure_ascii=False)

    assert value == decode_json(text)
    assert value == decode_json(text.encode())


@given(st.lists(st.text() | st.integers(0, 99)))
def test_pointer_tells_its_path(path: list[str | int]):
    """A pointer is taken apart again as RFC 6901 says."""
    parts = make_pointer(path).split("/")[1:]

    assert [str(part) for part in path] == [
        part.replace("~1", "/").replace("~0", "~") for part in parts
    ]


def test_deepest_nesting_is_accepted():
    """Thirty-two levels are read, thirty-three are not."""
    decode_json("[" * 32 + "]" * 32)

    with pytest.raises(InvalidDocumentError, match="more than 32 levels"):
        decode_json("[" * 33 + "]" * 33)


def test_largest_text_is_accepted():
    """The size is counted in bytes, not in characters."""
    filling = "é" * (LARGEST_TEXT // 2 - 1)
    decode_json(f'"{filling}"')

    with pytest.raises(InvalidDocumentError, match="1048578 bytes"):
        decode_json(f'"{filling}é"')


MOST = LARGEST_TEXT // BYTES_PER_ENTRY


@pytest.mark.parametrize(
    "text",
    [
        f"[{'0,' * MOST}0]",
        f"[{'[],' * MOST}0]",
        "[" * (MOST + 1),
        f"[{'{},' * MOST}0]",
        '["' + '","' * MOST * 2,
        f"[{'[],' * MOST}" + '"' + '\\"' * 1000,
    ],
)
def test_entries_are_counted_before_anything_is_read(text: str):
    """Whatever is wrong with the text besides."""
    with pytest.raises(TextTooLargeError, match="more than 52,428 entries"):
        decode_json(text)


@pytest.mark.parametrize("filling", [",[{", '\\"', "\\\\"])
def test_what_stands_in_a_text_is_no_entry(filling: str):
    """As in a mail, which is one text."""
    size = LARGEST_TEXT // len(filling) - 10
    value = decode_json(f'["{filling * size}", ["", 1]]')

    assert ["", 1] == value[1]  # type: ignore[index]  # a list


def test_half_a_character_in_text_is_counted():
    """A text that no UTF-8 could hold is refused, not a traceback."""
    with pytest.raises(InvalidDocumentError, match=r"half a character \(\\ud800\)"):
        decode_json('"\ud800"')


def test_every_problem_is_told():
    """All problems of a document are told at once, in its order."""
    with pytest.raises(InvalidDocumentError) as caught:
        decode_json('{"a": NaN, "b": {"c": 1, "c": "\\u0000"}, "d": [1e999]}')

    pointers = [problem.pointer for problem in caught.value.problems]
    assert ["/a", "/b/c", "/b/c", "/d/0"] == pointers


def test_value_that_holds_itself_is_refused():
    """A decoded value that holds itself has no end, and is refused for its depth."""
    value: list[object] = []
    value.append(value)

    with pytest.raises(InvalidDocumentError, match="more than 32 levels"):
        check_json(value)


def test_number_that_cannot_be_written_out_is_refused():
    """An integer that Python will not even write is refused like any other."""
    for number in (10**5000, -(10**5000)):
        with pytest.raises(InvalidDocumentError, match="is larger than"):
            check_json(number)


def test_an_object_with_many_keys_is_read_as_others_are():
    """They become part of it in several goes; a key is found again in a later one."""
    text = json.dumps({f"k{number}": number for number in range(25_000)})

    assert json.loads(text) == decode_json(text)
    with pytest.raises(InvalidDocumentError, match="'k7' appears more than once"):
        decode_json(f'{text[:-1]}, "k7": 7}}')
