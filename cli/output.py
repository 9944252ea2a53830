"""
How answers look: JSON for programs, tables for people, errors on standard error.

JSON has times as RFC 3339 in UTC. People see those of an action by the clock of its
rule, all others by that of this host, with UTC beside it where the two differ.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import zip_longest
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, TypeVar
from zoneinfo import ZoneInfo

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from models.errors import Problem
from models.json_form import write_json
from models.units import CONTROLS, show_instant

if TYPE_CHECKING:
    from actions.occurrences import Due
    from actions.pausing.pause_state import Pause

_T = TypeVar("_T")

#: Width of tables in files and pipes, unless COLUMNS says another.
_WIDE = 200

#: Below this, nothing can be read.
_NARROWEST = 20

#: What states look like in a terminal; the words say the same without colours. On pages
#: it is ``.s-<state>`` of web/static/style.css.
STATE_STYLES = {
    "pending": "yellow",
    "queued": "cyan",
    "running": "bold blue",
    "succeeded": "green",
    "failed": "bold red",
    "canceled": "magenta",
    "skipped": "bright_black",
    "missed": "red",
}


class Output(Console):
    """Where answers are shown; terminals obey us alone, whoever wrote what is shown."""

    #: Whether the command that runs was given ``--json``.
    wants_json = False

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what is shown, without the controls in its texts."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else CONTROLS.sub("", segment.text)
            yield segment._replace(text=text)

    def print(self, *objects: Any, **how: Any) -> None:
        """Print *objects*; what is no data is dropped where it cannot be written."""
        with suppress(OSError) if self.stderr else nullcontext():
            super().print(*objects, **how)

    def on_broken_pipe(self) -> None:
        """End well: the reader of data has all that it wants."""
        if not self.stderr:
            raise SystemExit(0)

    def say(self, message: str) -> None:
        """Print *message*; on standard error it is not data."""
        self.print(Text(message))

    def warn(self, message: str) -> None:
        """Print a warning: accepted, but perhaps not what was meant."""
        self.print(Text("warning: ", style="yellow").append(message, style="default"))

    def refuse(self, message: str) -> None:
        """Print an error; *message* may have several lines."""
        word = "error: "
        text = textwrap.indent(message, " " * len(word)).strip()
        self.print(Text(word, style="bold red").append(text, style="default"))

    def doubts(self, problems: Iterable[Problem]) -> None:
        """Print what may be mistakes; what many documents share is one line."""
        places: dict[tuple[str, str], list[str]] = {}
        for each in problems:
            told = places.setdefault((each.message, each.hint), [])
            told.append(each.pointer or "(document)")
        for (message, hint), where in places.items():
            more = f" and {len(where) - 1:,} more" if len(where) > 1 else ""
            self.warn(f"{where[0]}{more}: {message} {hint}".rstrip())

    def json(self, value: object, *, indented: bool | None = None) -> None:
        """Print *value* as JSON: indented, by default on a terminal, or on one line."""
        wanted = self.file.isatty() if indented is None else indented
        try:
            self.file.write(f"{write_json(value, indent=2 if wanted else None)}\n")
        except BrokenPipeError:
            self.on_broken_pipe()

    def gave_json(self, found: object) -> bool:
        """Print *found* as JSON if the command was given ``--json``; say whether."""
        if self.wants_json:
            self.json(found)
        return self.wants_json

    def found(self, found: _T, show: Callable[[_T], None]) -> None:
        """Print what a command found: as JSON, or by *show* for people."""
        if not self.gave_json(found):
            show(found)

    def listed(
        self,
        found: Iterable[_T],
        make_row: Callable[[_T], Mapping[str, str | Text]],
        *,
        empty: str = "",
        spare: Sequence[str] = (),
    ) -> None:
        """Print what a command lists: as JSON, or as a table, as ``table`` does."""
        if not self.gave_json(found):
            self.table(found, make_row, empty=empty, spare=spare)

    def table(
        self,
        found: Iterable[_T],
        make_row: Callable[[_T], Mapping[str, str | Text]],
        *,
        empty: str = "",
        spare: Sequence[str] = (),
        apart: bool = False,
    ) -> None:
        """
        Print a row for each of *found*, or *empty* on standard error if there is none.

        Args:
            found: What the rows are made of.
            make_row: Returns cells by the names of their columns, the same in each row.
                A column that is empty in all rows is left out.
            empty: What to say if there are no rows.
            spare: Columns that a narrow terminal does without, the first one first;
                what was left out is said below the table. If all that is too wide, each
                row becomes a block of names and values.
            apart: Whether an empty line is printed above the rows.
        """
        rows = [make_row(each) for each in found]
        if not rows:
            if empty:
                err().say(empty)
            return
        if apart:
            self.print()
        columns = {
            name: [Text(cell) if isinstance(cell, str) else cell for cell in cells]
            for name, *cells in zip(
                rows[0], *(row.values() for row in rows), strict=True
            )
        }
        shown = {
            name: column
            for name, column in columns.items()
            if any(cell.plain for cell in column)
        }
        left_out: list[str] = []
        kept = dict(shown)
        for name in (None, *spare):
            if name is not None and kept.pop(name, None) is not None:
                left_out.append(name)
            if sum(_find_least_widths(kept)) + _GAP * (len(kept) - 1) <= self.width:
                self.print(_make_columns(kept, self.width), soft_wrap=True)
                if left_out:
                    self.say(f"Not shown for lack of width: {', '.join(left_out)}")
                return
        for number, row in enumerate(zip(*shown.values(), strict=True)):
            if number:
                self.print()
            self.fields(zip(shown, (each or None for each in row), strict=True))

    def fields(self, fields: Iterable[tuple[str, str | Text | None]]) -> None:
        """Print one name and value per line; of those without a value, none."""
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in fields:
            if value is not None:
                table.add_row(name, Text(value) if isinstance(value, str) else value)
        self.print(table)


@cache
def out() -> Output:
    """Return the console for data."""
    return Output(
        highlight=False,
        emoji=False,
        soft_wrap=False,
        width=None if sys.stdout.isatty() else _find_pipe_width(),
    )


def _find_pipe_width() -> int:
    """Return what COLUMNS says, or _WIDE."""
    return max(_NARROWEST, get_terminal_size((_WIDE, 0)).columns)


@cache
def err() -> Output:
    """Return the console for everything that is not data."""
    return Output(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def format_in_utc(instant: datetime) -> str:
    """Return *instant* (aware) in UTC: ``2026-11-23 06:00:00Z``."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def format_local(local: datetime) -> str:
    """Return *local* (aware) by its own clock, with the day of the week."""
    return f"{local:%a %Y-%m-%d %H:%M:%S %z}"


