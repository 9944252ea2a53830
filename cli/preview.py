"""``preview``: shows when an action would run, before it is posted."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated

import typer
from rich.text import Text

from actions.previews.preview import Preview, preview_batch_line
from cli.connection import ask_database, get_settings
from cli.options import (
    AppOption,
    argument,
    naming,
    option,
    read_file,
    read_period,
    reading_document,
    takes,
    takes_json,
    value,
)
from cli.output import format_in_utc, format_local, out
from models.database.engine import read_host_clock
from models.days_off import HolidaysModel
from models.door.documents import ReadContext, read_action
from models.errors import InvalidDocumentError, Problem, UsageError
from models.fields.strict_model import show
from models.fields.zone import load_zone
from models.scheduled_action import ScheduledActionModel
from overview.previews import (
    AppCalendar,
    PreviewTerms,
    fetch_app_calendar,
    preview_action,
)

_BatchOption = Annotated[
    str | None,
    option(
        "--batch FILE|-",
        'Read JSON lines {"id", "action", "from", "until"}, answer each.',
    ),
]

#: Occurrences that are shown unless --count says how many.
_COUNT = 10

#: As many as are shown up to an --until: who names an end wants to see all until then.
_COUNT_UNTIL = 1_000


def _read_terms(
    *,
    from_: str | None = value("--from TIME", "At or after this; default: now."),
    until: Annotated[str | None, option("--until TIME", "Before this.")] = None,
    count: Annotated[
        int | None,
        typer.Option(
            "--count",
            "-n",
            min=1,
            max=10_000,
            help=f"The most to show; default: {_COUNT}, with --until {_COUNT_UNTIL:,}.",
        ),
    ] = None,
) -> PreviewTerms:
    start, end = read_period(from_, until)
    most = count or (_COUNT if end is None else _COUNT_UNTIL)
    zone = load_zone(get_settings().timezone)
    return PreviewTerms(zone, start=start, end=end, count=most)


@takes_json
@takes("asked", _read_terms)
def preview(
    file: Annotated[
        str | None, argument("FILE|-", "JSON document of an action.")
    ] = None,
    *,
    asked: PreviewTerms,
    timezone: str | None = value("--timezone ZONE", "Show times in this zone as well."),
    app: AppOption = None,
    batch: _BatchOption = None,
) -> None:
    """
    Show when an action would run.

    Nothing is stored. The database is only read if --app names the small app whose
    zone and holidays apply. TIME is now, today, -1h, +2d or 2026-11-23T06:00:00Z.
    """
    calendar = _read_calendar(app)
    if batch is not None:
        _answer_lines(batch, calendar)
        return
    if timezone is not None:
        with naming("--timezone"):
            asked = replace(asked, viewer_zone=load_zone(timezone))
    action = _read_action(file, calendar, app)
    if app is None:
        _refuse_holidays(action)
    found = preview_action(action, calendar, asked, now=read_host_clock())
    if not out().gave_json(found):
        _print(action, found, viewer=timezone)
        if asked.end is not None and len(found.occurrences) == asked.count:
            out().say(f"Only the first {asked.count:,} are shown: see --count.")


def _refuse_holidays(action: ScheduledActionModel) -> None:
    """
    Refuse calendars of holidays where nobody knows whose they are.

    Raises:
        InvalidDocumentError: *action* excepts some.
    """
    problems = tuple(
        Problem(
            f"/except/{index}/calendar",
            f"{show(entry.calendar)} is a holiday calendar of a small app, and none is"
            " named.",
            "Name the app with --app.",
        )
        for index, entry in enumerate(action.except_)
        if isinstance(entry, HolidaysModel)
    )
    if problems:
        raise InvalidDocumentError(problems)


def _read_action(
    file: str | None, calendar: AppCalendar, app: str | None
) -> ScheduledActionModel:
    if file is None:
        msg = "FILE is missing. Name one (- is standard input), or use --batch."
        raise UsageError(msg)
    with reading_document(file) as text:
        rules = get_settings().make_task_rules().of(app)
        return read_action(text, ReadContext(calendar.timezone, rules))


def _read_calendar(app: str | None) -> AppCalendar:
    """Return the zone and the holidays that apply."""
    zone = get_settings().timezone
    if app is None:
        return AppCalendar(zone)
    return ask_database(fetch_app_calendar, app, default_timezone=zone)


def _answer_lines(name: str, calendar: AppCalendar) -> None:
    """Answer each line as it arrives: the caller may wait for it before the next."""
    lines = sys.stdin if name == "-" else read_file(name).decode().splitlines()
    for number, line in enumerate(lines, 1):
        if line.strip():
            answer = preview_batch_line(
                line,
                number=number,
                default_timezone=calendar.timezone,
                holidays=calendar.holidays,
            )
            sys.stdout.write(f"{answer}\n")
            sys.stdout.flush()


def _print(action: ScheduledActionModel, found: Preview, *, viewer: str | None) -> None:
    out().print(Text(action.name, style="bold"))
    out().say(found.sentence)
    if found.occurrences:
        zones = {str(each.local.tzinfo) for each in found.occurrences}
        head = zones.pop() if len(zones) == 1 else "local"
        out().table(
            found.occurrences,
            lambda each: {
                head: format_local(each.local),
                "UTC": format_in_utc(each.at),
                viewer or "": format_local(each.viewer) if viewer else "",
                "note": Text("; ".join(each.notes), style="yellow"),
            },
            apart=True,
        )
    for note in found.notes:
        out().say(f"Note: {note}")
