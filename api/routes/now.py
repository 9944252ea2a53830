"""What is wrong now and what comes next, minute by minute."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from api.answers import ROOT, answer
from api.guarding import ApiRoute
from overview.doctor.finding import Finding
from overview.now.minutes import MinutesJson, fetch_minutes
from overview.now.present import NowJson, fetch_now
from serving.context import Context, Viewer

router = APIRouter(prefix=ROOT, tags=["system"], route_class=ApiRoute)


@router.get("/now", response_model=NowJson)
async def read_now(
    context: Viewer,
    app: Annotated[str | None, Query(description="Uid of a small app.")] = None,
) -> Response:
    """
    Tell what is wrong at this moment, what is fine, and what comes next.

    With failures of the last 24 hours by cause; what was missed, skipped, late or is
    uncertain, and why; what runs, and when it may end; the next 10 occurrences. A key
    of one small app is told the part of that app.
    """
    app = context.narrow(app)
    far, _age_s = ([], None) if app else await context.services.recall_far()
    return await run_in_threadpool(_read_now, context, app, far)


def _read_now(context: Context, app: str | None, far: list[Finding]) -> Response:
    settings = context.services.settings
    with context.reading() as connection:
        found = fetch_now(connection, settings, app=app, far=far)
    return answer(found.as_json())


@router.get("/minutes", response_model=MinutesJson)
def read_minutes(
    context: Viewer,
    app: Annotated[str | None, Query(description="Uid of a small app.")] = None,
) -> Response:
    """
    Count operations minute by minute: two hours back, and what is planned for one.

    By state, with missed occurrences, each in the minute in which it was due; and the
    times in which no scheduler led.
    """
    app = context.narrow(app)
    with context.reading() as connection:
        found = fetch_minutes(connection, app=app)
    return answer(found.as_json())
