"""The page on time says what really happens, to us and to others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from croniter import croniter

from actions.when.cron import make_cron_rule
from actions.when.searching import find_occurrences
from models.fields.zone import load_zone
from models.when import CronModel
from tests.time.comparison import find_all_transitions
from tests.time.oracles import run_daemon

_PAGE = Path(__file__).parents[4] / "docs" / "time.md"

_HOUR = timedelta(hours=1)


def read_rows() -> list[list[str]]:
    """Return the rows of the table that compares us with others."""
    section = _PAGE.read_text("utf-8").split("## Beside others")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in lines]


def read_window(text: str) -> tuple[datetime, datetime]:
    """Return start and end of a window such as "2026-03-28 22:00 + 8 h"."""
    begin, _, hours = text.partition(" + ")
    start = datetime.fromisoformat(begin).replace(tzinfo=UTC)
    return start, start + int(hours.removesuffix(" h")) * _HOUR


def show(found: list[datetime]) -> str:
    """Write occurrences as the page does."""
    return " ".join(f"{instant:%H:%M}" for instant in found) or "none"


def test_table_is_found():
    """The page has the table that the tests below are about."""
    assert len(read_rows()) >= 20


@pytest.mark.parametrize("row", read_rows(), ids=lambda row: " ".join(row[:3]))
def test_page_says_what_we_do(row: list[str]):
    """The column of Minutehand is what the rule answers."""
    rule, zone, window, ours = row[:4]
    zoned = make_cron_rule(CronModel(cron_rule=rule, timezone=zone))

    assert ours == show(find_occurrences(zoned, *read_window(window)))


@pytest.mark.parametrize("row", read_rows(), ids=lambda row: " ".join(row[:3]))
def test_page_says_what_debian_does(row: list[str]):
    """The column of Debian is what the model of its daemon runs."""
    rule, zone, window, _, daemon = row[:5]
    start, end = read_window(window)
    ran = run_daemon(rule, find_all_transitions(zone), start - _HOUR, end)

    assert daemon == show([instant for instant in ran if instant >= start])


@pytest.mark.parametrize("row", read_rows(), ids=lambda row: " ".join(row[:3]))
def test_page_says_what_croniter_does(row: list[str]):
    """The column of croniter is what croniter answers."""
    rule, zone, window = row[:3]
    start, end = read_window(window)
    before = (start - timedelta(seconds=1)).astimezone(load_zone(zone))
    each = croniter(rule, before)
    found: list[datetime] = []
    while (due_at := each.get_next(datetime).astimezone(UTC)) < end:
        found.append(due_at)

    assert row[7] == show(found)
