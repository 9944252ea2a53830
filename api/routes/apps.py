"""Small apps: their documents, what is going on in them, their pauses; all pauses."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from fastapi import APIRouter
from starlette.responses import Response

from actions.load.calendar_file import make_calendar_file
from actions.lookup import fetch_app
from actions.pausing.pause_state import tag_pause
from actions.pausing.targets import (
    PausedTarget,
    ResumedTarget,
    pause_target,
    resume_target,
)
from actions.small_apps.apply import Applied, ApplyTerms
from actions.small_apps.check_settings import check_settings
from actions.small_apps.delete import DeletedApp, delete_small_app
from actions.small_apps.differences import AppDifference
from actions.small_apps.export import fetch_document
from api.answers import ROOT, ListJson, answer, answer_list
from api.guarding import ApiRoute
from api.parameters import DryRun, RaiseEvents, apply_or_foresee
from models.door.app_documents import read_small_app
from models.door.documents import LARGEST_BULK
from models.json_form import get_members
from models.requests.apps import SmallAppBodyModel
from models.requests.notes import PauseModel
from models.small_app import SmallAppModel
from overview.small_apps import (
    DetailedApp,
    ListedApp,
    fetch_app_part,
    fetch_detailed_app,
)
from serving.context import Admin, Context, Editor, Operator, Viewer
from serving.cursors import Paged
from serving.guarding import Body, heavy
from serving.refusals import read_revision

router = APIRouter(prefix=ROOT, tags=["apps"], route_class=ApiRoute)

_EXAMPLE = {
    "name": "Shop",
    "timezone": "Europe/Paris",
    "users": [{"id": "ada", "email": "ada@example.com", "groups": ["manager"]}],
    "templates": {"welcome": {"subject": "Hello", "text": "Hello {{ user.name }}"}},
    "holidays": {"fr": ["2026-12-25"]},
}
_PAUSE = {"note": "until the import is fixed", "until": "2099-01-01T00:00:00Z"}


@dataclass(frozen=True, slots=True)
class AppliedWithDoubts(Applied):
    """What applying a document did, and what may be wrong with it all the same."""

    warnings: list[str]


@router.get("/apps", response_model=ListJson[ListedApp])
def list_apps(context: Viewer, page: Paged) -> Response:
    """List the small apps, by uid; a key of one app sees that one."""
    return answer_list(context, context.fetch(fetch_app_part, page, app=context.app))


@router.get("/apps/{app}", response_model=DetailedApp)
def read_app(context: Viewer, app: str) -> Response:
    """Return a small app with all that belongs to it; its users are counted."""
    found = context.fetch(fetch_detailed_app, app).seen_by(context.app)
    return answer(found, etag=found.revision)


@router.put(
    "/apps/{app}",
    response_model=AppliedWithDoubts | AppDifference,
    responses={201: {"description": "It is new.", "model": AppliedWithDoubts}},
)
@Body(SmallAppBodyModel, examples={"shop": _EXAMPLE}, largest=LARGEST_BULK)
@heavy
def apply_app(
    context: Editor, app: str, *, dry_run: DryRun = False, events: RaiseEvents = False
) -> Response:
    """
    Make a small app what its document says; a key of the installation creates it.

    Parts that the document leaves out stay as they are; a part that it has is complete.
    `If-Match: "0"` means that there is no such app yet.
    """
    expected = read_revision(context.expected)
    model = read_small_app(context.body, uid=app)
    known = context.services.settings
    checked = check_settings(
        model,
        known.sql_connections,
        known.mail_sender_hosts,
        known.webhook_allowed_hosts,
    )
    warnings = [str(doubt) for doubt in checked]
    may_create = context.app is None
    terms = ApplyTerms(None, events, context.caller.name, expected, may_create)
    applied = apply_or_foresee(context, model, terms, dry_run=dry_run)
    if isinstance(applied, AppDifference):
        return answer(applied, etag=applied.revision)
    return answer(
        {**get_members(applied), "warnings": warnings},
        status=HTTPStatus.CREATED if applied.created else HTTPStatus.OK,
        etag=applied.revision,
        location=f"/apps/{app}" if applied.created else None,
    )


@router.delete("/apps/{app}", response_model=DeletedApp)
@heavy
def delete_app(context: Admin, app: str) -> Response:
    """
    Delete a small app: its actions are deleted, its keys revoked, its pause ended.

    409 while operations of it are not over. Its users, data and history are kept, and
    its uid stays taken: to apply its document again brings it back.
    """
    expected = read_revision(context.expected)
    deleted = context.change(
        delete_small_app, app, by=context.caller.name, expected_revision=expected
    )
    return answer(deleted)


@router.get("/apps/{app}/document", response_model=SmallAppModel)
@heavy
def export_app(context: Editor, app: str) -> Response:
    """
    Return the whole document, which PUT takes: to apply it again changes nothing.

    It has what its editors wrote, keys in the addresses of sources and webhook too; so
    it takes an editor to read it.
    """
    with context.reading() as connection:
        revision = fetch_app(connection, app).revision
        document = fetch_document(connection, app)
    return answer(document, etag=revision)


@router.put("/apps/{app}/pause", response_model=PausedTarget)
@Body(PauseModel, examples={"until": _PAUSE}, required=False)
def pause_app(context: Operator, app: str) -> Response:
    """Pause a small app: its actions, and those that are posted meanwhile."""
    return _pause(context, app)


@router.delete("/apps/{app}/pause", response_model=ResumedTarget)
def resume_app(context: Operator, app: str) -> Response:
    """Resume a small app from now on; actions paused on their own stay so."""
    return _resume(context, app)


@router.put("/pause", response_model=PausedTarget)
@Body(PauseModel, examples={"until": _PAUSE}, required=False)
def pause_all(context: Operator) -> Response:
    """Pause the whole installation, but for its own maintenance."""
    context.caller.demand_installation("a pause of all apps")
    return _pause(context, None)


@router.delete("/pause", response_model=ResumedTarget)
def resume_all(context: Operator) -> Response:
    """Resume the whole installation; what is paused on its own stays so."""
    context.caller.demand_installation("a pause of all apps")
    return _resume(context, None)


def _pause(context: Context, app: str | None) -> Response:
    asked = context.read(PauseModel, "pause")
    paused = context.change(pause_target, app, asked, expected=context.expected)
    return answer(paused, etag=tag_pause(paused.pause))


def _resume(context: Context, app: str | None) -> Response:
    resumed = context.change(resume_target, app, expected=context.expected)
    return answer(resumed, etag=tag_pause(None))


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
    url = context.services.settings.web_url
    found = context.fetch(make_calendar_file, app, web_url=url and url.rstrip("/"))
    return CalendarFileResponse(
        found.text, headers={"Content-Disposition": f'inline; filename="{app}.ics"'}
    )
