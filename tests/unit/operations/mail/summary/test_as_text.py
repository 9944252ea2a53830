"""The executive summary as plain text."""

from __future__ import annotations

from operations.mail.summary.as_text import make_text
from tests.unit.operations.mail.summary.made import write


def test_text_has_the_figures():
    """
    Rows, versions, figures and changes, without markup.
    """
    text = make_text(write())

    assert "3 rows in 1 data set." in text
    assert "Sales <EU>\n----------\n3 rows, 5 columns. Read 2 days ago" in text
    assert "  Turnover — 1,234,567\N{NO-BREAK SPACE}€; +234,567 (+23.5%); -5 to" in text
    assert "Not published yet: b." in text


def test_column_without_values_has_no_figures():
    """
    A column of nothing but nulls is not among the figures.
    """
    assert "empty" not in make_text(write())
