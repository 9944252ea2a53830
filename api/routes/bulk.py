"""Bulk changes: one change of many actions or operations."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from api.answers import ROOT, answer, answer_begun
from api.guarding import ApiRoute
from dispatch.bulk.requests import (
    CountedBulk,
    ShownBulk,
    cancel_bulk,
    count_bulk,
    fetch_shown_bulk,
    start_bulk,
)
from models.requests.bulk_changes import BulkChangeModel
from serving.context import Operator, Viewer
from serving.guarding import Body

router = APIRouter(prefix=f"{ROOT}/bulk", tags=["bulk"], route_class=ApiRoute)


@router.post(
    "",
    status_code=202,
    response_model=ShownBulk,
    responses={200: {"model": CountedBulk, "description": "With `dry_run`."}},
)
@Body(
    BulkChangeModel,
    examples={
        "count what failed": {
            "kind": "retry",
            "filter": {"state": ["failed"], "reason": "step failed"},
            "dry_run": True,
        },
        "pause what was counted": {
            "kind": "pause",
            "filter": {"text": "yearly closing", "state": "active"},
            "expected_count": 1,
            "note": "the data source moves",
        },
    },
)
def make_bulk_change(context: Operator) -> Response:
    """
    Change many at once: cancel or retry operations; pause, resume or run actions.

    Ask with `dry_run` first, and send the count as `expected_count`: if it is another
    by then, nothing is done, and the answer is 409. The change is done in batches, in
    the background. Those that are refused are counted by reason, and stop nobody.
    """
    asked = context.read(BulkChangeModel, "bulk change")
    app = context.narrow(asked.filter.app)
    if asked.dry_run:
        counted = context.fetch(count_bulk, asked, app=app)
        counts = counted.total, counted.by_state, counted.by_app
        return answer(CountedBulk(asked.kind, *counts, dry_run=True))
    with context.writing() as connection:
        bulk_id = start_bulk(connection, asked, app=app)
        shown = fetch_shown_bulk(connection, bulk_id)
    return answer_begun(shown, f"/bulk/{bulk_id}")


@router.get("/{bulk_id}", response_model=ShownBulk)
def read_bulk_change(context: Viewer, bulk_id: UUID) -> Response:
    """Return a bulk change, and how far it is."""
    return answer(context.fetch(fetch_shown_bulk, bulk_id, app=context.app))


@router.post("/{bulk_id}/cancel", response_model=ShownBulk)
def stop_bulk_change(context: Operator, bulk_id: UUID) -> Response:
    """Stop a bulk change; what it has done stays done."""
    with context.writing() as connection:
        cancel_bulk(connection, bulk_id, app=context.app)
        shown = fetch_shown_bulk(connection, bulk_id)
    return answer(shown)
