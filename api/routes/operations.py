"""Operations: what ran, what runs, and what did not."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from api.answers import ROOT, answer
from api.context import Viewer
from api.guarding import GuardedRoute
from overview.operations import fetch_shown_operation

router = APIRouter(
    prefix=f"{ROOT}/operations", tags=["operations"], route_class=GuardedRoute
)


@router.get("/{operation_id}", response_model=dict[str, Any])
def read_operation(context: Viewer, operation_id: UUID) -> Response:
    """Return an operation with its steps."""
    with context.reading() as connection:
        shown = fetch_shown_operation(connection, operation_id)
        context.own(shown.app)
    return answer(shown.as_json())
