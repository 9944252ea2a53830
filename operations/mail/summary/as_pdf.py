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

from operations.mail.summary.wording import FigureText, PartText, SummaryText

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
_ROW_LINE = 5
_CELL_SPACE = 1.2
_BAR_WIDTH, _BAR_HEIGHT = 26, 1.1

#: Rows of a table that stay with its heading: fewer look lost at the foot of a page.
_KEPT_ROWS = 2

_INK = (31, 41, 51)
_PALE = (82, 96, 109)
_BAND = (36, 59, 83)
_ON_BAND = (200, 210, 220)
_RULE = (203, 210, 217)
_BEFORE = (188, 204, 220)
_NOW = (38, 128, 194)

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

    def _count_lines(self, text: str, width: float) -> int:
        """Return how many lines *text* takes in the present font."""
        lines = self.multi_cell(
            width, _LINE, self._encode(text), align="L", dry_run=True, output="LINES"
        )
        assert isinstance(lines, list)  # what output="LINES" returns
        return max(1, len(lines))

    def _keep_together(self, height: float) -> None:
        """Begin a page if *height* (mm) does not fit on this one."""
        # White space is better than a heading alone at the foot of a page. What is
        # higher than a page gains nothing from a new one.
        if self.will_page_break(height) and height < self.eph:
            self.add_page()

    def _write_title(self) -> None:
        text = self._summary
        self._set_text(18, bold=True)
        name_lines = self._count_lines(text.app_name, self.epw)
        height = 25 + name_lines * 9
        self.set_fill_color(*_BAND)
        self.rect(0, 0, self.w, height, style="F")
        self.set_y(9)
        self._line(text.kicker, 9, ink=_ON_BAND)
        self._line(text.app_name, 18, bold=True, ink=(255, 255, 255))
        self._line(text.instant, 9, ink=_ON_BAND)
        self.set_y(height + 8)
        self._line(text.overview, 11)

    def _write_part(self, part: PartText) -> None:
        self._keep_together(self._measure_start(part))
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

    def _measure_start(self, part: PartText) -> float:
        """Return the height of a heading with the first rows of its table."""
        self._set_text(13, bold=True)
        height = 6 + self._count_lines(part.title, self.epw) * 6.5
        self._set_text(10)
        height += self._count_lines(part.description or "", self.epw) * 5
        self._set_text(9)
        height += self._count_lines(part.details, self.epw) * 4.5 + 2
        if not part.figures:
            return height + self._measure_rows(part)
        kept = [self._make_head(part), *part.figures][: 1 + _KEPT_ROWS]
        if len(part.figures) <= _KEPT_ROWS:
            height += self._measure_notes(part)  # they stay with the last row
        return height + sum(map(self._measure_figure, kept))

    def _measure_notes(self, part: PartText) -> float:
        """Return the height of what is said below the table of figures."""
        self._set_text(8)
        return sum(
            1 + 4 * self._count_lines(told, self.epw) for told in _find_notes(part)
        )

    def _make_head(self, part: PartText) -> FigureText:
        """Return the head of the table of figures, which is as high as a short row."""
        return FigureText(self._summary.head_figures, "", part.since or "", None)

    # The table of figures is drawn by hand: it has bars.

    def _write_figures(self, part: PartText) -> None:
        notes_height = self._measure_notes(part)
        self._write_figures_head(part)
        for figure in part.figures:
            height = self._measure_figure(figure)
            # What is said below the table stays with its last row.
            follows = notes_height if figure is part.figures[-1] else 0
            if self.will_page_break(height + follows):
                self.add_page()
                self._write_figures_head(part)
            self._write_figure(figure, height)
        for told in _find_notes(part):
            self.ln(1)
            self._line(told, 8, ink=_PALE)

    def _find_columns(self) -> list[tuple[float, float]]:
        """Return where title, total and change begin, and their widths."""
        shares = ((0, 0.44), (0.44, 0.24), (0.68, 0.32))
        return [(self.l_margin + at * self.epw, part * self.epw) for at, part in shares]

    def _measure_figure(self, figure: FigureText) -> float:
        (_, left), (_, middle), (_, right) = self._find_columns()
        change = figure.change
        self._set_text(9)
        lines = self._count_lines(figure.title, left)
        changes = self._count_lines(change.text, right) if change else 0
        changes += 1 if change and change.shares else 0
        self._set_text(9, bold=True)
        totals = self._count_lines(figure.total, middle)
        self._set_text(8)
        lines += self._count_lines(figure.span, left) if figure.span else 0
        return max(lines, totals, changes) * _LINE + 2 * _CELL_SPACE

    def _write_figures_head(self, part: PartText) -> None:
        text = self._summary
        self._set_text(8, bold=True, ink=_PALE)
        top = self.get_y() + _CELL_SPACE
        heads = (text.head_figures, text.head_total, part.since or "")
        for head, column, align in zip(heads, self._find_columns(), "LRR", strict=True):
            self._put(head, column, top, align)
        self._end_row(top + _LINE + _CELL_SPACE)

    def _write_figure(self, figure: FigureText, height: float) -> None:
        left, middle, right = self._find_columns()
        begin, top = self.get_y(), self.get_y() + _CELL_SPACE
        self._set_text(9)
        self._put(figure.title, left, top, "L")
        if figure.span:
            after = top + _LINE * self._count_lines(figure.title, left[1])
            self._set_text(8, ink=_PALE)
            self._put(figure.span, left, after, "L")
        self._set_text(9, bold=True)
        self._put(figure.total, middle, top, "R")
        if figure.change is not None:
            self._set_text(9)
            self._put(figure.change.text, right, top, "R")
            if figure.change.shares is not None:
                self._draw_bars(figure.change.shares, self.get_y() + 0.8)
        self._end_row(begin + height)

    def _put(
        self, text: str, column: tuple[float, float], y: float, align: str
    ) -> None:
        x, width = column
        self.set_xy(x, y)
        self.multi_cell(width, _LINE, self._encode(text), align=align, new_y="NEXT")

    def _draw_bars(self, shares: tuple[float, float], y: float) -> None:
        x = self.w - _MARGIN - _BAR_WIDTH
        for share, color in zip(shares, (_BEFORE, _NOW), strict=True):
            self.set_fill_color(*color)
            width = max(share * _BAR_WIDTH, 0.3)
            self.rect(x, y, width, _BAR_HEIGHT, style="F")
            y += _BAR_HEIGHT + 0.3

    def _end_row(self, y: float) -> None:
        self.set_draw_color(*_RULE)
        self.line(self.l_margin, y, self.w - _MARGIN, y)
        self.set_xy(self.l_margin, y)

    def _write_rows(self, part: PartText) -> None:
        table = part.wide
        self._keep_together(self._measure_rows(part))
        self.ln(4)
        self._line(self._summary.first_rows, 9, bold=True)
        self._set_text(8)
        self.set_draw_color(*_RULE)
        # Cells without a color of their own are filled with the one that was set last.
        self.set_fill_color(255, 255, 255)
        rows = self._encode_rows(part)
        with self.table(
            col_widths=self._share_width(rows),
            text_align=["RIGHT" if each else "LEFT" for each in table.is_number],
            borders_layout=TableBordersLayout.HORIZONTAL_LINES,
            headings_style=FontFace(emphasis="BOLD", color=_PALE),
            line_height=_ROW_LINE,
        ) as drawn:
            for cells in rows:
                drawn.row(cells)
        if table.hidden:
            self.ln(1)
            self._line(table.hidden, 8, ink=_PALE)

    def _encode_rows(self, part: PartText) -> list[list[str]]:
        table = part.wide
        return [
            [self._encode(cell) for cell in row] for row in (table.head, *table.rows)
        ]

    def _measure_rows(self, part: PartText) -> float:
        """Return the height of the first rows of its second table, with its heading."""
        if not part.wide.rows:
            return 0
        self._set_text(8)
        rows = self._encode_rows(part)
        widths = self._share_width(rows)
        heights = [
            max(map(self._count_lines, row, widths)) * _ROW_LINE
            for row in rows[: 1 + _KEPT_ROWS]
        ]
        return 4 + 5 + sum(heights)

    def _share_width(self, rows: Sequence[Sequence[str]]) -> list[float]:
        """Return the widths of columns: by their texts, as far as that goes."""
        self.set_font(style="B")  # which is wider; the first row is bold
        widths = [
            min(max(map(self.get_string_width, column)), self.epw / 3) + 3
            for column in zip(*rows, strict=True)
        ]
        self.set_font(style="")
        return [width * self.epw / sum(widths) for width in widths]

    def _write_end(self) -> None:
        if self._summary.unpublished:
            self.ln(6)
            self._line(self._summary.unpublished, 9, ink=_PALE)
        self.ln(6)
        self._line(self._summary.sent_by, 8, ink=_PALE)


def _find_notes(part: PartText) -> list[str]:
    """Return what is said below the table of figures."""
    return [told for told in (part.bars, part.more_figures) if told]
