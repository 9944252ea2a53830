"""The load that is coming."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from actions.load.forecast import Load, forecast_load
from api.answers import ROOT, answer
from api.guarding import ApiRoute
from models.fields.field_types import Instant
from serving.context import Viewer
from serving.guarding import heavy

router = APIRouter(prefix=f"{ROOT}/load", tags=["system"], route_class=ApiRoute)


@router.get("", response_model=Load)
@heavy
def read_load(
    context: Viewer,
    app: Annotated[str | None, Query(description="Uid of a small app.")] = None,
    since: Annotated[
        Instant | None, Query(alias="from", description="Inclusive. Left out: now.")
    ] = None,
    until: Annotated[
        Instant | None,
        Query(
            description="Exclusive, at most 7 days later. Left out: a day later.",
            examples=[],
        ),
    ] = None,
) -> Response:
    """
    Foresee how many occurrences each minute has, by queue and app.

    With the twenty minutes that have the most, and some of the actions that make them.
    What events drive, or is paused, is not foreseen, but counted in `left_out`.
    """
    app = context.narrow(app)
    with context.reading() as connection:
        found = forecast_load(connection, since=since, until=until, app=app)
    return answer(found)
