"""Which numbers are summed."""

from __future__ import annotations

import pytest

from operations.domains import Column
from operations.mail.summary.column_roles import ColumnRole, find_role

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
    """
    docs/steps.md has the same rules in words.
    """
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
    """
    2,019 € are no year, and percentages are not added up.
    """
    column = Column("x", "Int64", 2000, 2026, 99999, 30)

    assert role is find_role(column, unit=unit)


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", ["x", "year", ""])
def test_odd_numbers_are_quantities(name: str, odd: float):
    """
    Whatever a column holds has a role.
    """
    assert ColumnRole.QUANTITY is find_role(Column(name, "Float64", odd, odd, odd, 20))
