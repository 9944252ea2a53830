"""
The executive summary as a PDF.

It uses a font of the host, if there is one, for letters beyond Latin-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from fpdf import FPDF
from fpdf.enums import TableBordersLayout
from fpdf.fonts import FontFace

from operations.mail.summary.wording import PartText, SummaryText

#: Where DejaVu Sans is on Debian, Fedora and Arch; the core fonts of PDF have
#: Latin-1 only. The image installs it.
FONT_FOLDERS = (
    Path("/usr/share/fonts/truetype/dejavu"),
    Path("/usr/share/fonts/dejavu-sans-fonts"),
    Path("/usr/share/fonts/TTF"),
)

#: Millimetres.
_MARGIN = 18
_LINE = 4.6
_CELL_SPACE = 3
#: For a heading with the first rows of its table, which is not left alone at the foot
#: of a page.
_START, _START_OF_ROWS = 65, 45

_INK = (31, 41, 51)
_PALE = (82, 96, 109)
_BAND = (36, 59, 83)
_ON_BAND = (200, 210, 220)
_RULE = (203, 210, 217)

#: How a core font, which has Latin-1, writes what our sentences have beyond it.
_PLAIN = {
    0x2013: "-",
    0x2018: "'",
    0x2019: "'",
    0x201C: '"',
    0x201D: '"',
    0x2026: "...",
    0x20AC: "EUR",
    0x202F: "\N{NO-BREAK SPACE}",
}


def find_fonts(folders: Sequence[Path] = FONT_FOLDERS) -> tuple[Path, Path] | None:
    """Return the regular and bold DejaVu Sans of the host; None if it has none."""
    for folder in folders:
        regular, bold = folder / "DejaVuSans.ttf", folder / "DejaVuSans-Bold.ttf"
        if regular.is_file() and bold.is_file():
            return regular, bold
    return None


def make_pdf(
    summary: SummaryText, *, now: datetime, fonts: tuple[Path, Path] | None
) -> bytes:
    """
    Return *summary* as a PDF of A4 pages.

    Args:
        summary: What the mail says as well.
        now: When it was made, aware.
        fonts: Regular and bold TrueType files. None: a core font, in which letters
            beyond Latin-1 become question marks.
    """
    pages = _Pages(summary, now, fonts)
    pages.write()
    return bytes(pages.output())


class _Pages(FPDF):
    """The pages, written from top to bottom."""

    def __init__(
        self, summary: SummaryText, now: datetime, fonts: tuple[Path, Path] | None
    ) -> None:
        super().__init__(format="A4")
        self._summary = summary
        self._any_letter = fonts is not None
        self._family = "Helvetica"
        if fonts is not None:
            self._family = "DejaVu"
            regular, bold = fonts
            self.add_font("DejaVu", "", regular)
            self.add_font("DejaVu", "B", bold)
        self.set_margin(_MARGIN)
        self.set_auto_page_break(auto=True, margin=_MARGIN)
        self.set_title(summary.subject)
        self.set_lang(summary.lang)
        self.set_creation_date(now)

    def write(self) -> None:  # type: ignore[override]  # the one of FPDF writes a text
        """Write all pages."""
        self.add_page()
        self._write_title()
        for part in self._summary.parts:
            self._write_part(part)
        self._write_end()

    def footer(self) -> None:
        """Write the app's name and the number of the page, as FPDF asks for it."""
        self.set_y(-12)
        self._set_text(8, ink=_PALE)
        name, room = self._encode(self._summary.app_name), self.epw * 0.8
        while self.get_string_width(name) > room:
            name = name[:-1]
        self.cell(room, 4, name, align="L")
        self.cell(self.epw - room, 4, f"{self.page_no()} / {{nb}}", align="R")

    def _encode(self, text: str) -> str:
        if self._any_letter:
            return text
        return text.translate(_PLAIN).encode("latin-1", "replace").decode("latin-1")

    def _set_text(
        self, size: float, *, bold: bool = False, ink: tuple[int, int, int] = _INK
    ) -> None:
        self.set_font(self._family, "B" if bold else "", size)
        self.set_text_color(*ink)

    def _line(
        self,
        text: str,
        size: float,
        *,
        bold: bool = False,
        ink: tuple[int, int, int] = _INK,
    ) -> None:
        self._set_text(size, bold=bold, ink=ink)
        self.multi_cell(
            0, size * 0.5, self._encode(text), align="L", new_x="LMARGIN", new_y="NEXT"
        )

    def _keep_room(self, height: float) -> None:
        """Begin a page if *height* (mm) does not fit on this one."""
        if self.will_page_break(height):
            self.add_page()

    def _write_title(self) -> None:
        text = self._summary
        self._set_text(18, bold=True)
        name = self.multi_cell(
            0, 9, self._encode(text.app_name), dry_run=True, output="HEIGHT"
        )
        assert isinstance(name, float)  # what output="HEIGHT" returns
        height = 25 + name
        self.set_fill_color(*_BAND)
        self.rect(0, 0, self.w, height, style="F")
        self.set_y(9)
        self._line(text.kicker, 9, ink=_ON_BAND)
        self._line(text.app_name, 18, bold=True, ink=(255, 255, 255))
        self._line(text.instant, 9, ink=_ON_BAND)
        self.set_y(height + 8)
        self._line(text.overview, 11)

    def _write_part(self, part: PartText) -> None:
        self._keep_room(_START)
        self.ln(6)
        self._line(part.title, 13, bold=True)
        if part.description:
            self._line(part.description, 10)
        self._line(part.details, 9, ink=_PALE)
        self.ln(2)
        if part.figures:
            self._write_figures(part)
        if part.wide.rows:
            self._write_rows(part)

    def _write_figures(self, part: PartText) -> None:
        text = self._summary
        rows = [
            (f"{figure.title}\n{figure.span}".rstrip(), figure.total, figure.change)
            for figure in part.figures
        ]
        head = (text.head_figures, text.head_total, part.since or "")
        self._write_table([head, *rows], (44, 24, 32), ("LEFT", "RIGHT", "RIGHT"))
        self._note(part.more_figures)

    def _write_table(
        self,
        rows: Sequence[Sequence[str]],
        widths: Sequence[float],
        align: Sequence[str],
    ) -> None:
        """Write a table, whose first row is repeated on each page."""
        self._set_text(8)
        self.set_draw_color(*_RULE)
        # Cells without a color of their own are filled with the one that was set last.
        self.set_fill_color(255, 255, 255)
        with self.table(
            col_widths=widths,
            text_align=align,
            borders_layout=TableBordersLayout.HORIZONTAL_LINES,
            headings_style=FontFace(emphasis="BOLD", color=_PALE),
            line_height=_LINE,
        ) as drawn:
            for cells in rows:
                drawn.row([self._encode(cell) for cell in cells])

    def _note(self, text: str) -> None:
        """Write what is said below a table, if anything is."""
        if text:
            self.ln(1)
            self._line(text, 8, ink=_PALE)

    def _write_rows(self, part: PartText) -> None:
        table = part.wide
        self._keep_room(_START_OF_ROWS)
        self.ln(4)
        self._line(self._summary.first_rows, 9, bold=True)
        self._set_text(8)
        align = ["RIGHT" if each else "LEFT" for each in table.is_number]
        rows = [table.head, *table.rows]
        self._write_table(rows, self._share_width(rows), align)
        self._note(table.hidden)

    def _share_width(self, rows: Sequence[Sequence[str]]) -> list[float]:
        """Return the widths of columns: by their texts, as far as that goes."""
        self.set_font(style="B")  # which is wider; the first row is bold
        widths = [
            max(self.get_string_width(self._encode(cell)) for cell in column)
            for column in zip(*rows, strict=True)
        ]
        self.set_font(style="")
        # Together no more than there is: a table that is shrunk to the page might have
        # a column in which no letter fits, which fpdf2 refuses. From the narrowest on,
        # each takes at most an equal share of what those before it left.
        room = self.epw - _CELL_SPACE * len(widths)
        most = room
        for number, width in enumerate(sorted(widths)):
            most = room / (len(widths) - number)
            room -= min(width, most)
        return [min(width, most) + _CELL_SPACE for width in widths]

    def _write_end(self) -> None:
        if self._summary.unpublished:
            self.ln(6)
            self._line(self._summary.unpublished, 9, ink=_PALE)
        self.ln(6)
        self._line(self._summary.sent_by, 8, ink=_PALE)
