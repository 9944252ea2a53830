"""JSON that every database gives back as it was written."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from models.database.plain_json import make_plain
from tests.unit.models.json_values import nest

GOOD = st.text(st.characters(exclude_characters="\0", codec="utf-8"))
NUMBERS = st.floats(-1e15, 1e15).filter(lambda number: str(number) != "-0.0")
WHOLE = nest(st.none() | st.booleans() | st.integers() | NUMBERS | GOOD, GOOD)
ANY = nest(st.floats() | st.text(st.characters()), st.text(st.characters()))


@given(WHOLE)
def test_json_that_every_database_keeps_is_left_alone(value: object):
    """Nothing is altered that need not be, not even 1.0 into 1."""
    assert repr(value) == repr(make_plain(value))


@given(ANY)
def test_result_is_json_without_what_a_database_refuses(value: object):
    """And making it plain again changes nothing."""
    plain = make_plain(value)
    text = json.dumps(plain, allow_nan=False, ensure_ascii=False)

    assert text == text.encode().decode()
    assert plain == make_plain(plain)
    assert "\\u0000" not in text.replace(r"\\", "")


def test_backslashes_before_a_nul_stay():
    """The text of an escape is no escape."""
    assert ["\\u0000", "\\\ufffd", "\\\\u0000"] == make_plain(
        ["\\u0000", "\\\0", "\\\\u0000"]
    )


def test_half_of_a_letter_is_replaced():
    """Unpaired surrogates have no UTF-8."""
    assert {"\ufffd": "a\ufffdb"} == make_plain({"\ud800": "a\udfffb"})
