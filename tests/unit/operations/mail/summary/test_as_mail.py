"""The executive summary as HTML and as text."""

from __future__ import annotations

import re

from operations.mail.summary.as_mail import make_html, make_text
from tests.unit.operations.mail.summary.made import make_sales, make_summary, write


def test_html_escapes_names_and_data():
    """Data of the app is text, whatever it looks like."""
    html = make_html(write())

    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "Sales &lt;EU&gt;" in html
    assert "Demo &amp; Co" in html


def test_bars_are_as_long_as_the_numbers():
    """The one of now is full, the one of before shorter."""
    html = make_html(write())

    assert ["59px", "88px", "71px", "88px"] == re.findall(
        r'class="(?:before|now)"[^>]*width:(\d+px)', html.replace("\n", "")
    )


def test_html_names_its_language_and_both_schemes():
    """A program that reads aloud, and one that is dark, must know."""
    html = make_html(write(tag="fr"))

    assert '<html lang="fr">' in html
    assert "prefers-color-scheme:dark" in html


def test_html_loads_nothing():
    """A mail that loads something tells its sender who reads it, and when."""
    html = make_html(write(make_summary(make_sales(former=None))))

    assert re.search(r"src=|url\(|https?:|<script|@import", html) is None


def test_text_has_the_figures():
    """Rows, versions, figures and changes, without markup."""
    text = make_text(write())

    assert "3 rows in 1 data set." in text
    assert "Sales <EU>\n----------\n3 rows, 5 columns. Read 2 days ago" in text
    assert "  Turnover — 1,234,567\N{NO-BREAK SPACE}€; +234,567 (+23.5%); -5 to" in text
    assert "Not published yet: b." in text


def test_column_without_values_has_no_figures():
    """A column of nothing but nulls is not among the figures."""
    assert "empty" not in make_text(write())
