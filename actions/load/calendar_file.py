"""The planned occurrences of a small app, for calendar programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import quote
from uuid import UUID

import sqlalchemy as sa

from actions.load.foresee import Whose, find_undecided
from actions.lookup import fetch_app
from actions.occurrences import Due, find_due, parse_timing
from actions.previews.preview import place_occurrence
from actions.previews.sentences import describe
from models.database.engine import read_clock
from models.database.tables import scheduled_actions
from models.errors import RuleError
from models.occurrence import make_operation_id
from models.when import TimingModel

#: How far the file reaches.
AHEAD = timedelta(days=30)

#: What one file has at most. If there is more, it reaches less far.
MOST_ACTIONS = 1_000
MOST_ENTRIES = 5_000

#: An action that is due more often than hourly would hide all others.
MOST_OF_ACTION = 24 * 31

#: Actions that are named as left out.
_NAMED = 5

_action = scheduled_actions.c


@dataclass(frozen=True, slots=True)
class CalendarFile:
    """
    A calendar file.

    Args:
        text: RFC 5545.
        entries: How many occurrences it has.
        until: It has all until here, aware UTC, but for those left out.
        left_out: Actions that are due more often than hourly, by name.
    """

    text: str
    entries: int
    until: datetime
    left_out: Sequence[str]


def make_calendar_file(
    connection: sa.Connection, app: str, *, web_url: str | None = None
) -> CalendarFile:
    """
    Return the planned occurrences of the next 30 days.

    Each has the id that its operation will have, so that a calendar program recognizes
    it when the file is read again.

    Args:
        web_url: Where the pages are, without a slash at the end. None: not linked to.

    Raises:
        NotFoundError: There is no such small app.
    """
    name = fetch_app(connection, app).name
    now = read_clock(connection)
    since = find_undecided(connection, now)
    until = since + AHEAD
    rows = _fetch_actions(connection, app, until)
    if len(rows) > MOST_ACTIONS:
        # Those that follow are due no sooner.
        until = max(since, min(until, rows.pop().next_due_at))
    found: list[tuple[Due, sa.Row[Any]]] = []
    left_out = []
    for row in rows:
        due = _find_due(row, since, until)
        if len(due) > MOST_OF_ACTION:
            left_out.append(row.name)
        else:
            found += [(each, row) for each in due]
    found.sort(key=lambda each: (each[0].due_at, each[1].uid))
    if len(found) > MOST_ENTRIES:
        until = found[MOST_ENTRIES][0].due_at
        found = [each for each in found if each[0].due_at < until]
    text = write_calendar(
        name,
        _describe_file(until, left_out),
        [_make_entry(due, row, web_url) for due, row in found],
    )
    return CalendarFile(text, len(found), until, left_out)


def _fetch_actions(
    connection: sa.Connection, app: str, until: datetime
) -> list[sa.Row[Any]]:
    query = (
        sa.select(
            *(
                _action.uid,
                _action.name,
                _action.queue,
                _action.timing,
                _action.revision,
            ),
            *(_action.updated_at, _action.effective_from, _action.next_due_at),
        )
        .where(
            *Whose(app).ticked(),
            _action.timing.is_not(None),
            _action.next_due_at < until,
        )
        .order_by(_action.next_due_at, _action.uid)
        .limit(MOST_ACTIONS + 1)
    )
    return list(connection.execute(query))


def _find_due(row: sa.Row[Any], since: datetime, until: datetime) -> list[Due]:
    try:
        schedule = parse_timing(row.timing)
    except RuleError:
        return []
    return find_due(
        schedule,
        row.uid,
        start=since,
        now=until - timedelta.resolution,
        limit=MOST_OF_ACTION + 1,
        effective_from=row.effective_from,
    )


def _describe_file(until: datetime, left_out: Sequence[str]) -> str:
    text = f"What Minutehand is going to run until {until:%Y-%m-%d %H:%M}Z."
    if left_out:
        names = ", ".join(left_out[:_NAMED])
        more = len(left_out) - _NAMED
        names += f" and {more} more" if more > 0 else ""
        text += f"\nWithout what is due more often than hourly: {names}."
    return text


def _make_entry(due: Due, row: sa.Row[Any], web_url: str | None) -> CalendarEntry:
    sentence = f"{_describe(row.timing)}."
    zone, notes, _ = place_occurrence(parse_timing(row.timing), due.occurrence)
    local, utc = due.due_at.astimezone(zone), due.due_at.astimezone(UTC)
    clocks = f"{local:%H:%M} {local.isoformat()[-6:]} {zone.key}, {utc:%H:%M}Z"
    return CalendarEntry(
        uid=make_operation_id(row.uid, due.occurrence),
        at=due.due_at,
        changed_at=row.updated_at,
        revision=row.revision,
        summary=row.name,
        description="\n".join([sentence, clocks, *notes, f"Queue {row.queue}"]),
        category=row.queue,
        url=None if web_url is None else f"{web_url}/actions/{quote(row.uid, safe='')}",
    )


@lru_cache(maxsize=4096)
def _describe(timing: str) -> str:
    """Return the sentence of a timing."""
    return describe(TimingModel.model_validate_json(timing))


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
