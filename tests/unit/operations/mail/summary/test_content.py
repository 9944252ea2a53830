"""Which numbers are summed, and how they changed."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.domains import Column
from operations.mail.summary.content import (
    ColumnRole,
    FigureChange,
    Former,
    SummaryPart,
    find_role,
    make_former,
    read_former,
)
from tests.unit.operations.mail.summary.made import NOW, SALES, make_sales

#: Name, smallest, largest, sum, count: what it is.
RULES = [
    # what is added up
    ("amount", -5, 1000, 4711, 30, ColumnRole.QUANTITY),
    ("price", 0.5, 9.5, 99.5, 30, ColumnRole.QUANTITY),
    ("number_of_sales", 1, 900, 4711, 30, ColumnRole.QUANTITY),
    ("no_shows", 0, 9, 30, 30, ColumnRole.QUANTITY),
    ("key_figures", 0, 9, 30, 30, ColumnRole.QUANTITY),
    ("paid", 1, 9, 99, 30, ColumnRole.QUANTITY),
    ("sales_this_year", 17, 4711, 99999, 30, ColumnRole.QUANTITY),
    ("id_count", 17, 4711, 99999, 30, ColumnRole.QUANTITY),
    ("nb_jours", 1, 31, 99, 30, ColumnRole.QUANTITY),
    ("n", 1, 3, 6, 3, ColumnRole.QUANTITY),
    ("n", 1, 20, 123, 20, ColumnRole.QUANTITY),
    ("2019", 5, 2000, 9999, 30, ColumnRole.QUANTITY),
    ("steps", 1950, 2050, 4000, 2, ColumnRole.QUANTITY),
    # years and other parts of a date
    ("year", 2019, 2026, 99999, 30, ColumnRole.CALENDAR),
    ("fiscalYear", 2019.0, 2026.0, 99999, 30, ColumnRole.CALENDAR),
    ("Année", 1815, 2026, 99999, 30, ColumnRole.CALENDAR),
    ("exercice", 2019, 2026, 60660, 30, ColumnRole.CALENDAR),
    ("month", 1, 12, 99, 30, ColumnRole.CALENDAR),
    ("mois", 1, 12, 99, 30, ColumnRole.CALENDAR),
    ("month", 1, 1200, 9999, 30, ColumnRole.QUANTITY),
    # ids, codes, running numbers
    ("id", 17, 4711, 99999, 30, ColumnRole.NAME),
    ("orderId", 17, 4711, 99999, 30, ColumnRole.NAME),
    ("ORDER_ID", 17, 4711, 99999, 30, ColumnRole.NAME),
    ("id_client", 17, 4711, 99999, 30, ColumnRole.NAME),
    ("Code postal", 1000, 99999, 999999, 30, ColumnRole.NAME),
    ("order_number", 17, 4711, 99999, 30, ColumnRole.NAME),
    ("line", 1, 100, 5050, 100, ColumnRole.NAME),
    # rates
    ("margin_rate", 0.1, 0.9, 17.5, 30, ColumnRole.RATE),
    ("Taux de marge", 0.1, 0.9, 17.5, 30, ColumnRole.RATE),
    ("avg_basket", 1.5, 90.5, 999.5, 30, ColumnRole.RATE),
    ("latitude", 41.5, 51.5, 999.5, 30, ColumnRole.RATE),
]


@pytest.mark.parametrize(("name", "low", "high", "total", "count", "role"), RULES)
def test_role_follows_from_name_type_and_values(
    name: str, low: float, high: float, total: float, count: int, role: ColumnRole
):
    """docs/steps.md has the same rules in words."""
    kind = "Int64" if isinstance(low, int) else "Float64"

    assert role is find_role(Column(name, kind, low, high, total, count))


@pytest.mark.parametrize(
    ("unit", "role"),
    [
        ("€", ColumnRole.QUANTITY),
        ("%", ColumnRole.RATE),
        ("°C", ColumnRole.RATE),
        (None, ColumnRole.CALENDAR),
    ],
)
def test_unit_says_more_than_the_values(unit: str | None, role: ColumnRole):
    """2,019 € are no year, and percentages are not added up."""
    column = Column("x", "Int64", 2000, 2026, 99999, 30)

    assert role is find_role(column, unit=unit)


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", ["x", "year", ""])
def test_odd_numbers_are_quantities(name: str, odd: float):
    """Whatever a column holds has a role."""
    assert ColumnRole.QUANTITY is find_role(Column(name, "Float64", odd, odd, odd, 20))


NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers()


@given(now=NUMBERS, before=NUMBERS)
def test_change_can_be_told_of_any_numbers(now: float, before: float):
    """Bars are between 0 and 1, and the longer one is whole."""
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
    """What was next to nothing has no percentage; the order of a sum is no change."""
    change = FigureChange(now, before)

    assert (difference, ratio) == (change.difference, change.ratio)


def test_what_is_kept_is_what_the_next_one_reads():
    """Sums of quantities alone: no years, no ids."""
    stored = json.loads(json.dumps(make_former(make_sales(), NOW)))

    assert Former(NOW, 3, {"amount": 1234567}) == read_former(stored)


def test_sum_that_is_no_number_is_not_kept():
    """A database takes no NaN in JSON."""
    odd = (Column("x", "Float64", 0.5, math.inf, math.nan, 3),)
    part = SummaryPart(type(SALES)("d", SALES.version, odd, ()), "d")

    assert {} == make_former(part, NOW)["sums"]


def test_nothing_stored_is_nothing():
    """Whatever is there that is no object is no former summary."""
    assert read_former(None) is None
