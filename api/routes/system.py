"""The installation: what it does now, who works in it, its queues, what is wrong."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import PlainTextResponse, Response

from actions.load.forecast import Load, forecast_load, read_away
from actions.pausing.pause_state import tag_pause
from actions.pausing.queues import PausedQueue, ResumedQueue, pause_queue, resume_queue
from api.answers import ROOT, ListJson, answer, answer_list
from api.guarding import ApiRoute
from api.parameters import OnlyApp, query
from models.fields.field_types import Instant
from models.operation_state import Queue
from models.paging import Part
from models.requests.notes import NoteModel, PauseModel
from overview.auditing import Audit, audit_all
from overview.doctor.finding import Examined, find_worst
from overview.installation.status import (
    AppStatus,
    Status,
    fetch_app_status,
    fetch_status,
)
from overview.installation.workers import ShownWorker, fetch_workers, set_drained
from serving.context import Context, Operator, Viewer
from serving.guarding import Body, heavy

router = APIRouter(tags=["system"], route_class=ApiRoute)

#: How long an audit may take; clients and proxies wait no longer.
_AUDIT_WITHIN = timedelta(seconds=25)


@router.get(f"{ROOT}/status", response_model=Status | AppStatus)
def read_status(context: Viewer, app: OnlyApp) -> Response:
    """
    Tell who leads, what waits, what runs, what failed, and what is due next.

    A key of one small app is told the part of that app; *app* asks for such a part.
    """
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
    context.caller.demand_installation("the list of workers")
    found = context.fetch(fetch_workers)
    return answer_list(context, Part(found, None))


@router.get(f"{ROOT}/doctor", response_model=Examined)
@heavy
async def examine(context: Viewer) -> Response:
    """
    Look for problems: of the leader, the queues, the broker, the hosts, the data.

    What is outside of the database is looked at once in ten seconds, however many ask.
    This needs a key of the installation.
    """
    context.caller.demand_installation("what doctor finds")
    findings, age_s = await context.services.examine()
    return answer(Examined(find_worst(findings), findings, round(age_s, 3)))


@router.get(f"{ROOT}/audit", response_model=Audit)
@heavy
async def audit(
    context: Viewer,
    app: OnlyApp,
    since: Annotated[
        Instant | None, query("Inclusive; default: a day before *until*.", alias="from")
    ] = None,
    until: Annotated[
        Instant | None, query("Exclusive; default: the last tick.")
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
        app=app,
        lookback=services.settings.lookback,
        at_most=_AUDIT_WITHIN,
    )
    audited = await services.auditing.run(context.tenant, run)
    return answer(audited)


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
    context.caller.demand_installation("what is measured")
    metrics, _ = await context.services.metrics.ask()
    return Response(metrics, media_type=CONTENT_TYPE_LATEST)


#: What all small apps share.
_SHARED = "queues and workers"


@router.put(f"{ROOT}/queues/{{queue}}/pause", response_model=PausedQueue)
@Body(
    PauseModel,
    examples={
        "until": {"note": "the mail server moves", "until": "2036-01-01T09:00:00Z"}
    },
    required=False,
)
def pause_one_queue(context: Operator, queue: Queue) -> Response:
    """
    Pause a queue: nothing more of it is sent or claimed, what runs goes on.

    Occurrences are recorded as before, and wait. This needs a key of the installation.
    """
    context.caller.demand_installation(_SHARED)
    asked = context.read(PauseModel, "pause")
    paused = context.change(pause_queue, queue, asked, expected=context.expected)
    return answer(paused, etag=tag_pause(paused.pause))


@router.delete(f"{ROOT}/queues/{{queue}}/pause", response_model=ResumedQueue)
def resume_one_queue(context: Operator, queue: Queue) -> Response:
    """Resume a queue: what waits is sent within a second, the oldest first."""
    context.caller.demand_installation(_SHARED)
    resumed = context.change(resume_queue, queue, expected=context.expected)
    return answer(resumed, etag=tag_pause(None))


@router.post(f"{ROOT}/workers/{{worker_id}}/drain", response_model=ShownWorker)
@Body(
    NoteModel, examples={"before a deployment": {"note": "new kernel"}}, required=False
)
def drain_one_worker(context: Operator, worker_id: UUID) -> Response:
    """
    Ask a worker to finish what it runs and to take nothing new.

    It does so within 20 seconds, until it is resumed or started again; its state says
    when it is drained. This needs a key of the installation.
    """
    context.caller.demand_installation(_SHARED)
    return _set_drained(context, worker_id, drained=True)


@router.post(f"{ROOT}/workers/{{worker_id}}/resume", response_model=ShownWorker)
@Body(NoteModel, examples={"it is not stopped": {}}, required=False)
def resume_one_worker(context: Operator, worker_id: UUID) -> Response:
    """
    Let a drained worker take operations again, within 20 seconds.

    This needs a key of the installation.
    """
    context.caller.demand_installation(_SHARED)
    return _set_drained(context, worker_id, drained=False)


def _set_drained(context: Context, worker_id: UUID, *, drained: bool) -> Response:
    asked = context.read(NoteModel, "note")
    found = context.change(
        set_drained, worker_id, drained=drained, by=context.caller.name, note=asked.note
    )
    return answer(found)


@router.get(f"{ROOT}/load", response_model=Load)
@heavy
def read_load(
    context: Viewer,
    app: OnlyApp,
    since: Annotated[
        Instant | None, query("Inclusive. Left out: now.", alias="from")
    ] = None,
    until: Annotated[
        Instant | None,
        query("Exclusive, at most 7 days later. Left out: a day later.", examples=[]),
    ] = None,
    quiet: Annotated[
        str | None,
        query(
            "For how long the database is to be away: `quiet` says when it"
            " may be, within a week unless `until` says otherwise.",
            examples=["PT20M"],
        ),
    ] = None,
    at: Annotated[
        Instant | None, query("With `quiet`: what it costs from then on.", examples=[])
    ] = None,
) -> Response:
    """
    Foresee how many occurrences each minute has, by queue and app.

    With the twenty minutes that have the most, and some of the actions that make them.
    What events drive, or is paused, is not foreseen, but counted in `left_out`.
    """
    away = read_away(quiet, at, context.services.settings.lookback)
    found = context.fetch(forecast_load, since=since, until=until, app=app, away=away)
    return answer(found)
