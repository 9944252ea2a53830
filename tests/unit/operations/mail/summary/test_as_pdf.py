"""The executive summary as PDF."""

from __future__ import annotations

import re
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operations.domains import Column
from operations.mail.summary.as_pdf import find_fonts, make_pdf
from operations.mail.summary.content import SummaryPart
from tests.unit.operations.mail.summary.made import (
    FORMER,
    NOW,
    SALES,
    make_part,
    make_sales,
    make_summary,
    write,
)

ID = Column("id", "Int64", 1, 4711, 4720)


def draw(*parts: SummaryPart, tag: str = "en") -> list[list[str]]:
    """Return the texts of each page of the PDF of *parts*, in the order of drawing."""
    pdf = make_pdf(write(make_summary(*parts), tag), now=NOW, fonts=None)
    return [page for page in map(read_texts, find_streams(pdf)) if page]


def find_streams(pdf: bytes) -> list[bytes]:
    """Return what is drawn, page by page."""
    found = re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL)
    return [_inflate(stream) for stream in found]


def _inflate(stream: bytes) -> bytes:
    try:
        return zlib.decompress(stream.strip(b"\r\n"))
    except zlib.error:
        return b""  # a font, or metadata


def read_texts(stream: bytes) -> list[str]:
    """Return the texts that a page of a core font draws."""
    found = re.findall(rb"\(((?:[^()\\]|\\.)*)\) Tj", stream)
    return [each.decode("latin-1").replace("\\", "") for each in found]


@pytest.mark.parametrize("fonts", [None, find_fonts()], ids=["core", "host"])
def test_pdf_is_made_with_any_font(fonts: tuple[Path, Path] | None):
    """Letters beyond Latin-1 never fail, with or without a font of the host."""
    pdf = make_pdf(write(tag="fr"), now=NOW, fonts=fonts)

    assert b"%PDF-" == pdf[:5]
    assert b"%%EOF" in pdf[-10:]


def test_pages_are_numbered():
    """Each says which it is, and of how many."""
    pages = draw(*[make_sales()] * 12)

    assert len(pages) > 2
    for number, page in enumerate(pages, start=1):
        assert "".join(page).endswith(f"Demo & Co{number} / {len(pages)}")


def make_tall(number: int, figures: int, rows: int, *, described: bool) -> SummaryPart:
    """Return a part of some height."""
    columns = tuple(
        Column(f"col{n}", "Float64", 0.5, 1.5, 9.5) for n in range(figures)
    ) or (Column("text", "String"),)
    head = ((f"cell{number}",) * len(columns),) * rows
    data = replace(SALES, columns=columns, head=head)
    return make_part(
        data,
        FORMER if number % 2 else None,
        title=f"Heading{number}",
        description="What it is about. " * 8 if described else None,
    )


@settings(max_examples=4, derandomize=True)
@given(
    shapes=st.lists(
        st.tuples(st.integers(0, 14), st.integers(0, 5), st.booleans()),
        min_size=3,
        max_size=9,
    )
)
def test_no_heading_is_left_alone(shapes: list[tuple[int, int, bool]]):
    """Below each heading there is a row of its table, or all that there is of it."""
    parts = [
        make_tall(number, figures, rows, described=described)
        for number, (figures, rows, described) in enumerate(shapes)
    ]

    for page in draw(*parts):
        texts = page[: -page[::-1].index("Demo & Co")]
        for place, text in enumerate(texts):
            if text == "First rows":
                assert any(each.startswith("cell") for each in texts[place:])
            elif text.startswith("Heading"):
                part = parts[int(text.removeprefix("Heading"))]
                if part.figures:
                    assert any(each.startswith("col") for each in texts[place:])
                elif part.data.head:
                    # With a former summary, the count of rows is a table of its own.
                    assert any(
                        each == "Rows" or each.startswith("cell")
                        for each in texts[place:]
                    )


def test_head_of_a_table_is_on_each_page():
    """Whoever turns the page sees which column is which."""
    parts = [make_tall(1, 12, 0, described=False)] * 6
    pages = draw(*parts)

    for page in pages:
        figures = [place for place, text in enumerate(page) if text.startswith("col")]
        assert "Figures" in page[: figures[0]]


@pytest.mark.parametrize("long", [1, 6])
def test_narrow_column_keeps_its_room(long: int):
    """However long the texts beside it are, its own stands in one line."""
    address = "Boulevard du Commandant Martin 12"
    columns = [*(Column(f"address{n}", "String") for n in range(long)), ID]
    head = ((*[address] * long, 4711),) * 3
    (page,) = draw(make_part(replace(SALES, columns=tuple(columns), head=head)))

    assert 3 == page.count("4711")


def test_wide_columns_share_what_narrow_ones_leave():
    """Texts that have room beside some numbers stand in one line each."""
    address = "12, Boulevard du Commandant"
    columns = [Column(f"address{n}", "String") for n in range(3)] + [ID] * 4
    head = ((*[address] * 3, *[4711] * 4),) * 3
    (page,) = draw(make_part(replace(SALES, columns=tuple(columns), head=head)))

    assert 9 == page.count(address)


def test_fonts_are_found_where_they_are(tmp_path: Path):
    """Both files must be there; the first folder that has them wins."""
    (tmp_path / "DejaVuSans.ttf").touch()
    assert find_fonts([tmp_path]) is None

    (tmp_path / "DejaVuSans-Bold.ttf").touch()
    assert (tmp_path / "DejaVuSans.ttf", tmp_path / "DejaVuSans-Bold.ttf") == (
        find_fonts([tmp_path / "none", tmp_path])
    )


def test_cells_of_the_pdf_are_light():
    """Text in the tables is on white; only the title and the bars are dark."""
    pdf = make_pdf(write(), now=NOW, fonts=None)
    drawn = b"".join(find_streams(pdf))

    _before, _, rows = drawn.partition(b"(First rows)")
    fills = re.findall(
        rb"([\d.]+ [\d.]+ [\d.]+) rg\s+[\d.]+ [\d.]+ [\d.]+ -?[\d.]+ re", rows
    )
    assert {b"1 1 1"} >= set(fills)
