"""How texts differ, line by line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.action.revisions import MOST_SHOWN, TextLine, compare_texts

LINES = st.lists(st.sampled_from("abc"), max_size=12)


@given(LINES, LINES)
def test_every_line_that_differs_is_shown(before: list[str], after: list[str]):
    """What is taken out and put in makes one text of the other."""
    shown = compare_texts(before, after)

    removed = [line.text for line in shown if line.kind == "del"]
    added = [line.text for line in shown if line.kind == "ins"]
    assert sorted(before + added) == sorted(after + removed)
    assert (before == after) == (not removed and not added)


def test_same_text_is_shown_as_it_is():
    """Without signs of a difference."""
    assert [TextLine("keep", "a"), TextLine("keep", "b")] == compare_texts("ab", "ab")


def test_lines_far_from_a_difference_are_left_out():
    """Three stay around each; nothing is said of those at both ends."""
    before = [str(number) for number in range(30)]
    after = [*before[:10], "x", *before[11:20], "y", *before[21:]]

    shown = compare_texts(before, after)

    assert [
        TextLine("keep", "7"),
        TextLine("keep", "8"),
        TextLine("keep", "9"),
    ] == shown[:3]
    assert [TextLine("del", "10"), TextLine("ins", "x")] == shown[3:5]
    assert [TextLine("gap", "…")] == [line for line in shown if line.kind == "gap"]
    assert TextLine("keep", "23") == shown[-1]


@pytest.mark.parametrize("change", [1, 50_000])
def test_large_documents_are_compared_in_bounds(change: int):
    """Lines that are all alike take no time worth a name, and few are shown."""
    before = ["1"] * 200_000
    after = ["1"] * 100_000 + ["2"] * change + ["1"] * 100_000

    shown = compare_texts(before, after)

    assert len(shown) <= MOST_SHOWN + 1
    assert any(line.kind == "ins" for line in shown)


def test_what_is_not_shown_is_counted():
    """Behind all that is."""
    shown = compare_texts(["1"] * 2_000, ["1"] * 2_000)

    assert TextLine("gap", f"… and {2_000 - MOST_SHOWN:,} lines more") == shown[-1]


def test_changes_too_large_to_compare_are_shown_whole():
    """As all of the old, then all of the new; the end that is alike still is."""
    before = [f"old {number}" for number in range(1_001)] + ["same"]
    after = [f"new {number}" for number in range(1_001)] + ["same"]

    shown = compare_texts(before, after)

    assert TextLine("del", "old 0") == shown[0]
    assert {"del"} == {line.kind for line in shown[:-1]}
    assert "gap" == shown[-1].kind


def test_ends_of_a_change_too_large_to_compare_stay():
    """What is the same was neither taken out nor put in."""
    before = [*"abcd", *(f"old {number}" for number in range(20)), *"wxyz"]
    after = [*"abcd", *(f"new {number}" for number in range(60_000)), *"wxyz"]

    shown = compare_texts(before, after)

    assert [TextLine("keep", each) for each in "bcd"] == shown[:3]
    assert TextLine("del", "old 0") == shown[3]
    assert TextLine("ins", "new 0") == shown[23]
