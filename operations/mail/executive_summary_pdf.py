"""
The executive summary as a PDF.

It uses a font of the host, if there is one, for letters beyond Latin-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fpdf import FPDF
from fpdf.enums import TableBordersLayout
from fpdf.fonts import FontFace

from operations.domains import DomainSummary
from operations.mail.executive_summary import (
    WIDEST,
    Summary,
    describe,
    find_figures,
    format_instant,
    format_number,
    shorten,
)

#: Where DejaVu Sans is on Debian, Fedora and Arch; the core fonts of PDF have
#: Latin-1 only. The image installs it.
FONT_FOLDERS = (
    Path("/usr/share/fonts/truetype/dejavu"),
    Path("/usr/share/fonts/dejavu-sans-fonts"),
    Path("/usr/share/fonts/TTF"),
)

_INK = (31, 41, 51)
_PALE = (97, 110, 124)
_BAND = (36, 59, 83)
_STRIPE = (245, 247, 250)


def find_fonts(folders: Sequence[Path] = FONT_FOLDERS) -> tuple[Path, Path] | None:
    """Return the regular and bold DejaVu Sans of the host; None if it has none."""
    for folder in folders:
        regular, bold = folder / "DejaVuSans.ttf", folder / "DejaVuSans-Bold.ttf"
        if regular.is_file() and bold.is_file():
            return regular, bold
    return None


def make_pdf(summary: Summary, *, fonts: tuple[Path, Path] | None) -> bytes:
    """
    Return *summary* as a PDF of A4 pages.

    Args:
        summary: What the mail says as well.

        fonts: Regular and bold TrueType files. None: a core font, in which letters
            beyond Latin-1 become question marks.
    """
    page = _Page(fonts)
    page.write_title(summary)
    for domain in summary.domains:
        page.write_domain(summary, domain)
    page.write_end(summary)
    return page.finish()


class _Page:
    """The pages, written from top to bottom."""

    def __init__(self, fonts: tuple[Path, Path] | None) -> None:
        self._pdf = FPDF(format="A4")
        self._pdf.set_margin(18)
        self._pdf.set_auto_page_break(auto=True, margin=18)
        self._any_letter = fonts is not None
        self._family = "Helvetica"
        if fonts is not None:
            self._family = "DejaVu"
            regular, bold = fonts
            self._pdf.add_font("DejaVu", "", regular)
            self._pdf.add_font("DejaVu", "B", bold)
        self._pdf.add_page()

    def _text(self, text: str) -> str:
        if self._any_letter:
            return text
        plain = text.translate({0x2013: "-", 0x2026: "...", 0x201C: '"', 0x201D: '"'})
        return plain.encode("latin-1", "replace").decode("latin-1")

    def _line(
        self,
        text: str,
        size: float,
        *,
        bold: bool = False,
        ink: tuple[int, int, int] = _INK,
    ) -> None:
        self._pdf.set_font(self._family, "B" if bold else "", size)
        self._pdf.set_text_color(*ink)
        self._pdf.multi_cell(
            0, size * 0.5, self._text(text), new_x="LMARGIN", new_y="NEXT"
        )

    def write_title(self, summary: Summary) -> None:
        self._pdf.set_title(summary.subject)
        self._pdf.set_creation_date(summary.now)
        self._pdf.set_fill_color(*_BAND)
        self._pdf.rect(0, 0, self._pdf.w, 34, style="F")
        self._pdf.set_y(9)
        self._line("EXECUTIVE SUMMARY", 8, ink=(200, 210, 220))
        self._line(summary.app_name, 18, bold=True, ink=(255, 255, 255))
        self._line(format_instant(summary.now), 9, ink=(200, 210, 220))
        self._pdf.set_y(42)
        self._line(summary.overview, 11)

    def write_domain(self, summary: Summary, domain: DomainSummary) -> None:
        # White space is better than a heading alone at the foot of a page.
        if self._pdf.will_page_break(40):
            self._pdf.add_page()
        self._pdf.ln(6)
        self._line(domain.domain, 13, bold=True)
        self._line(describe(domain, now=summary.now), 9, ink=_PALE)
        self._pdf.ln(2)
        figures = [
            (
                shorten(column.name),
                format_number(column.minimum),
                format_number(column.maximum),
                format_number(column.total),
            )
            for column in find_figures(domain)
        ]
        if figures:
            names = ("Column", "Smallest", "Largest", "Sum")
            self._table(names, figures, sides=("LEFT", "RIGHT", "RIGHT", "RIGHT"))
        if domain.head:
            self._pdf.ln(2)
            self._line("First rows", 8, ink=_PALE)
            columns = tuple(shorten(c.name) for c in domain.columns[:WIDEST])
            rows = [tuple(map(shorten, row[:WIDEST])) for row in domain.head]
            self._table(columns, rows, sides=("LEFT",) * len(columns))

    def _table(
        self,
        names: tuple[str, ...],
        rows: Sequence[tuple[str, ...]],
        *,
        sides: tuple[str, ...],
    ) -> None:
        self._pdf.set_font(self._family, "", 8)
        self._pdf.set_text_color(*_INK)
        self._pdf.set_draw_color(203, 210, 217)
        # Rows without a stripe are also filled, with the color that was set last.
        self._pdf.set_fill_color(255, 255, 255)
        with self._pdf.table(
            text_align=sides,
            borders_layout=TableBordersLayout.HORIZONTAL_LINES,
            cell_fill_color=_STRIPE,
            cell_fill_mode="EVEN_ROWS",
            headings_style=FontFace(emphasis="BOLD", color=_PALE),
            line_height=5,
        ) as table:
            for row in (names, *rows):
                cells = table.row()
                for cell in row:
                    cells.cell(self._text(cell))

    def write_end(self, summary: Summary) -> None:
        if summary.unpublished:
            self._pdf.ln(6)
            names = ", ".join(summary.unpublished)
            self._line(f"Not published yet: {names}.", 9, ink=_PALE)
        self._pdf.ln(8)
        self._line(
            f"Sent by the scheduled action “{summary.action_name}”.", 8, ink=_PALE
        )

    def finish(self) -> bytes:
        return bytes(self._pdf.output())
