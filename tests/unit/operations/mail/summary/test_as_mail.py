"""The executive summary as HTML and as text."""

from __future__ import annotations

import re

from operations.mail.summary.as_mail import make_html, make_text
from tests.unit.operations.mail.summary.made import make_sales, make_summary, write


def test_html_is_of_a_language_and_has_what_was_made_of_the_data_as_text():
    """Whatever it looks like."""
    html = make_html(write(tag="fr"))

    assert '<html lang="fr">' in html
    assert "prefers-color-scheme:dark" in html
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "Sales &lt;EU&gt;" in html
    assert "Demo &amp; Co" in html


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
    assert "empty" not in text  # a column of nothing but nulls
