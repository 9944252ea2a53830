"""Calendar files are as RFC 5545 wants them."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from actions.load.calendar_file import CalendarEntry, fold, write_calendar

ID = UUID("3771f246-cc92-5326-b56a-8665f62de245")
AT = datetime(2026, 11, 23, 7, tzinfo=ZoneInfo("Europe/Paris"))


def make_entry(**changes: object) -> CalendarEntry:
    given = {
        "uid": ID,
        "at": AT,
        "changed_at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "revision": 3,
        "summary": "weekly",
        "description": "Mondays",
        "category": "quick",
        **changes,
    }
    return CalendarEntry(**given)  # type: ignore[arg-type]  # what tests change is of its type


def read(text: str) -> list[str]:
    """Return the lines of a file, unfolded."""
    assert text.endswith("\r\n")
    assert "\n" not in text.replace("\r\n", "")
    return text.replace("\r\n ", "").removesuffix("\r\n").split("\r\n")


def test_an_event_is_an_instant_with_its_own_id():
    """In UTC, and nobody is busy because of it."""
    lines = read(write_calendar("shop", "all", [make_entry(url="https://m/actions/x")]))

    begin, end = lines.index("BEGIN:VEVENT"), lines.index("END:VEVENT")
    assert [
        f"UID:{ID}",
        "DTSTAMP:20260102T030405Z",
        "DTSTART:20261123T060000Z",
        "SEQUENCE:3",
        "SUMMARY:weekly",
        "DESCRIPTION:Mondays",
        "CATEGORIES:quick",
        "URL:https://m/actions/x",
        "TRANSP:TRANSPARENT",
    ] == lines[begin + 1 : end]
    assert ("BEGIN:VCALENDAR", "END:VCALENDAR") == (lines[0], lines[-1])
    assert "VERSION:2.0" in lines


def test_text_cannot_become_syntax():
    """Whoever names an action writes no property of the file."""
    name = "a;b,c\\d\r\nEND:VEVENT\x00\x7f"

    text = write_calendar("x", "y", [make_entry(summary=name)])

    assert "SUMMARY:a\\;b\\,c\\\\d\\nEND:VEVENT" in read(text)
    assert 1 == read(text).count("END:VEVENT")


def test_a_calendar_without_events_has_a_component_all_the_same():
    """The grammar wants one."""
    lines = read(write_calendar("x", "y", []))

    assert "BEGIN:VTIMEZONE" in lines
    assert "BEGIN:VEVENT" not in lines


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"])))
def test_long_lines_are_folded_between_characters(text: str):
    """No part has more than 75 bytes, and together they are the line."""
    first, *others = fold(text)

    assert all(len(part.encode()) <= 75 for part in [first, *others])
    assert all(part.startswith(" ") for part in others)
    assert text == first + "".join(part[1:] for part in others)
