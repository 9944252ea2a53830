"""The executive summary, in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from operations.domains import Column, DomainSummary
from operations.mail.summary.content import MOST_FIGURES, Former, SummaryPart
from operations.mail.summary.wording import LONGEST_CELL, WIDE
from tests.unit.operations.mail.summary.made import (
    NOW,
    SALES,
    VERSION,
    make_part,
    make_sales,
    make_summary,
    write,
)


def find_figure(text_of: SummaryPart, title: str):
    (part,) = write(make_summary(text_of)).parts
    return next(figure for figure in part.figures if figure.title == title)


def write_cell(value: object) -> str:
    data = DomainSummary("d", VERSION, (Column("c", "String"),), ((value,),))
    (part,) = write(make_summary(make_part(data))).parts
    return part.wide.rows[0][0]


def test_instants_are_in_the_zone_of_the_app():
    """With the name of the zone, once."""
    text = write()

    assert "Nov 23, 2026, 07:00 (Europe/Paris)" == text.instant
    assert "(Nov 21, 2026, 07:00)" in text.parts[0].details


def test_figure_has_its_unit_and_what_changed():
    """The difference, its share of what was; units where numbers stand."""
    figure = find_figure(make_sales(), "Turnover")

    assert "+234,567 (+23.5%)" == figure.change
    assert "1,234,567\N{NO-BREAK SPACE}€" == figure.total
    assert "-5 to 1,000\N{NO-BREAK SPACE}€" == figure.span
    assert "Turnover (€)" in write().parts[0].wide.head


def test_former_summary_of_today_is_told_by_its_time():
    """Whoever runs an action twice must see which one is meant."""
    earlier = Former(NOW - timedelta(hours=2), 2, {})

    (part,) = write(make_summary(make_sales(former=earlier))).parts

    assert "Since Nov 23, 2026, 05:00" == part.since


@pytest.mark.parametrize(
    ("sums", "text"), [({"amount": 1234567}, "unchanged"), ({}, "new")]
)
def test_what_did_not_change_or_is_new_says_so(sums: dict[str, float], text: str):
    """A new column is compared with nothing."""
    part = make_sales(former=Former(NOW, 3, sums))

    assert text == find_figure(part, "Turnover").change


def test_first_summary_compares_nothing():
    """There is no column for changes, and no line for the number of rows."""
    (part,) = write(make_summary(make_sales(former=None))).parts

    assert part.since is None
    assert "Rows" not in [figure.title for figure in part.figures]


def test_years_are_not_summed_and_ids_not_shown():
    """A year has a range without separators; an id has none."""
    year = find_figure(make_sales(), "year")
    (part,) = write().parts

    assert ("2019 to 2026", "", "") == (year.span, year.total, year.change)
    assert "id" not in [figure.title for figure in part.figures]


@pytest.mark.parametrize(("wanted", "total"), [(True, "6,066"), (False, "")])
def test_app_decides_what_is_summed(wanted: bool, total: str):  # noqa: FBT001
    """What app.json says wins over the rules."""
    part = make_sales(columns={"year": {"sum": wanted}})

    assert total == find_figure(part, "year").total


def test_hidden_columns_are_named():
    """By their titles, up to a number of them."""
    columns = tuple(Column(f"c{number}", "String") for number in range(WIDE + 20))
    data = replace(SALES, columns=columns, head=(("x",) * len(columns),))
    part = make_part(data, columns={"c7": {"title": "Seven"}})

    wide = write(make_summary(part)).parts[0].wide

    assert wide.hidden.startswith("20 more columns are not shown")
    assert "Seven, c8" in wide.hidden
    assert "and 8 more" in wide.hidden
    assert WIDE == len(wide.head) == len(wide.rows[0])


def test_figures_without_room_are_named():
    """A table of a thousand figures is read by nobody."""
    columns = tuple(Column(f"f{n}", "Float64", 0.5, 1.5, 9.5) for n in range(14))

    (part,) = write(make_summary(make_part(replace(SALES, columns=columns)))).parts

    assert MOST_FIGURES == len(part.figures)
    assert "2 more columns with figures are not shown: f12, f13." == part.more_figures


def test_language_is_that_of_the_reader():
    """Sentences, numbers, plurals and dates."""
    text = write(tag="fr-CH")

    assert "fr-CH" == text.lang
    assert "Synthèse\N{NO-BREAK SPACE}: Demo & Co, 23 novembre 2026" == text.subject
    assert "3 lignes dans 1 jeu de données." == text.overview
    assert "il y a 2 jours" in text.parts[0].details
    assert "Depuis le 16 nov. 2026" == text.parts[0].since


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (1234.5, "1,234.50"),
        (Decimal("0.10"), "0.10"),
        (date(2026, 3, 29), "Mar 29, 2026"),
        (datetime(2026, 3, 29, 1, tzinfo=UTC), "Mar 29, 2026, 03:00"),
        (datetime(2026, 10, 25, 1, tzinfo=UTC), "Oct 25, 2026, 02:00"),
        (datetime(2026, 3, 29, 2, 30, tzinfo=None), "Mar 29, 2026, 02:30"),  # noqa: DTZ001
        (datetime.max.replace(tzinfo=UTC), "9999-12-31 23:59:59.999999+00:00"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=9))), None),
        ("a\n\tb", "a b"),
        ("x" * 100_000, "x" * (LONGEST_CELL - 1) + "…"),
        ([1, 2], "[1, 2]"),
    ],
)
def test_cell_is_for_people(value: object, text: str | None):
    """Local times, two decimals, one bounded line; whatever it is, it is shown."""
    shown = write_cell(value)

    assert text is None or text == shown


def test_empty_summary_says_so():
    """Before the first publication there is nothing to summarize."""
    empty = replace(make_summary(), parts=())

    assert "Nothing was published yet" in write(empty).overview
