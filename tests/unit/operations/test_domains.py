"""What is told of columns that changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from operations.domains import MOST_CHANGES, Drift, find_drift

COLUMNS = st.dictionaries(st.text(min_size=1), st.sampled_from(["Int64", "String"]))


def test_columns_are_compared_by_name():
    """Added, removed, of another type; a column that only moved has not changed."""
    before = (("id", "Int64"), ("price", "Int64"), ("note", "String"))
    after = (("price", "Float64"), ("id", "Int64"), ("vat", "Float64"))

    drift = find_drift(before, after)

    assert drift == Drift(
        added=(("vat", "Float64"),),
        removed=(("note", "String"),),
        retyped=(("price", "Int64", "Float64"),),
    )
    assert (
        "added vat (Float64); removed note; price is Float64, was Int64"
        == drift.describe()
    )


def test_what_is_kept_is_bounded():
    """A file of a thousand new columns with endless names makes no endless row."""
    after = [(f"{number:0>1000}", "Int64") for number in range(1000)]

    drift = find_drift((), after)

    assert drift is not None
    assert MOST_CHANGES == len(drift.describe().split("Int64")) - 1
    assert 1000 - MOST_CHANGES == drift.more
    assert len(str(drift.as_json())) < 10_000


@given(COLUMNS, COLUMNS)
def test_there_is_a_drift_exactly_if_columns_differ(
    before: dict[str, str], after: dict[str, str]
):
    """Equal names and types, in whatever order, are no drift."""
    drift = find_drift(tuple(before.items()), tuple(after.items()))

    assert (drift is None) == (before == after)
