"""The executive summary in its three forms."""

from __future__ import annotations

import re
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from operations.domains import Column, DomainSummary, Fingerprint, Version
from operations.mail.executive_summary import (
    Summary,
    format_age,
    format_number,
    make_text,
    shorten,
)
from operations.mail.executive_summary_html import make_html
from operations.mail.executive_summary_pdf import find_fonts, make_pdf

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
VERSION = Version(
    2, Path("2.parquet"), 3, 10, NOW - timedelta(days=2), Fingerprint(source="s")
)
SALES = DomainSummary(
    "sales <EU>",
    VERSION,
    (
        Column("city", "String"),
        Column("amount", "Int64", minimum=-5, maximum=1000, total=1234567),
        Column("empty", "Float64"),
    ),
    (("Zürich 東京", "7", ""), ("<script>", "8", "")),
)
SUMMARY = Summary("Demo & Co", "weekly", NOW, (SALES,), ("b",))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "–"),
        (0, "0"),
        (1234567, "1,234,567"),
        (2.0, "2"),
        (-1234.567, "-1,234.57"),
        (0.00012, "0.00012"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (1e300, "1e+300"),
    ],
)
def test_numbers_are_for_people(number: float | None, text: str):
    """
    Thousands are apart, decimals are two, extremes are short.
    """
    assert text == format_number(number)


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (timedelta(seconds=-9), "just now"),
        (timedelta(seconds=59), "just now"),
        (timedelta(seconds=60), "1 minute ago"),
        (timedelta(hours=23, minutes=59), "23 hours ago"),
        (timedelta(days=1), "1 day ago"),
    ],
)
def test_age_is_in_its_largest_unit(age: timedelta, text: str):
    """
    Ages are told in whole days, hours or minutes.
    """
    assert text == format_age(NOW - age, now=NOW)


def test_long_cells_are_cut():
    """
    A cell is one line of bounded length.
    """
    assert "a b" == shorten("a\n\tb")
    assert 32 == len(shorten("x" * 100))


def test_text_has_the_figures():
    """
    The plain text has rows, versions and figures, without markup.
    """
    text = make_text(SUMMARY)

    assert "3 rows in 1 domain." in text
    assert "Version 2, read 2 days ago (2026-11-21 06:00 UTC)." in text
    assert "amount: smallest -5, largest 1,000, sum 1,234,567" in text


def test_html_escapes_names_and_data():
    """
    Data of the app is text, whatever it looks like.
    """
    html = make_html(SUMMARY)

    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "sales &lt;EU&gt;" in html
    assert "Demo &amp; Co" in html


def test_column_without_values_has_no_figures():
    """
    A column of nothing but nulls is not in the table of figures.
    """
    assert "empty" not in make_text(SUMMARY)


@pytest.mark.parametrize("fonts", [None, find_fonts()], ids=["core", "host"])
def test_pdf_is_made_with_any_font(fonts: tuple[Path, Path] | None):
    """
    Letters beyond Latin-1 never fail, with or without a font of the host.
    """
    pdf = make_pdf(SUMMARY, fonts=fonts)

    assert b"%PDF-" == pdf[:5]
    assert b"%%EOF" in pdf[-10:]


def test_pdf_of_many_domains_has_several_pages():
    """
    A long summary goes on over pages.
    """
    many = Summary("Demo", "weekly", NOW, (SALES,) * 12)

    pdf = make_pdf(many, fonts=None)

    assert pdf.count(b"/Type /Page\n") > 1


def test_fonts_are_found_where_they_are(tmp_path: Path):
    """
    Both files must be there; the first folder that has them wins.
    """
    (tmp_path / "DejaVuSans.ttf").touch()
    assert find_fonts([tmp_path]) is None

    (tmp_path / "DejaVuSans-Bold.ttf").touch()
    assert (tmp_path / "DejaVuSans.ttf", tmp_path / "DejaVuSans-Bold.ttf") == (
        find_fonts([tmp_path / "none", tmp_path])
    )


def test_cells_of_the_pdf_are_light():
    """
    Only the title stands on a dark ground; text in the tables must be readable.
    """
    content = make_pdf(SUMMARY, fonts=None)
    streams = re.findall(rb"stream\r?\n(.*?)endstream", content, re.DOTALL)
    drawn = b"".join(_inflate(stream) for stream in streams)

    dark, light = b"0.1412 0.2314 0.3255 rg", b"1 1 1 rg"
    assert drawn.count(dark) == 1
    _title, _, tables = drawn.partition(b"RG")  # the lines of the first table
    assert tables.lstrip().startswith(light)


def _inflate(stream: bytes) -> bytes:
    try:
        return zlib.decompress(stream.strip(b"\r\n"))
    except zlib.error:
        return b""  # a font, or metadata
