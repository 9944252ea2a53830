"""What changed since the last summary."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.domains import Column
from operations.mail.summary.content import SummaryPart, make_former
from operations.mail.summary.former import FigureChange, Former, read_former
from tests.unit.operations.mail.summary.made import NOW, SALES, make_sales

NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers()


@given(now=NUMBERS, before=NUMBERS)
def test_change_can_be_told_of_any_numbers(now: float, before: float):
    """
    Bars are between 0 and 1, and the longer one is whole.
    """
    change = FigureChange(now, before)

    assert change.ratio is None or abs(change.ratio) < 10
    if change.shares is not None:
        assert 0 <= min(change.shares)
        assert 1 == max(change.shares)


@pytest.mark.parametrize(
    ("now", "before", "difference", "ratio"),
    [
        (110, 100, 10, 0.1),
        (90, 100, -10, -0.1),
        (-90, -100, 10, 0.1),
        (5, 0, 5, None),
        (5000, 1, 4999, None),
        (0.1 + 0.2, 0.3, 0, None),
    ],
)
def test_difference_and_ratio(
    now: float, before: float, difference: float, ratio: float | None
):
    """
    What was next to nothing has no percentage; the order of a sum is no change.
    """
    change = FigureChange(now, before)

    assert (difference, ratio) == (change.difference, change.ratio)


def test_what_is_kept_is_what_the_next_one_reads():
    """
    Sums of quantities alone: no years, no ids.
    """
    stored = json.loads(json.dumps(make_former(make_sales(), NOW)))

    assert Former(NOW, 3, {"amount": 1234567}) == read_former(stored)


def test_sum_that_is_no_number_is_not_kept():
    """
    A database takes no NaN in JSON.
    """
    odd = (Column("x", "Float64", 0.5, math.inf, math.nan, 3),)
    part = SummaryPart(type(SALES)("d", SALES.version, odd, ()), "d")

    assert {} == make_former(part, NOW)["sums"]


def test_nothing_stored_is_nothing():
    """
    Whatever is there that is no object is no former summary.
    """
    assert read_former(None) is None
