"""
The executive summary in the language of a reader. Pure.

All words, numbers and dates are made here, once for each language; the three forms of
a summary only lay them out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal

from operations.mail.summary.content import (
    MOST_FIGURES,
    ColumnRole,
    ShownColumn,
    Summary,
    SummaryPart,
    compare,
)
from operations.mail.words import Words

#: Columns in the table of first rows: of a mail on a telephone, and of a page of A4.
NARROW, WIDE = 4, 7

#: Characters of a cell, and of a title that stands in one.
LONGEST_CELL = 32

#: Columns that are named of those for which there is no room.
MOST_NAMED = 12


@dataclass(frozen=True, slots=True)
class FigureText:
    """
    A line in the table of figures.

    Args:
        title: Of the column.
        span: From the smallest to the largest value; empty for the number of rows.
        total: The sum; empty if there is none.
        change: The difference, such as ``+24 (+2.0%)``; empty if it is not compared.
    """

    title: str
    span: str
    total: str
    change: str


@dataclass(frozen=True, slots=True)
class TableText:
    """
    First rows of a domain, as far as there is room.

    Args:
        is_number: Which columns hold numbers, for they stand to the right.
        hidden: Names the columns that are not shown; empty: all are.
    """

    head: tuple[str, ...]
    is_number: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    hidden: str


@dataclass(frozen=True, slots=True)
class PartText:
    """
    A domain in a summary.

    Args:
        since: Head of the column with changes. None: nothing is compared.
        more_figures: Names the columns whose figures are not shown; may be empty.
    """

    title: str
    description: str | None
    details: str
    figures: tuple[FigureText, ...]
    since: str | None
    more_figures: str
    narrow: TableText
    wide: TableText


@dataclass(frozen=True, slots=True)
class SummaryText:
    """A summary, all of it in words; *lang* is their language tag."""

    lang: str
    subject: str
    kicker: str
    app_name: str
    instant: str
    overview: str
    head_figures: str
    head_total: str
    first_rows: str
    parts: tuple[PartText, ...]
    unpublished: str
    sent_by: str
    pdf: str


def write_summary(summary: Summary, words: Words) -> SummaryText:
    """Return *summary* as *words* put it."""
    unpublished = ", ".join(summary.unpublished)
    return SummaryText(
        lang=words.tag,
        subject=words.say(
            "summary.subject", app=summary.app_name, day=words.day(summary.now)
        ),
        kicker=words.say("summary.kicker"),
        app_name=summary.app_name,
        instant=words.say(
            "summary.zone", instant=words.instant(summary.now), zone=summary.zone.key
        ),
        overview=_write_overview(summary, words),
        head_figures=words.say("summary.figures"),
        head_total=words.say("summary.total"),
        first_rows=words.say("summary.first_rows"),
        parts=tuple(_write_part(part, summary.now, words) for part in summary.parts),
        unpublished=(
            words.say("summary.unpublished", names=unpublished) if unpublished else ""
        ),
        sent_by=words.say("summary.sent_by", action=summary.action_name),
        pdf=words.say("summary.pdf"),
    )


def _write_overview(summary: Summary, words: Words) -> str:
    if not summary.parts:
        return words.say("summary.empty")
    rows = sum(part.data.version.rows for part in summary.parts)
    return words.say(
        "summary.overview", len(summary.parts), rows=words.say("rows", rows)
    )


def _write_part(part: SummaryPart, now: datetime, words: Words) -> PartText:
    version = part.data.version
    figures = (*_write_rows(part, words), *_write_figures(part, words))
    day = part.former and _write_day(part.former.at, now, words)
    left = [figure.title for figure in part.figures[MOST_FIGURES:]]
    return PartText(
        title=part.title,
        description=part.description,
        details=words.say(
            "summary.details",
            rows=words.say("rows", version.rows),
            columns=words.say("columns", len(part.data.columns)),
            age=words.age(version.created_at, now=now),
            instant=words.instant(version.created_at),
            version=version.number,
        ),
        figures=figures,
        since=words.say("summary.since", day=day) if day else None,
        more_figures=_name(left, "summary.more_figures", words),
        narrow=_write_table(part, NARROW, words),
        wide=_write_table(part, WIDE, words),
    )


def _write_day(at: datetime, now: datetime, words: Words) -> str:
    """Return the day of the former summary; of one of today, with its time."""
    day = words.short_day(at)
    return words.instant(at) if day == words.short_day(now) else day


def _write_rows(part: SummaryPart, words: Words) -> Iterator[FigureText]:
    """Tell how many rows there are, if that can be compared; the details have it."""
    if part.former is not None:
        rows = part.data.version.rows
        change = _write_change(rows, part.former.rows, words)
        yield FigureText(words.say("summary.row_count"), "", words.number(rows), change)


def _write_figures(part: SummaryPart, words: Words) -> Sequence[FigureText]:
    return [
        FigureText(
            title=_cut(figure.title),
            span=_write_span(figure, words),
            total=_write_total(figure, words),
            change=_compare(part, figure, words),
        )
        for figure in part.figures[:MOST_FIGURES]
    ]


def _write_span(figure: ShownColumn, words: Words) -> str:
    column, grouped = figure.column, figure.role is not ColumnRole.CALENDAR
    return words.say(
        "summary.range",
        smallest=words.number(column.minimum, grouped=grouped),
        largest=_add_unit(words.number(column.maximum, grouped=grouped), figure.unit),
    )


def _write_total(figure: ShownColumn, words: Words) -> str:
    if figure.role is not ColumnRole.QUANTITY:
        return ""
    return _add_unit(words.number(figure.column.total), figure.unit)


def _add_unit(number: str, unit: str | None) -> str:
    return f"{number}\N{NO-BREAK SPACE}{unit}" if unit else number


def _compare(part: SummaryPart, figure: ShownColumn, words: Words) -> str:
    total = figure.column.total
    if part.former is None or figure.role is not ColumnRole.QUANTITY or total is None:
        return ""
    before = part.former.sums.get(figure.column.name)
    if before is None or not math.isfinite(total):
        return words.say("summary.new")
    return _write_change(total, before, words)


def _write_change(now: float, before: float, words: Words) -> str:
    difference, ratio = compare(now, before)
    if difference == 0:
        return words.say("summary.unchanged")
    if ratio is None:
        return words.signed(difference)
    return f"{words.signed(difference)} ({words.signed_percent(ratio)})"


def _write_table(part: SummaryPart, width: int, words: Words) -> TableText:
    shown, hidden = part.columns[:width], part.columns[width:]
    return TableText(
        head=tuple(_cut(column.heading) for column in shown),
        is_number=tuple(column.has_figures for column in shown),
        rows=tuple(
            tuple(
                _write_cell(value, column.role, words)
                for value, column in zip(row, shown, strict=False)
            )
            for row in part.data.head
        ),
        hidden=_name([column.title for column in hidden], "summary.hidden", words),
    )


def _write_cell(value: object, role: ColumnRole | None, words: Words) -> str:
    """Return a value as people of a language write it; what is missing is empty."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case int() | float() | Decimal():
            grouped = role not in {ColumnRole.CALENDAR, ColumnRole.NAME}
            number = float(value) if isinstance(value, Decimal) else value
            return words.number(number, grouped=grouped)
        case date():
            return _write_date(value, words)
        case _:
            return _cut(str(value))


def _write_date(value: date, words: Words) -> str:
    if not isinstance(value, datetime):
        return words.short_day(datetime.combine(value, time(12), words.zone))
    # Without an offset, nobody knows its zone: it is shown as it is.
    aware = value if value.tzinfo else value.replace(tzinfo=words.zone)
    try:
        return words.instant(aware)
    except OverflowError:  # the first or last day that a calendar has
        return str(value)


def _name(names: Sequence[str], key: str, words: Words) -> str:
    """Return a sentence that names what is left out; empty if nothing is."""
    if not names:
        return ""
    told = ", ".join(map(_cut, names[:MOST_NAMED]))
    more = len(names) - MOST_NAMED
    if more > 0:
        told = words.say("and_more", more, names=told)
    return words.say(key, len(names), names=told)


def _cut(text: str) -> str:
    """Return *text* on one line, cut to what a cell holds."""
    line = " ".join(text[: LONGEST_CELL * 8].split())
    return line if len(line) <= LONGEST_CELL else f"{line[: LONGEST_CELL - 1]}…"
