"""The schedules of docs/schedules.md are due when that page says."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from actions.previews.preview import Preview, make_preview
from models.days_off import DateRangeModel
from models.door.app_documents import read_small_app
from models.door.documents import ReadContext, read_action
from models.fields.instants import format_instant
from models.fields.zone import load_zone
from models.small_app import SmallAppModel
from models.timing import DayRange, make_timing, merge_days

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "schedules.md").read_text("utf-8")
EXAMPLES = DOCS / "examples"

#: When the page was written, as it says itself.
START = datetime(2026, 11, 22, 12, tzinfo=UTC)

#: Examples that are no actions.
OTHERS = {"app", "action"}

_FILE = re.compile(r"\(examples/([\w-]+)\.json\): \*([^*]+)\*")
_DOCUMENT = re.compile(r"```json\n(.*?)\n```", re.DOTALL)
_ROW = re.compile(r"\| (\w{3} \d[^|]*) \| (\d[^|]*Z) \|([^|]*)\|")


@dataclass(frozen=True)
class Section:
    """What the page says of one schedule."""

    name: str
    sentence: str
    document: Any
    rows: list[tuple[str, str, str]]


def read_sections() -> list[Section]:
    """Return the sections of the page that have a document."""
    found = []
    for text in PAGE.split("\n## ")[1:]:
        for part in text.split("\n[`")[1:]:
            named = _FILE.search(part)
            document = _DOCUMENT.search(part)
            assert named is not None, part[:200]
            assert document is not None, part[:200]
            rows = [
                (local.strip(), utc, note.strip())
                for local, utc, note in _ROW.findall(part)
            ]
            found.append(Section(named[1], named[2], json.loads(document[1]), rows))
    return found


@cache
def read_app() -> SmallAppModel:
    """Return the small app of the examples."""
    return read_small_app((EXAMPLES / "app.json").read_text("utf-8"))


def read_holidays() -> dict[str, tuple[DayRange, ...]]:
    """Return its holiday calendars."""
    return {
        name: merge_days(
            (day.from_, day.until) if isinstance(day, DateRangeModel) else (day, day)
            for day in days
        )
        for name, days in (read_app().holidays or {}).items()
    }


def preview(name: str, count: int) -> Preview:
    """Return the first occurrences of the example *name*."""
    text = (EXAMPLES / f"{name}.json").read_text("utf-8")
    action = read_action(text, ReadContext(read_app().timezone or "UTC"))
    timing = make_timing(action, holidays=read_holidays(), created_at=START)
    return make_preview(
        action, timing, start=START, count=count, viewer_zone=load_zone("UTC")
    )


def show(shown: Preview) -> list[tuple[str, str, str]]:
    """Return occurrences as the page writes them."""
    return [
        (
            f"{each.local:%a %Y-%m-%d %H:%M %z}",
            format_instant(each.at),
            "; ".join(each.notes),
        )
        for each in shown.occurrences
    ]


def test_every_example_is_on_the_page() -> None:
    """Each document once, and none that is not there."""
    files = {path.stem for path in EXAMPLES.glob("*.json")} - OTHERS

    assert sorted(files) == sorted(each.name for each in read_sections())


@pytest.mark.parametrize("section", read_sections(), ids=lambda each: each.name)
def test_schedule_is_due_when_the_page_says(section: Section) -> None:
    """
    The document is the file's, the sentence the preview's, and so are the instants.
    """
    written = json.loads((EXAMPLES / f"{section.name}.json").read_text("utf-8"))
    shown = preview(section.name, max(len(section.rows), 1))

    assert written == section.document
    assert shown.sentence == section.sentence
    assert show(shown) == section.rows
