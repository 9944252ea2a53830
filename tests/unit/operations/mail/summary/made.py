"""A summary to look at, with a bit of everything."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from operations.domains import Column, Domain, DomainSummary, Fingerprint, Version
from operations.mail.summary import content
from operations.mail.summary.content import Former, Summary, SummaryPart
from operations.mail.summary.wording import SummaryText, write_summary
from operations.mail.words import find_words

#: Seven in the morning in Paris.
NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
PARIS = ZoneInfo("Europe/Paris")
WEEK = timedelta(days=7)

VERSION = Version(
    2, Path("2.parquet"), 3, 10, NOW - timedelta(days=2), Fingerprint(source="s")
)
SALES = DomainSummary(
    "sales",
    VERSION,
    (
        Column("city", "String"),
        Column("amount", "Int64", -5, 1000, 1234567),
        Column("year", "Int64", 2019, 2026, 6066),
        Column("id", "Int64", 1, 4711, 4720),
        Column("empty", "Float64"),
    ),
    (("Zürich 東京", 7, 2026, 4711, None), ("<script>", 8, 2025, 8, None)),
)


FORMER = Former(NOW - WEEK, 2, {"amount": 1000000})


def make_part(
    data: DomainSummary, former: Former | None = None, **labels: Any
) -> SummaryPart:
    """Return *data* with what app.json says of them."""
    return content.make_part(Domain("d", {}, labels=labels), data, former)


def make_sales(
    former: Former | None = FORMER, columns: dict[str, Any] | None = None
) -> SummaryPart:
    """Return the sales, as app.json may describe them."""
    turnover = {"amount": {"title": "Turnover", "unit": "€"}}
    return make_part(SALES, former, title="Sales <EU>", columns=columns or turnover)


def make_summary(*parts: SummaryPart) -> Summary:
    """Return a summary of *parts*; of the sales if there are none."""
    return Summary("Demo & Co", "weekly", NOW, PARIS, parts or (make_sales(),), ("b",))


def write(summary: Summary | None = None, tag: str = "en") -> SummaryText:
    """Return *summary* in the language *tag*."""
    shown = summary or make_summary()
    return write_summary(shown, find_words(tag, zone=shown.zone))
