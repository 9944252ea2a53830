"""
The executive summary: its content, and its plain text. Pure.

executive_summary_html.py and executive_summary_pdf.py have the same content.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from operations.domains import Column, DomainSummary

#: Columns in the table of first rows; more do not fit into the width of a mail.
WIDEST = 6

#: Characters of a cell, for the same reason.
LONGEST_CELL = 32

#: Rows shown of each domain.
HEAD = 5

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


@dataclass(frozen=True, slots=True)
class Summary:
    """
    What is live in a small app.

    Args:
        app_name: As people know it.

        action_name: The action that sends it.

        now: Aware UTC; ages are computed at this instant.

        domains: Ordered by name; empty if nothing was ever published.

        unpublished: Domains that were never published.
    """

    app_name: str
    action_name: str
    now: datetime
    domains: tuple[DomainSummary, ...]
    unpublished: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The mail's subject, also the title of the PDF."""
        return f"Executive summary: {self.app_name}, {self.now:%d %B %Y}"

    @property
    def overview(self) -> str:
        """One sentence about the whole summary."""
        if not self.domains:
            return "This small app has no live data yet: nothing was published."
        rows = sum(domain.version.rows for domain in self.domains)
        count = len(self.domains)
        return (
            f"{format_number(rows)} {plural(rows, 'row')} "
            f"in {count} {plural(count, 'domain')}."
        )


def plural(count: int, noun: str) -> str:
    """Return *noun* in the singular or plural, as *count* demands."""
    return noun if count == 1 else f"{noun}s"


def format_number(number: float | None) -> str:
    """
    Return *number* for people: with thousands separators, and two decimals if any.

    >>> format_number(1234567), format_number(0.00012), format_number(12.5)
    ('1,234,567', '0.00012', '12.50')
    """
    if number is None:
        return "–"  # noqa: RUF001 - a dash that says "no value"
    if isinstance(number, int) or (number.is_integer() and abs(number) < 1e15):
        return f"{int(number):,}"
    if 0.01 <= abs(number) < 1e15:
        return f"{number:,.2f}"
    return f"{number:.6g}"


def format_age(since: datetime, *, now: datetime) -> str:
    """
    Return how long ago *since* was, in its largest unit.

    Args:
        since: Aware.

        now: Aware; before *since* (clocks differ) counts as now.
    """
    seconds = int((now - since).total_seconds())
    if seconds < _MINUTE_S:
        return "just now"
    for size, noun in ((_DAY_S, "day"), (_HOUR_S, "hour"), (_MINUTE_S, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {plural(count, noun)} ago"
    return "just now"


def format_instant(instant: datetime) -> str:
    """Return *instant* (aware) as ``2026-11-23 06:00 UTC``."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def shorten(text: str) -> str:
    """Return *text* on one line, cut to what a cell holds."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_CELL else f"{line[: LONGEST_CELL - 1]}…"


def describe(domain: DomainSummary, *, now: datetime) -> str:
    """Return the line below a domain's name."""
    version = domain.version
    columns = len(domain.columns)
    return (
        f"{format_number(version.rows)} {plural(version.rows, 'row')}, "
        f"{columns} {plural(columns, 'column')}. Version {version.number}, read "
        f"{format_age(version.created_at, now=now)} "
        f"({format_instant(version.created_at)})."
    )


def find_figures(domain: DomainSummary) -> tuple[Column, ...]:
    """Return the columns that have figures: numbers, with at least one value."""
    return tuple(column for column in domain.columns if column.minimum is not None)


def make_text(summary: Summary) -> str:
    """Return the plain text part."""
    lines = [summary.subject, "", summary.overview]
    for domain in summary.domains:
        lines += ["", domain.domain, "-" * len(domain.domain)]
        lines.append(describe(domain, now=summary.now))
        lines += [
            f"  {column.name}: smallest {format_number(column.minimum)}, "
            f"largest {format_number(column.maximum)}, "
            f"sum {format_number(column.total)}"
            for column in find_figures(domain)
        ]
    if summary.unpublished:
        lines += ["", f"Not published yet: {', '.join(summary.unpublished)}."]
    lines += ["", f"Sent by the scheduled action “{summary.action_name}”."]
    return "\n".join(lines) + "\n"
