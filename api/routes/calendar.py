"""What will run, as a file for calendar programs."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from actions.load.calendar_file import make_calendar_file
from api.answers import ROOT
from api.guarding import ApiRoute
from serving.context import Viewer
from serving.guarding import heavy

router = APIRouter(prefix=ROOT, tags=["calendar"], route_class=ApiRoute)


class CalendarFileResponse(Response):
    """A calendar file."""

    media_type = "text/calendar"


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
