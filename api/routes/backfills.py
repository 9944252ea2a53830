"""Backfills: past occurrences of an action that run after all."""

from __future__ import annotations

from http import HTTPStatus
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from actions.lookup import get_action
from api.answers import ROOT, ListJson, answer, answer_list
from api.guarding import ApiRoute, takes
from dispatch.backfills.planning import PlanJson, plan_backfill
from dispatch.backfills.requests import cancel_backfill, start_backfill
from models.requests.backfills import BackfillModel
from overview.backfills import (
    BackfilledOccurrence,
    BackfilledOccurrenceJson,
    BackfillJson,
    ShownBackfill,
    fetch_backfilled_occurrences,
    fetch_shown_backfill,
    fetch_shown_backfills,
)
from serving.context import Operator, Viewer
from serving.cursors import Paged

router = APIRouter(prefix=ROOT, tags=["backfills"], route_class=ApiRoute)


@router.post(
    "/actions/{uid}/backfills",
    status_code=202,
    response_model=BackfillJson,
    responses={200: {"model": PlanJson, "description": "With `dry_run`: the list."}},
)
@takes(
    BackfillModel,
    examples={
        "list what never ran": {
            "from": "2026-01-05T00:00:00Z",
            "until": "2026-01-06T00:00:00Z",
            "dry_run": True,
        },
        "run it after all": {
            "from": "2026-01-05T00:00:00Z",
            "until": "2026-01-06T00:00:00Z",
            "which": "missing",
            "at_once": 2,
            "note": "the source was away",
        },
    },
)
def make_backfill(context: Operator, uid: str) -> Response:
    """
    Run past occurrences of an action after all.

    With `dry_run` they are only listed, each with what is recorded of it. The scheduler
    records a few at a time, under the ids that the occurrences have anyway, when
    nothing else waits. What succeeded or is under way never runs again.
    """
    asked = context.read(BackfillModel, "backfill")
    retention = context.services.settings.retention
    if asked.dry_run:
        with context.reading() as connection:
            plan = plan_backfill(
                connection,
                uid,
                since=asked.since,
                until=asked.until,
                which=asked.which,
                retention=retention,
                app=context.app,
            )
        return answer(plan.as_json())
    with context.writing() as connection:
        backfill_id = start_backfill(
            connection,
            uid,
            since=asked.since,
            until=asked.until,
            which=asked.which,
            retention=retention,
            by=context.caller.name,
            at_once=asked.at_once,
            note=asked.note,
            expected_count=asked.expected_count,
            app=context.app,
        )
        shown = fetch_shown_backfill(connection, backfill_id)
    return answer(
        shown.as_json(),
        status=HTTPStatus.ACCEPTED,
        location=f"/backfills/{backfill_id}",
    )


@router.get("/actions/{uid}/backfills", response_model=ListJson[BackfillJson])
def list_backfills(context: Viewer, page: Paged, uid: str) -> Response:
    """List the backfills of an action, the latest first, without their progress."""
    with context.reading() as connection:
        get_action(connection, uid, app=context.app)
        part = fetch_shown_backfills(connection, page, app=context.app, action_uid=uid)
    return answer_list(context, part, ShownBackfill.as_json)


@router.get("/backfills/{backfill_id}", response_model=BackfillJson)
def read_backfill(context: Viewer, backfill_id: UUID) -> Response:
    """Return a backfill, how far it is, and what it waits for."""
    with context.reading() as connection:
        shown = fetch_shown_backfill(connection, backfill_id, app=context.app)
    return answer(shown.as_json())


@router.get(
    "/backfills/{backfill_id}/occurrences",
    response_model=ListJson[BackfilledOccurrenceJson],
)
def list_backfilled(context: Viewer, page: Paged, backfill_id: UUID) -> Response:
    """List the occurrences of a backfill, the oldest first, and what became of each."""
    with context.reading() as connection:
        part = fetch_backfilled_occurrences(
            connection, backfill_id, page, app=context.app
        )
    return answer_list(context, part, BackfilledOccurrence.as_json)


@router.post("/backfills/{backfill_id}/cancel", response_model=BackfillJson)
def stop_backfill(context: Operator, backfill_id: UUID) -> Response:
    """
    Cancel a backfill: no more of it is recorded, and what waits is canceled.

    What a worker has taken goes on.
    """
    with context.writing() as connection:
        cancel_backfill(
            connection, backfill_id, by=context.caller.name, app=context.app
        )
        shown = fetch_shown_backfill(connection, backfill_id)
    return answer(shown.as_json())
