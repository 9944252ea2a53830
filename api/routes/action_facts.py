"""What an action did lately, what it will do, and all of them in figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from actions.count_actions import ActionCountsJson, count_actions
from actions.list_actions import ActionFilter
from actions.previews.preview import PreviewJson
from api.answers import ROOT, ListJson, answer, answer_list
from api.guarding import ApiRoute
from api.routes.actions import read_action_filter
from models.fields.field_types import ZoneName
from models.fields.zone import load_zone
from overview.actions.days import (
    MOST_WEEKS,
    WEEKS,
    ActionDaysJson,
    fetch_action_days,
)
from overview.actions.documents import (
    ActionDocument,
    ActionDocumentJson,
    fetch_document_part,
)
from overview.actions.recent_runs import MOST_RUNS, RecentRunsJson, fetch_runs_of_action
from overview.previews.stored import MOST_SHOWN, preview_stored
from serving.context import Viewer
from serving.cursors import Paged

router = APIRouter(prefix=ROOT, tags=["actions"], route_class=ApiRoute)

#: The most actions that can be named one by one.
_MOST_NAMED = 200

_Filter = Annotated[ActionFilter, Depends(read_action_filter)]


@router.get("/action-counts", response_model=ActionCountsJson)
def read_action_counts(context: Viewer, wanted: _Filter) -> Response:
    """
    Count scheduled actions by small app, state, kind, queue and trouble.

    Each figure is how many there would be if that one filter were this, and the others
    as they are. Deleted actions are not counted.
    """
    with context.reading() as connection:
        found = count_actions(connection, wanted, app=context.app)
    return answer(found.as_json())


@router.get("/action-documents", response_model=ListJson[ActionDocumentJson])
def list_action_documents(
    context: Viewer,
    page: Paged,
    wanted: _Filter,
    uid: Annotated[
        list[str] | None,
        Query(
            max_length=_MOST_NAMED,
            description="Only these actions; may be repeated.",
            examples=[["weekly-report"]],
        ),
    ] = None,
) -> Response:
    """
    List the documents of scheduled actions, as `POST /actions/batch` takes them.

    Filtered as the list of actions is, and as that in parts that may be short.
    """
    chosen = wanted if uid is None else replace(wanted, uids=frozenset(uid))
    with context.reading() as connection:
        part = fetch_document_part(connection, chosen, page)
    return answer_list(context, part, ActionDocument.as_json)


@router.get("/actions/{uid}/runs", response_model=RecentRunsJson)
def list_runs(
    context: Viewer,
    uid: str,
    limit: Annotated[
        int, Query(ge=1, le=MOST_RUNS, description="The most operations to return.")
    ] = 30,
) -> Response:
    """
    Return the latest operations of an action, newest first, and what they took.

    `/operations?action=` has all of them, with their steps.
    """
    with context.reading() as connection:
        found = fetch_runs_of_action(connection, uid, limit=limit, app=context.app)
    return answer(found.as_json())


@router.get("/actions/{uid}/days", response_model=ActionDaysJson)
def list_days(
    context: Viewer,
    uid: str,
    weeks: Annotated[
        int, Query(ge=1, le=MOST_WEEKS, description="How many; the last ends today.")
    ] = WEEKS,
) -> Response:
    """
    Return what became of an action on each day of some weeks, and what it missed.

    Days are those of the zone of its rule. An outage counts on each day it touches.
    """
    with context.reading() as connection:
        found = fetch_action_days(connection, uid, weeks=weeks, app=context.app)
    return answer(found.as_json())


@router.get("/actions/{uid}/preview", response_model=PreviewJson)
def preview_action(
    context: Viewer,
    uid: str,
    *,
    count: Annotated[
        int, Query(ge=1, le=MOST_SHOWN, description="The most occurrences.")
    ] = 10,
    timezone: Annotated[
        ZoneName | None,
        Query(description="The viewer's zone. Left out: that of the installation."),
    ] = None,
) -> Response:
    """
    Return when an action runs next, in three zones, and what clock changes do to it.

    Unlike a preview of its document, it knows of pauses, and of when it takes effect.
    """
    zone = load_zone(timezone or context.services.timezone)
    with context.reading() as connection:
        found = preview_stored(
            connection, uid, count=count, viewer_zone=zone, app=context.app
        )
    return answer(found.as_json())
