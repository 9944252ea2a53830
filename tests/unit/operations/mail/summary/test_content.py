"""Which numbers are summed, and how they changed."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.domains import Column
from operations.mail.summary.content import (
    ColumnRole,
    Former,
    compare,
    find_role,
    make_former,
    read_former,
)
from tests.unit.operations.mail.summary.made import NOW, SALES, make_part, make_sales

#: What a column is, by its name.
RULES = {
    ColumnRole.QUANTITY: (
        *("amount", "price", "number_of_sales", "no_shows", "key_figures", "paid"),
        *("sales_this_year", "id_count", "nb_jours", "n", "2019", "line"),
    ),
    ColumnRole.CALENDAR: ("year", "fiscalYear", "Année", "month", "mois"),
    ColumnRole.NAME: (
        *("id", "orderId", "ORDER_ID", "id_client", "Code postal", "order_number"),
    ),
    ColumnRole.RATE: (
        *("margin_rate", "Taux de marge", "avg_basket", "latitude", "hour_rate"),
    ),
}


@pytest.mark.parametrize(
    ("name", "role"), [(name, role) for role, names in RULES.items() for name in names]
)
def test_role_follows_from_the_name(name: str, role: ColumnRole):
    """docs/steps.md has the same rules in words."""
    assert role is find_role(Column(name, "Int64", 17, 4711, 99999))


@pytest.mark.parametrize(
    ("unit", "role"),
    [
        ("€", ColumnRole.QUANTITY),
        ("%", ColumnRole.RATE),
        ("°C", ColumnRole.RATE),
        (None, ColumnRole.QUANTITY),
    ],
)
def test_unit_says_what_the_name_does_not(unit: str | None, role: ColumnRole):
    """Percentages are not added up."""
    column = Column("x", "Int64", 2000, 2026, 99999)

    assert role is find_role(column, unit=unit)


NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers()


@given(now=NUMBERS, before=NUMBERS)
def test_change_can_be_told_of_any_numbers(now: float, before: float):
    """What would be a thousand percent has none."""
    _, ratio = compare(now, before)

    assert ratio is None or abs(ratio) < 10


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
    """What was next to nothing has no percentage; the order of a sum is no change."""
    assert (difference, ratio) == compare(now, before)


def test_what_is_kept_is_what_the_next_one_reads():
    """Sums of quantities alone: no years, no ids."""
    stored = json.loads(json.dumps(make_former(make_sales(), NOW)))

    assert Former(NOW, 3, {"amount": 1234567}) == read_former(stored)


def test_sum_that_is_no_number_is_not_kept():
    """A database takes no NaN in JSON."""
    odd = (Column("x", "Float64", 0.5, math.inf, math.nan),)
    part = make_part(replace(SALES, columns=odd, head=()))

    assert {} == make_former(part, NOW)["sums"]


def test_nothing_stored_is_nothing():
    """Whatever is there that is no object is no former summary."""
    assert read_former(None) is None