def format_both(
    instant: datetime | None, zone: ZoneInfo | None = None, *, dash: str = "-"
) -> str:
    """
    Return *instant* (aware) by a clock, with UTC if that differs.

    Args:
        zone: That of the rule for which it is an occurrence. None: that of this host.
    """
    if instant is None:
        return dash
    if zone is not None:
        return show_instant(instant, zone)
    local = instant.astimezone()
    utc = instant.astimezone(UTC)
    if local.utcoffset() == timedelta(0):
        return format_in_utc(utc)
    shown = f"{utc:%H:%M:%S}Z" if local.date() == utc.date() else format_in_utc(utc)
    return f"{local:%Y-%m-%d %H:%M:%S} ({shown})"


def format_due(due: Due, zone: ZoneInfo) -> str:
    """Return an occurrence as ``format_both`` does, and when jitter delays sending."""
    shown = format_both(due.occurrence, zone)
    if due.due_at == due.occurrence:
        return shown
    return f"{shown}, sent {show_instant(due.due_at, zone)}"


def describe_pause(pause: Pause, zone: ZoneInfo | None = None) -> str:
    """Say since when, by whom, until when and why something (of *zone*) is paused."""
    parts = [f"since {format_both(pause.at, zone)}"]
    if pause.by is not None:
        parts.append(f"by {pause.by}")
    if pause.until is not None:
        parts.append(f"until {format_both(pause.until, zone)}")
    text = " ".join(parts)
    return text if pause.note is None else f"{text}: {pause.note}"


def say_until(pause: Pause | None, zone: ZoneInfo | None = None) -> str:
    """Return when a pause ends, to follow what (of *zone*) is paused."""
    if pause is None or pause.until is None:
        return ""
    return f" until {format_both(pause.until, zone)}"


def style_state(state: str) -> Text:
    """Return the name of a state in its colour."""
    return Text(state, style=STATE_STYLES.get(state, ""))


def _make_columns(columns: Mapping[str, Sequence[Text]], width: int) -> Text:
    """Return the columns side by side: rich takes a minute for 100,000 rows."""
    widths = _share_width(columns, width)
    heads = (Text(name, style="bold") for name in columns)
    lines = []
    for row in (heads, *zip(*columns.values(), strict=True)):
        folded = map(_fold, row, widths)
        for parts in zip_longest(*folded, fillvalue=Text()):
            line = Text()
            for cell, wide in zip(parts, widths, strict=True):
                line.append_text(cell).pad_right(wide + _GAP - cell.cell_len)
            line.rstrip()
            lines.append(line)
    return Text("\n").join(lines)


def _fold(cell: Text, width: int) -> Iterable[Text]:
    fits = cell.plain.isprintable() and cell.cell_len <= width
    return [cell] if fits else cell.wrap(out(), width, overflow="fold")


def _share_width(columns: Mapping[str, Sequence[Text]], width: int) -> list[int]:
    """
    Return the width of each column.

    A column first gets what keeps its words whole. What is left is shared equally among
    those that want more; what one does not need goes to the others.
    """
    widths = _find_least_widths(columns)
    wanted = [
        max(cell_len(name), *map(_measure_lines, cells))
        for name, cells in columns.items()
    ]
    spare = width - sum(widths) - _GAP * (len(widths) - 1)
    by_want = sorted(range(len(widths)), key=lambda each: wanted[each] - widths[each])
    for done, index in enumerate(by_want):
        fair = spare // (len(widths) - done)
        added = max(0, min(fair, wanted[index] - widths[index]))
        widths[index] += added
        spare -= added
    return widths


def _measure_lines(cell: Text) -> int:
    return max((cell_len(line) for line in cell.plain.splitlines()), default=0)


def _find_least_widths(columns: Mapping[str, Sequence[Text]]) -> list[int]:
    """
    Return for each column the width below which its words would be broken.

    Longer words than most, such as paths, may be broken: they would not fit anywhere.
    """
    return [
        max(
            _measure_lines(cell)
            if name in _WHOLE
            else max(
                (min(cell_len(word), _LONG_WORD) for word in _WORD.findall(cell.plain)),
                default=0,
            )
            for cell in (Text(name), *cells)
        )
        for name, cells in columns.items()
    ]


def make_table(columns: Sequence[str]) -> Table:
    """Return an empty table in our style."""
    table = Table(
        box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0)
    )
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in _WHOLE)
    return table


#: Columns that are never folded: half of such a value is useless.
_WHOLE = frozenset({"id", "uid", "state"})

#: What is not broken: words, and the date of an instant with its time.
_WORD = re.compile(r"\(?\d{4}-\d\d-\d\d \d\d:\d\d\S*|\S+")

#: Spaces between two columns.
_GAP = 2

#: Letters of a word that are kept together.
_LONG_WORD = 32
