"""A summary to look at, with a bit of everything."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from operations.domains import Column, DomainSummary, Fingerprint, Version
from operations.mail.summary.content import ColumnLabel, Former, Summary, SummaryPart
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


def make_sales(**changes: Any) -> SummaryPart:
    """Return the sales, as app.json may describe them."""
    values: dict[str, Any] = {
        "title": "Sales <EU>",
        "labels": {"amount": ColumnLabel("Turnover", "€")},
        "former": Former(NOW - WEEK, 2, {"amount": 1000000}),
    }
    return SummaryPart(SALES, **{**values, **changes})


def make_summary(*parts: SummaryPart) -> Summary:
    """Return a summary of *parts*; of the sales if there are none."""
    return Summary("Demo & Co", "weekly", NOW, PARIS, parts or (make_sales(),), ("b",))


def write(summary: Summary | None = None, tag: str = "en") -> SummaryText:
    """Return *summary* in the language *tag*."""
    shown = summary or make_summary()
    return write_summary(shown, find_words(tag, zone=shown.zone))
