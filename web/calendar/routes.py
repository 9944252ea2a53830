"""What ran and will run, by day and hour, and the load that is coming."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from starlette.responses import Response

from actions.load.forecast import Load, forecast_load
from actions.load.foresee import HotMinute
from models.database.engine import read_clock
from models.errors import UsageError
from models.fields.strict_model import show
from models.operation_state import Queue
from serving.context import Viewer
from web.calendar.cells import (
    HOURS,
    LoadChart,
    draw_load,
    link_period,
    make_filters,
    make_rows,
    say,
)
from web.calendar.fetch_calendar import Calendar, Planned, fetch_calendar, list_planned
from web.guarding import make_router
from web.preferences import format_offset
from web.query import Asked, Unread, ask, read_part
from web.rendering import render

router = make_router()

#: Hot minutes that are told.
_HOT = 5

_WEEK = timedelta(days=7)

_UTC = ZoneInfo("UTC")

#: What the clocks and rules of all zones are known for.
_FIRST_YEAR, _LAST_YEAR = 1971, 9980


@router.get("/calendar")
def show_calendar(context: Viewer) -> Response:
    """Show a week, hour by hour, and the load that is coming."""
    asked = ask(context)
    if isinstance(asked, Unread):
        return render(context, "calendar/calendar.html", {"calendar": asked})
    zone = asked.find_zone()
    load = read_part(context, _read_load, asked, zone)
    known = None
    # The load is that of all queues.
    if not isinstance(load, Unread) and not asked.whose.queue:
        known = load.load
    calendar = read_part(context, _read, asked, zone, known)
    values: dict[str, Any] = {
        "asked": asked,
        "calendar": calendar,
        "HOURS": HOURS,
        "load": load,
        "queues": tuple(Queue),
        "link": partial(_link_minute, asked),
        "zone": zone,
    }
    if not isinstance(calendar, Unread):
        values |= _describe(calendar, asked)
    return render(context, "calendar/calendar.html", values)


def _read(
    connection: sa.Connection, asked: Asked, zone: ZoneInfo, load: Load | None
) -> Calendar:
    first = _find_monday(asked, read_clock(connection).astimezone(zone).date())
    return fetch_calendar(connection, zone, first, whose=asked.whose, load=load)


def _find_monday(asked: Asked, today: date) -> date:
    """Return the Monday of the week, such as 2026-W43, that is looked at."""
    given = asked.text("week") or "now"
    this = today - timedelta(days=today.weekday())
    if given == "now":
        return this
    try:
        first = datetime.strptime(f"{given}-1", "%G-W%V-%u").date()  # noqa: DTZ007 - a local day
    except ValueError:
        asked.note(
            f"{show(given)} is not a week, such as {_name_week(this)};"
            " this is the week of today."
        )
        return this
    if not _FIRST_YEAR <= first.year <= _LAST_YEAR:
        asked.note(f"{given} is too far away; this is the week of today.")
        return this
    return first


def _name_week(day: date) -> str:
    """
    Return the week of *day*, as links have it.

    >>> _name_week(date(2026, 10, 20))
    '2026-W43'
    """
    year, week, _ = day.isocalendar()
    return f"{year}-W{week:02}"


def _describe(calendar: Calendar, asked: Asked) -> Mapping[str, Any]:
    """Return what the page says of the week, and where it leads."""
    first = calendar.days[0].day
    today = calendar.at.astimezone(calendar.zone).date()
    large, lead = say(calendar)
    changed = next((each for each in calendar.days if each.change), None)
    return {
        "rows": make_rows(calendar, asked.whose),
        "large": large,
        "lead": lead,
        "earlier": _name_week(first - _WEEK),
        "later": _name_week(first + _WEEK),
        "is_this_week": first <= today < first + _WEEK,
        "is_ahead": calendar.at < calendar.days[0].starts_at,
        "changed": changed,
        "offsets": _tell_offsets(calendar),
        "app_name": next((e.name for e in asked.apps if e.uid == asked.app), None),
    }


def _tell_offsets(calendar: Calendar) -> str:
    """Return the offset of the zone in these days; both, if the clocks change."""
    ends = calendar.days[0].hours[0], calendar.days[-1].hours[-1]
    before, after = (format_offset(e.starts_at.astimezone(calendar.zone)) for e in ends)
    if before == after:
        return before
    return f"{before}, and {after} once the clocks have changed"


def _link_minute(asked: Asked, at: datetime) -> str:
    until = at + timedelta(minutes=1)
    return link_period("/calendar/planned", at, until, asked.whose)


class ShownLoad(NamedTuple):
    """The load ahead, and how it is drawn."""

    load: Load
    chart: LoadChart
    hot: list[HotMinute]


def _read_load(connection: sa.Connection, asked: Asked, zone: ZoneInfo) -> ShownLoad:
    now = read_clock(connection).replace(second=0, microsecond=0)
    load = forecast_load(connection, since=now, until=now + _WEEK, app=asked.app)
    hot = [each for each in load.hot if each.total > 1][:_HOT]
    chart = draw_load(load.minutes, [each.at for each in hot], load.from_, zone)
    return ShownLoad(load, chart, hot)


@router.get("/calendar/planned")
def show_planned(context: Viewer) -> Response:
    """List which actions are due in an hour to come."""
    asked = ask(context)
    if isinstance(asked, Unread):
        return render(context, "calendar/planned.html", {"planned": asked})
    zone = asked.find_zone()
    since, until = asked.instant("from"), asked.instant("until")
    try:
        planned = read_part(
            context, list_planned, asked.whose, since=since, until=until
        )
    except UsageError as error:
        asked.note(f"{error} This is the next hour.")
        planned = read_part(context, list_planned, asked.whose)
    filters = make_filters(asked.whose)
    week = {} if since is None else {"week": _name_week(since.astimezone(zone).date())}
    values: dict[str, Any] = {
        "asked": asked,
        "planned": planned,
        "zone": zone,
        "back": f"/calendar?{urlencode(week | filters)}",
        "UTC": _UTC,
    }
    if isinstance(planned, Planned):
        times = since or planned.since, planned.until
        values["decided"] = link_period("/operations", *times, asked.whose)
    return render(context, "calendar/planned.html", values)
