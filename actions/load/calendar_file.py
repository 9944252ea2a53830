"""The planned occurrences of a small app, for calendar programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from actions.load.foresee import Whose, find_undecided
from actions.lookup import fetch_app
from actions.occurrences import Due, parse_timing
from actions.previews.preview import place_occurrence
from actions.previews.sentences import describe
from actions.read_actions import WITHOUT_DOCUMENT
from actions.read_rules import find_due_between
from models.database.engine import read_clock
from models.database.tables import scheduled_actions
from models.occurrence import make_operation_id
from models.when import TimingModel

#: How far the file reaches.
AHEAD = timedelta(days=30)

#: What one file has at most. If there is more, it reaches less far.
MOST_ACTIONS = 1_000
MOST_ENTRIES = 5_000

#: The days that are looked at, until so many have enough entries: all occurrences of
#: thirty days may be a hundred times what one file has.
DAYS = (1, 4, AHEAD.days)

#: An action that is due more often than hourly would hide all others. The longest day
#: has so many hours.
MOST_A_DAY = 25

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
    end = since + AHEAD
    rows = _fetch_actions(connection, app, end)
    if len(rows) > MOST_ACTIONS:
        # Those that follow are due no sooner.
        end = max(since, min(end, rows.pop().next_due_at))
    for days in DAYS:
        until = min(end, since + timedelta(days))
        found: list[tuple[Due, sa.Row[Any]]] = []
        left_out = []
        most = days * MOST_A_DAY
        for row in rows:
            due = find_due_between(row, since, until, limit=most + 1)
            if len(due) > most:
                left_out.append(row.name)
            else:
                found += [(each, row) for each in due]
        if len(found) > MOST_ENTRIES:
            break
    found.sort(key=lambda each: (each[0].due_at, each[1].uid))
    if len(found) > MOST_ENTRIES:
        until = found[MOST_ENTRIES][0].due_at
        found = [each for each in found if each[0].due_at < until]
    entries = [_write_entry(due, row, web_url) for due, row in found]
    text = _write_calendar(name, _describe_file(until, left_out), entries)
    return CalendarFile(text, len(found), until, left_out)


def _fetch_actions(
    connection: sa.Connection, app: str, until: datetime
) -> list[sa.Row[Any]]:
    query = (
        sa.select(*WITHOUT_DOCUMENT)
        .where(*Whose(app).ticked(), _action.timing.is_not(None))
        .where(_action.next_due_at < until)
        .order_by(_action.next_due_at, _action.uid)
        .limit(MOST_ACTIONS + 1)
    )
    return list(connection.execute(query))


def _describe_file(until: datetime, left_out: Sequence[str]) -> str:
    text = f"What Minutehand is going to run until {until:%Y-%m-%d %H:%M}Z."
    if left_out:
        names = ", ".join(left_out[:_NAMED])
        more = len(left_out) - _NAMED
        names += f" and {more} more" if more > 0 else ""
        text += f"\nWithout what is due more often than hourly: {names}."
    return text


def _write_entry(due: Due, row: sa.Row[Any], web_url: str | None) -> Iterator[str]:
    sentence = f"{_describe(row.timing)}."
    zone, notes, _ = place_occurrence(parse_timing(row.timing), due.occurrence)
    local, utc = due.due_at.astimezone(zone), due.due_at.astimezone(UTC)
    clocks = f"{local:%H:%M} {local.isoformat()[-6:]} {zone.key}, {utc:%H:%M}Z"
    said = "\n".join([sentence, clocks, *notes, f"Queue {row.queue}"])
    yield "BEGIN:VEVENT"
    yield f"UID:{make_operation_id(row.uid, due.occurrence)}"
    yield f"DTSTAMP:{_format(row.updated_at)}"
    yield f"DTSTART:{_format(due.due_at)}"
    yield f"SEQUENCE:{row.revision}"
    yield f"SUMMARY:{escape(row.name)}"
    yield f"DESCRIPTION:{escape(said)}"
    yield f"CATEGORIES:{escape(row.queue)}"
    if web_url is not None:
        yield f"URL:{web_url}/actions/{quote(row.uid, safe='')}"
    # It makes nobody busy.
    yield "TRANSP:TRANSPARENT"
    yield "END:VEVENT"


@lru_cache(maxsize=4096)
def _describe(timing: str) -> str:
    """Return the sentence of a timing."""
    return describe(TimingModel.model_validate_json(timing))


_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")

#: Bytes of a line without its end; longer ones are folded (section 3.1).
_LONGEST_LINE = 75

#: An installation without any event would be a calendar without a component, which the
#: grammar does not allow (section 3.6).
_NOTHING = (
    *("BEGIN:VTIMEZONE", "TZID:UTC", "BEGIN:STANDARD", "DTSTART:19700101T000000"),
    *("TZOFFSETFROM:+0000", "TZOFFSETTO:+0000", "END:STANDARD", "END:VTIMEZONE"),
)


def _write_calendar(
    name: str, description: str, entries: Sequence[Iterable[str]]
) -> str:
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Minutehand//Planned occurrences//EN",
        "CALSCALE:GREGORIAN",
        # the property of RFC 7986, and what programs knew before it
        f"NAME:{escape(name)}",
        f"X-WR-CALNAME:{escape(name)}",
        f"DESCRIPTION:{escape(description)}",
        f"X-WR-CALDESC:{escape(description)}",
        "REFRESH-INTERVAL;VALUE=DURATION:PT1H",
        "X-PUBLISHED-TTL:PT1H",
    ]
    lines += chain.from_iterable(entries or [_NOTHING])
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in fold(line))


def _format(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def escape(text: str) -> str:
    """Return *text* as a value (section 3.3.11), without other control characters."""
    text = text.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,")
    lines = (_CONTROLS.sub("", line) for line in text.splitlines())
    return "\\n".join(lines)


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
