"""Backfills: past occurrences of an action that run after all."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from api.answers import ROOT, answer, answer_begun
from api.guarding import ApiRoute
from dispatch.backfills.planning import Plan, plan_backfill
from dispatch.backfills.requests import (
    ShownBackfill,
    cancel_backfill,
    fetch_shown_backfill,
    start_backfill,
)
from models.requests.actions import BackfillModel
from serving.context import Operator, Viewer
from serving.guarding import Body

router = APIRouter(prefix=ROOT, tags=["backfills"], route_class=ApiRoute)


@router.post(
    "/actions/{uid}/backfills",
    status_code=202,
    response_model=ShownBackfill,
    responses={200: {"model": Plan, "description": "With `dry_run`: the list."}},
)
@Body(
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
        plan = context.fetch(
            plan_backfill, uid, asked, retention=retention, app=context.app
        )
        return answer(plan)
    with context.writing() as connection:
        backfill_id = start_backfill(
            connection, uid, asked, retention=retention, app=context.app
        )
        shown = fetch_shown_backfill(connection, backfill_id)
    return answer_begun(shown, f"/backfills/{backfill_id}")


@router.get("/backfills/{backfill_id}", response_model=ShownBackfill)
def read_backfill(context: Viewer, backfill_id: UUID) -> Response:
    """Return a backfill, how far it is, and what it waits for."""
    return answer(context.fetch(fetch_shown_backfill, backfill_id, app=context.app))


@router.post("/backfills/{backfill_id}/cancel", response_model=ShownBackfill)
def stop_backfill(context: Operator, backfill_id: UUID) -> Response:
    """
    Cancel a backfill: no more of it is recorded, and what waits is canceled.

    What a worker has taken goes on.
    """
    with context.writing() as connection:
        cancel_backfill(connection, backfill_id, app=context.app)
        shown = fetch_shown_backfill(connection, backfill_id)
    return answer(shown)
