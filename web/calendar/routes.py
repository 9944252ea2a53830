"""What ran and will run, by day and hour, and the load that is coming."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from fastapi import APIRouter
from starlette.responses import Response

from actions.load.forecast import HotMinute, Load, forecast_load
from models.database.engine import read_clock
from models.errors import UsageError
from models.operation_state import Queue
from serving.context import Viewer
from web.calendar.cells import HOURS, make_filters, make_rows, say
from web.calendar.fetch_calendar import (
    Calendar,
    CountedDay,
    CountedHour,
    fetch_calendar,
)
from web.calendar.fetch_planned import Planned, list_planned
from web.calendar.load_chart import LoadChart, draw_load
from web.clocks import format_iso, format_offset
from web.guarding import PageRoute
from web.query import Asked, ask, name_week
from web.reading import Unread, read_part
from web.rendering import render

router = APIRouter(include_in_schema=False, route_class=PageRoute)

#: Hot minutes that are told.
_HOT = 5

#: How far the load ahead is told.
_AHEAD = timedelta(days=7)

_WEEK = timedelta(days=7)

_UTC = ZoneInfo("UTC")


@router.get("/calendar")
def show_calendar(context: Viewer) -> Response:
    """Show a week, hour by hour, and the load that is coming."""
    asked = ask(context)
    if isinstance(asked, Unread):
        return render(context, "calendar/calendar.html", {"calendar": asked})
    zone = asked.find_zone()
    load = read_part(context, lambda connection: _read_load(connection, asked, zone))
    known = None
    # The load is that of all queues; and what was kept says of itself how old it is.
    if not isinstance(load, Unread) and not load.age and not asked.whose.queue:
        known = load.load
    calendar = read_part(
        context, lambda connection: _read(connection, asked, zone, known)
    )
    values: dict[str, Any] = {
        "asked": asked,
        "calendar": calendar,
        "HOURS": HOURS,
        "load": load,
        "queues": tuple(Queue),
        "link": partial(_link_minute, asked),
        "UTC": _UTC,
        "zone": zone,
    }
    if not isinstance(calendar, Unread):
        values |= _describe(calendar.calendar, asked)
    return render(context, "calendar/calendar.html", values)


@dataclass(frozen=True, slots=True)
class Shown:
    """A calendar; *age* is how long ago it was counted."""

    calendar: Calendar
    age: timedelta


def _read(
    connection: sa.Connection, asked: Asked, zone: ZoneInfo, load: Load | None
) -> Shown:
    first = asked.week(read_clock(connection).astimezone(zone).date())
    calendar, age = asked.context.services.kept.ask(
        ("calendar", zone.key, first, asked.whose),
        lambda: fetch_calendar(
            connection, zone=zone.key, first=first, whose=asked.whose, load=load
        ),
    )
    return Shown(calendar, age)


def _describe(calendar: Calendar, asked: Asked) -> Mapping[str, Any]:
    """Return what the page says of the week, and where it leads."""
    first = calendar.days[0].day.day
    today = calendar.at.astimezone(calendar.zone).date()
    large, lead = say(calendar)
    changed = next((each for each in calendar.days if each.day.change), None)
    twice = [] if changed is None else _find_twice(changed)
    return {
        "rows": make_rows(calendar, asked.whose),
        "large": large,
        "lead": lead,
        "earlier": name_week(first - _WEEK),
        "later": name_week(first + _WEEK),
        "is_this_week": first <= today < first + _WEEK,
        "changed": changed,
        "offsets": _tell_offsets(calendar),
        "twice": twice,
        "app_name": _find_name(asked),
    }


def _tell_offsets(calendar: Calendar) -> str:
    """Return the offset of the zone in these days; both, if the clocks change."""
    hours = [each.hour.starts_at for day in calendar.days for each in day.hours]
    before, after = (
        format_offset(hours[end].astimezone(calendar.zone)) for end in (0, -1)
    )
    if before == after:
        return before
    return f"{before}, and {after} once the clocks have changed"


def _find_twice(day: CountedDay) -> list[CountedHour]:
    """Return both passes of the hour that comes twice. Empty: none does."""
    second = [each for each in day.hours if each.hour.turn > 1]
    shown = {each.hour.shown for each in second}
    first = [e for e in day.hours if e.hour.turn == 1 and e.hour.shown in shown]
    return [*first[:1], *second[:1]] if first and second else []


def _link_minute(asked: Asked, at: datetime) -> str:
    until = at + timedelta(minutes=1)
    query = {"from": format_iso(at), "until": format_iso(until)}
    return urlencode(query | make_filters(asked.whose))


def _find_name(asked: Asked) -> str | None:
    return next((each.name for each in asked.apps if each.uid == asked.app), None)


def _foresee(connection: sa.Connection, app: str | None) -> Load:
    now = read_clock(connection).replace(second=0, microsecond=0)
    return forecast_load(connection, since=now, until=now + _AHEAD, app=app)


@dataclass(frozen=True, slots=True)
class ShownLoad:
    """The load ahead, how old that is, and how it is drawn."""

    load: Load
    age: timedelta
    chart: LoadChart
    hot: list[HotMinute]


def _read_load(connection: sa.Connection, asked: Asked, zone: ZoneInfo) -> ShownLoad:
    load, age = asked.context.services.kept.ask(
        ("load", asked.app), lambda: _foresee(connection, asked.app)
    )
    hot = [each for each in load.hot if each.minute.total > 1][:_HOT]
    chart = draw_load(
        [(each.at, each.by_queue) for each in load.minutes],
        [each.minute.at for each in hot],
        load.since,
        zone,
    )
    return ShownLoad(load, age, chart, hot)


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
            context,
            lambda connection: list_planned(
                connection, since=since, until=until, whose=asked.whose
            ),
        )
    except UsageError as error:
        asked.note(f"{error} This is the next hour.")
        planned = read_part(
            context, lambda connection: list_planned(connection, whose=asked.whose)
        )
    filters = make_filters(asked.whose)
    values: dict[str, Any] = {
        "asked": asked,
        "planned": planned,
        "zone": zone,
        "back": f"/calendar?{urlencode(_find_week(since, zone) | filters)}",
        "decided": urlencode(filters),
        "UTC": _UTC,
    }
    if isinstance(planned, Planned):
        decided = {"from": since or planned.since, "until": planned.until}
        times = {name: format_iso(at) for name, at in decided.items()}
        values["decided"] = urlencode(times | filters)
    return render(context, "calendar/planned.html", values)


def _find_week(at: datetime | None, zone: ZoneInfo) -> dict[str, str]:
    """Return the parameter of the calendar's week of an instant."""
    return {} if at is None else {"week": name_week(at.astimezone(zone).date())}
