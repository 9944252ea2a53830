"""Calendar files are as RFC 5545 wants them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actions.load.calendar_file import escape, fold


def test_text_cannot_become_syntax():
    """Whoever names an action writes no property of the file."""
    name = "a;b,c\\d\r\nEND:VEVENT\x00\x7f"

    assert "a\\;b\\,c\\\\d\\nEND:VEVENT" == escape(name)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"])))
def test_long_lines_are_folded_between_characters(text: str):
    """No part has more than 75 bytes, and together they are the line."""
    first, *others = fold(text)

    assert all(len(part.encode()) <= 75 for part in [first, *others])
    assert all(part.startswith(" ") for part in others)
    assert text == first + "".join(part[1:] for part in others)
