"""
Calendar files as calendar programs read them: RFC 5545. Pure.

Only what is needed to show when something happens: events at an instant, in UTC.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

#: Bytes of a line without its end; longer ones are folded (section 3.1).
_LONGEST_LINE = 75

#: An installation without any event would be a calendar without a component, which the
#: grammar does not allow (section 3.6).
_NOTHING = (
    *("BEGIN:VTIMEZONE", "TZID:UTC", "BEGIN:STANDARD", "DTSTART:19700101T000000"),
    *("TZOFFSETFROM:+0000", "TZOFFSETTO:+0000", "END:STANDARD", "END:VTIMEZONE"),
)


@dataclass(frozen=True, slots=True)
class CalendarEntry:
    """
    Something that happens at an instant.

    Args:
        uid: The same whenever the file is written again.
        at: Aware.
        changed_at: When what it says last changed, aware.
        revision: Higher after each change.
        summary: A few words.
        description: Lines of text.
        category: A word.
        url: Where there is more. None: nowhere.
    """

    uid: UUID
    at: datetime
    changed_at: datetime
    revision: int
    summary: str
    description: str
    category: str
    url: str | None = None


def write_calendar(
    name: str, description: str, entries: Sequence[CalendarEntry]
) -> str:
    """
    Return a calendar file.

    Args:
        name: What programs call it.
        description: Lines of text.
        entries: In the order of the file.
    """
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Minutehand//Planned occurrences//EN",
        "CALSCALE:GREGORIAN",
        # the property of RFC 7986, and what programs knew before it
        f"NAME:{_escape(name)}",
        f"X-WR-CALNAME:{_escape(name)}",
        f"DESCRIPTION:{_escape(description)}",
        f"X-WR-CALDESC:{_escape(description)}",
        "REFRESH-INTERVAL;VALUE=DURATION:PT1H",
        "X-PUBLISHED-TTL:PT1H",
    ]
    for entry in entries:
        lines += _write_entry(entry)
    if not entries:
        lines += _NOTHING
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in fold(line))


def _write_entry(entry: CalendarEntry) -> Iterator[str]:
    yield "BEGIN:VEVENT"
    yield f"UID:{entry.uid}"
    yield f"DTSTAMP:{_format(entry.changed_at)}"
    yield f"DTSTART:{_format(entry.at)}"
    yield f"SEQUENCE:{entry.revision}"
    yield f"SUMMARY:{_escape(entry.summary)}"
    yield f"DESCRIPTION:{_escape(entry.description)}"
    yield f"CATEGORIES:{_escape(entry.category)}"
    if entry.url is not None:
        yield f"URL:{entry.url}"
    # It makes nobody busy.
    yield "TRANSP:TRANSPARENT"
    yield "END:VEVENT"


def _format(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _escape(text: str) -> str:
    """Return *text* as a value (section 3.3.11), without other control characters."""
    text = text.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,")
    lines = ("".join(filter(_is_allowed, line)) for line in text.splitlines())
    return "\\n".join(lines)


def _is_allowed(character: str) -> bool:
    return character >= " " and character != "\x7f"


def fold(line: str) -> Iterator[str]:
    """
    Yield *line* in parts of at most 75 bytes, the later ones begun by a space.

    A character of several bytes is never cut.

    >>> [len(part.encode()) for part in fold("SUMMARY:" + "ä" * 50)]
    [74, 35]
    """
    part, size = "", 0
    for character in line:
        width = len(character.encode())
        if size + width > _LONGEST_LINE:
            yield part
            part, size = " ", 1
        part += character
        size += width
    yield part
