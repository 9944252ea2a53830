"""What ran and what will: by day and hour, on a line of time, as a calendar file."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from api.answers import ROOT, answer
from api.guarding import ApiRoute
from models.fields.field_types import Day, Instant, ZoneName
from models.operation_state import Queue
from overview.calendar.counted import MOST_DAYS, WEEK, CalendarJson, fetch_calendar
from overview.calendar.file import make_calendar_file
from overview.calendar.planned import PlannedJson, list_planned
from overview.load.fetching import Whose
from overview.timeline.window import LANES, MOST_LANES, TimelineJson, fetch_timeline
from serving.context import Viewer
from serving.guarding import heavy

router = APIRouter(prefix=ROOT, tags=["calendar"], route_class=ApiRoute)

_App = Annotated[str | None, Query(description="Uid of a small app.")]
_Queue = Annotated[Queue | None, Query(description="Of this queue.")]


class CalendarFileResponse(Response):
    """A calendar file."""

    media_type = "text/calendar"


@router.get("/calendar", response_model=CalendarJson)
@heavy
def read_calendar(
    context: Viewer,
    *,
    app: _App = None,
    queue: _Queue = None,
    zone: Annotated[
        ZoneName,
        Query(
            description="IANA name of the zone whose days and hours are meant.",
            examples=["Europe/Paris"],
        ),
    ] = "UTC",
    first: Annotated[
        Day | None,
        Query(
            description="The first local day. Left out: the Monday of this week.",
            examples=["2026-01-05"],
        ),
    ] = None,
    days: Annotated[int, Query(ge=1, le=MOST_DAYS, description="How many.")] = WEEK,
) -> Response:
    """
    Count what was and will be due in each hour of some days.

    Operations count in the hour of their occurrence, those that were missed one by one;
    what is still to come is foreseen from the rules, as ticks will find it. A day on
    which the clocks change has 23 or 25 hours.
    """
    begin: date | None = first
    with context.reading() as connection:
        found = fetch_calendar(
            connection,
            zone=zone,
            first=begin,
            days=days,
            whose=Whose(context.narrow(app), queue),
        )
    return answer(found.as_json())


@router.get("/planned", response_model=PlannedJson)
@heavy
def read_planned(
    context: Viewer,
    *,
    app: _App = None,
    queue: _Queue = None,
    since: Annotated[
        Instant | None,
        Query(alias="from", description="Inclusive. Left out: what is not decided."),
    ] = None,
    until: Annotated[
        Instant | None,
        Query(
            description="Exclusive, at most a day later. Left out: an hour later.",
            examples=[],
        ),
    ] = None,
) -> Response:
    """
    List which actions are due when, in a short time to come.

    Minute by minute, until 200 actions are named. What a tick has decided is in the
    list of operations instead.
    """
    whose = Whose(context.narrow(app), queue)
    with context.reading() as connection:
        found = list_planned(connection, since=since, until=until, whose=whose)
    return answer(found.as_json())


@router.get("/timeline", response_model=TimelineJson)
@heavy
def read_timeline(
    context: Viewer,
    *,
    app: _App = None,
    queue: _Queue = None,
    since: Annotated[
        Instant | None,
        Query(alias="from", description="Inclusive. Left out: four hours ago."),
    ] = None,
    until: Annotated[
        Instant | None,
        Query(description="Exclusive, 1 hour to 7 days later. Left out: 6 hours."),
    ] = None,
    lanes: Annotated[
        int, Query(ge=1, le=MOST_LANES, description="The most actions.")
    ] = LANES,
) -> Response:
    """
    Show what ran and what will run, action by action, and where it collides.

    Actions with failed or missed runs come first, then those under way, then the
    busiest, then those that are due next; `ran` and `due` count all. Runs collide if
    they overlap with another of their action, or if more is due in a minute than the
    workers of a queue can run.
    """
    with context.reading() as connection:
        found = fetch_timeline(
            connection,
            since=since,
            until=until,
            whose=Whose(context.narrow(app), queue),
            lanes=lanes,
        )
    return answer(found.as_json())


@router.get(
    "/apps/{app}/calendar.ics",
    response_class=CalendarFileResponse,
    responses={
        200: {
            "description": "A calendar file (RFC 5545).",
            "content": {CalendarFileResponse.media_type: {"schema": {}}},
        }
    },
)
@heavy
def read_calendar_file(context: Viewer, app: str) -> Response:
    """
    Return the planned occurrences of a small app, for calendar programs.

    Those of the next 30 days, each as an event with the id that its operation will
    have. What is due more often than hourly is left out, and named in the description
    of the calendar.
    """
    context.own(app)
    with context.reading() as connection:
        found = make_calendar_file(connection, app, web_url=_get_address(context))
    return CalendarFileResponse(
        found.text,
        headers={"Content-Disposition": f'inline; filename="{app}.ics"'},
    )


def _get_address(context: Viewer) -> str | None:
    """Return where people reach the pages, if a setting says it."""
    url = context.services.settings.web_url
    return None if url is None else url.rstrip("/")
