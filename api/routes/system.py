"""The installation: what it does now, who works in it, and what is wrong with it."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import PlainTextResponse, Response

from api.answers import ROOT, ListJson, answer, answer_list
from api.guarding import ApiRoute
from models.fields.field_types import Instant
from models.paging import Part
from overview.actions.auditing import AuditJson, audit_all
from overview.doctor.finding import Examined, find_worst
from overview.installation.status import (
    AppStatus,
    Status,
    fetch_app_status,
    fetch_status,
)
from overview.installation.workers import ShownWorker, fetch_workers
from serving.context import Viewer
from serving.guarding import heavy

router = APIRouter(tags=["system"], route_class=ApiRoute)

#: How long an audit may take; clients and proxies wait no longer.
_AUDIT_WITHIN = timedelta(seconds=25)


@router.get(f"{ROOT}/status", response_model=Status | AppStatus)
def read_status(
    context: Viewer,
    app: Annotated[str | None, Query(description="Uid of a small app.")] = None,
) -> Response:
    """
    Tell who leads, what waits, what runs, what failed, and what is due next.

    A key of one small app is told the part of that app; *app* asks for such a part.
    """
    app = context.narrow(app)
    with context.reading() as connection:
        settings = context.services.settings
        if app is None:
            return answer(fetch_status(connection, settings))
        return answer(fetch_app_status(connection, settings, app))


@router.get(f"{ROOT}/workers", response_model=ListJson[ShownWorker])
def list_workers(context: Viewer) -> Response:
    """
    List the workers, and what each of them runs now.

    This needs a key of the installation.
    """
    context.demand_installation("the list of workers")
    with context.reading() as connection:
        found = fetch_workers(connection)
    return answer_list(context, Part(found, None))


@router.get(f"{ROOT}/doctor", response_model=Examined)
@heavy
async def examine(context: Viewer) -> Response:
    """
    Look for problems: of the leader, the queues, the broker, the hosts, the data.

    What is outside of the database is looked at once in ten seconds, however many ask.
    This needs a key of the installation.
    """
    context.demand_installation("what doctor finds")
    findings, age_s = await context.services.examine()
    return answer(Examined(find_worst(findings), findings, round(age_s, 3)))


@router.get(f"{ROOT}/audit", response_model=AuditJson)
@heavy
async def audit(
    context: Viewer,
    app: Annotated[str | None, Query(description="Uid of a small app.")] = None,
    since: Annotated[
        Instant | None,
        Query(alias="from", description="Inclusive; default: a day before *until*."),
    ] = None,
    until: Annotated[
        Instant | None, Query(description="Exclusive; default: the last tick.")
    ] = None,
) -> Response:
    """
    Compare what was recorded with an independent reading of the rules.

    Each small app has one at a time, which takes 25 seconds at most.
    """
    services = context.services
    run = partial(
        audit_all,
        services.engine,
        since=since,
        until=until,
        app=context.narrow(app),
        lookback=services.settings.lookback,
        at_most=_AUDIT_WITHIN,
    )
    audited = await services.auditing.run(context.tenant, run)
    return answer(audited.as_json())


@router.get(
    "/metrics",
    status_code=200,
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def read_metrics(context: Viewer) -> Response:
    """
    Return the metrics of work, for Prometheus (docs/telemetry.md).

    This needs a key of the installation.
    """
    context.demand_installation("what is measured")
    metrics, _ = await context.services.metrics.ask()
    return Response(metrics, media_type=CONTENT_TYPE_LATEST)
