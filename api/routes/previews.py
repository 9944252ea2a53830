"""Previews: what an action would do, before it is posted."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from starlette.responses import Response

from api.answers import ROOT, answer
from api.guarding import ApiRoute
from api.parameters import Within, query
from api.routes.action_examples import PREVIEWS
from models.fields.field_types import ZoneName
from models.fields.zone import load_zone
from overview.previews import MOST_SHOWN, FullPreview, PreviewTerms, preview_text
from serving.context import Viewer
from serving.guarding import Body

router = APIRouter(prefix=f"{ROOT}/previews", tags=["previews"], route_class=ApiRoute)

_BODY: dict[str, Any] = {
    "type": "object",
    "description": "A scheduled action; or its `when`, with bounds and exceptions,"
    " without name and operations.",
}


@router.post("", response_model=FullPreview)
@Body(_BODY, examples=PREVIEWS)
def preview(
    context: Viewer,
    *,
    app: Annotated[
        str | None,
        query(
            "Uid of the small app whose zone and holidays apply, and whose"
            " names are looked up."
        ),
    ] = None,
    period: Within,
    count: Annotated[int, query("The most occurrences.", ge=0, le=MOST_SHOWN)] = 10,
    timezone: Annotated[
        ZoneName | None, query("The viewer's zone. Left out: that of the installation.")
    ] = None,
    uid: Annotated[
        str | None, query("Of an existing action, whose edit this would be.")
    ] = None,
) -> Response:
    """
    Say what an action would do if it were posted now; nothing is stored.

    Without `from` it is shown from now on. With `uid`, `changes` has the runs of the
    next 30 days that the edit would add, remove and move.
    """
    zone = load_zone(timezone or context.services.timezone)
    asked = PreviewTerms(zone, period.since, period.until, count, uid)
    owner, terms = context.narrow(app), context.services.terms
    found = context.fetch(preview_text, owner, context.body, terms=terms, asked=asked)
    return answer(found)
