"""The account of an operation: what is told of it beside its state and steps."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path
from starlette.responses import Response

from api.answers import ROOT, answer
from api.guarding import ApiRoute
from api.routes.operation_examples import ID
from overview.operations.account import AccountJson, fetch_account
from serving.context import Viewer

router = APIRouter(
    prefix=f"{ROOT}/operations", tags=["operations"], route_class=ApiRoute
)

_EXAMPLE = {
    "id": ID,
    "identity": {
        "namespace": "6b0d4f2e-3a51-5c7e-9d8a-4f1f0c9b7e21",
        "text": "weekly | 2026-11-23 06:00:00+00:00",
        "is_proved": True,
    },
    "stretches": [
        {
            "step": "refresh",
            "attempt": 1,
            "state": "failed",
            "began_at": "2026-11-23T06:00:01Z",
            "ended_at": "2026-11-23T06:00:09Z",
            "error": "shop.example answered 503",
        },
        {
            "step": "refresh",
            "attempt": 2,
            "state": "succeeded",
            "began_at": "2026-11-23T06:00:39Z",
            "ended_at": "2026-11-23T06:00:52Z",
            "error": None,
        },
    ],
    "same": None,
    "versions": [{"domain": "orders", "version": 119, "rows": 1204, "is_live": True}],
    "published": ["data"],
    "mails": [
        {"step": "send_email", "state": "sent", "count": 2, "first": ["ada", "ben"]}
    ],
    "interventions": [
        {
            "at": "2026-11-23T07:00:00Z",
            "by": "root@host",
            "change": "retried",
            "note": "the source works again",
        }
    ],
}


@router.get(
    "/{operation_id}/account",
    response_model=AccountJson,
    responses={200: {"content": {"application/json": {"example": _EXAMPLE}}}},
)
def read_account(
    context: Viewer,
    operation_id: Annotated[
        UUID,
        Path(description="Id of an operation, its Celery task id.", examples=[ID]),
    ],
) -> Response:
    """
    Return the account of an operation.

    How its id is computed, each attempt at each step, how often the same failure was
    seen, what it made, and who canceled it or let it run again. Attempts whose worker
    was lost are not known.
    """
    with context.reading() as connection:
        account = fetch_account(connection, operation_id, app=context.app)
    return answer(account.as_json())
