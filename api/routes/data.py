"""The data of a small app: look at them, refresh, publish and roll them back."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from api.answers import ROOT, ListJson, answer, answer_begun, answer_list
from api.guarding import ApiRoute
from dispatch.manual_runs import BegunRefresh, refresh_now
from models.requests.apps import MoveRequestModel, RefreshRequestModel
from operations.publish_now import Moved, publish_now, roll_back_now
from overview.data import (
    DataDomain,
    DetailedDomain,
    fetch_detailed_domain,
    fetch_domain_part,
)
from serving.context import Editor, Viewer
from serving.cursors import Paged
from serving.guarding import Body

router = APIRouter(prefix=f"{ROOT}/apps/{{app}}", tags=["data"], route_class=ApiRoute)


@router.get("/domains", response_model=ListJson[DataDomain])
def list_domains(context: Viewer, app: str, page: Paged) -> Response:
    """List the domains with their staged, live and former versions, by name."""
    return answer_list(context, context.fetch(fetch_domain_part, app, page))


@router.get("/domains/{domain}", response_model=DetailedDomain)
def read_domain(context: Viewer, app: str, domain: str) -> Response:
    """Return a domain with the columns of its versions, and how these differ."""
    workspace = context.services.settings.workspace
    found = context.fetch(fetch_detailed_domain, app, domain, workspace=workspace)
    return answer(found)


@router.post("/data/refresh", status_code=202, response_model=BegunRefresh)
@Body(
    RefreshRequestModel,
    examples={"all": {}, "one": {"domains": ["sales"], "force": True}},
    required=False,
)
def refresh_data(context: Editor, app: str) -> Response:
    """
    Read domains from their sources into new staged versions; a worker does it.

    It waits until no other heavy operation of the app is under way.
    """
    asked = context.read(RefreshRequestModel, "refresh")
    by, request = context.caller.name, context.repeatable
    begun = context.change(
        refresh_now, app, asked.domains, by=by, force=asked.force, request=request
    )
    return answer_begun(begun, f"/operations/{begun.operation_id}")


@router.post("/data/publish", response_model=Moved)
@Body(MoveRequestModel, examples={"data": {"data": True}})
def publish_data(context: Editor, app: str) -> Response:
    """
    Make what is staged live, at once: all that is asked for, or nothing.

    409 while a refresh or publish of the app is under way, and if other versions than
    those in `expected` would become live. Nobody is mailed.
    """
    asked = context.read(MoveRequestModel, "publish")
    workspace = context.services.settings.workspace
    return answer(context.change(publish_now, app, asked, workspace=workspace))


@router.post("/data/rollback", response_model=Moved)
@Body(MoveRequestModel, examples={"data": {"data": True}})
def roll_back_data(context: Editor, app: str) -> Response:
    """
    Make what was live before live again; once more brings back what was live.

    409 if other versions than those in `expected` would become live.
    """
    asked = context.read(MoveRequestModel, "roll back")
    workspace = context.services.settings.workspace
    return answer(context.change(roll_back_now, app, asked, workspace=workspace))
