"""What is wrong at this moment, what is fine, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from zoneinfo import ZoneInfo

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from overview.doctor.finding import Finding, Health
from overview.installation.figures import LATELY, Lag, fetch_lag
from serving.context import Context, Viewer
from web.charts import Spark, draw_spark
from web.clocks import Clocks, find_zone
from web.guarding import PageRoute
from web.now.begin import make_begin_values
from web.now.fetch_failures import Failures, fetch_failures
from web.now.fetch_minutes import Minutes, fetch_minutes
from web.now.fetch_not_run import NotRunKind, NotRunList, fetch_not_run
from web.now.fetch_pulse import Pulse, fetch_pulse
from web.now.fetch_running import fetch_coming, fetch_under_way
from web.now.minute_rail import Rail, draw_rail
from web.now.verdict import DayCounts, judge
from web.preferences import read_preferences
from web.query import Unread, read_part
from web.rendering import render

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/")
async def show_now(context: Viewer) -> Response:
    """Show what happens at this moment."""
    far, age_s = ([], None) if context.app else await context.services.recall_far()
    return await run_in_threadpool(_render_now, context, far, age_s)


def _render_now(
    context: Context, far: Sequence[Finding], far_age_s: float | None
) -> Response:
    app, settings = context.app, context.services.settings
    state = read_part(context, lambda each: fetch_pulse(each, settings, app=app))
    findings = [*_find(state), *far]
    lag = read_part(context, partial(fetch_lag, app=app))
    values = {
        "state": state,
        "lag": lag,
        "spark": _draw_lag(lag, state),
        "far_age_s": far_age_s,
    }
    if not isinstance(state, Unread) and not state.has_actions:
        verdict = judge(findings, DayCounts(), has_actions=False)
        more = make_begin_values(context)
        return render(
            context, "now/now_empty.html", {**values, **more, "verdict": verdict}
        )
    failures = read_part(context, partial(fetch_failures, app=app))
    not_run = read_part(context, partial(fetch_not_run, app=app))
    day = None
    if not isinstance(failures, Unread) and not isinstance(not_run, Unread):
        day = _count_day(failures, not_run)
    minutes = read_part(context, partial(fetch_minutes, app=app))
    return render(
        context,
        "now/now.html",
        {
            **values,
            "verdict": judge(findings, day),
            "failures": failures,
            "not_run": not_run,
            "minutes": minutes,
            "rail": _draw_minutes(context, minutes, findings),
            "running": read_part(context, partial(fetch_under_way, app=app)),
            "coming": read_part(context, partial(fetch_coming, app=app)),
        },
    )


def _count_day(failures: Failures, not_run: NotRunList) -> DayCounts:
    counts = not_run.counts
    return DayCounts(
        failed=failures.count,
        causes=len(failures.causes),
        missed=counts[NotRunKind.MISSED],
        skipped=counts[NotRunKind.SKIPPED],
        uncertain=counts[NotRunKind.UNCERTAIN],
        late=counts[NotRunKind.LATE],
    )


def _find(state: Pulse | Unread) -> Sequence[Finding]:
    """Return what was found; that nothing can be read is a finding, too."""
    if isinstance(state, Unread):
        title = "the database cannot be read"
        return [Finding("database", Health.BAD, state.why, title)]
    return state.findings


def _draw_lag(lag: Lag | Unread, state: Pulse | Unread) -> Spark | None:
    if isinstance(lag, Unread) or isinstance(state, Unread):
        return None
    return draw_spark(lag.by_minute, state.now - LATELY, state.now)


def _draw_minutes(
    context: Context, minutes: Minutes | Unread, findings: Sequence[Finding]
) -> Rail | None:
    if isinstance(minutes, Unread):
        return None
    stuck = {
        each.queue.value: each.since
        for each in findings
        if each.queue and each.since and each.health is Health.BAD
    }
    liked = read_preferences(context.request)
    zone = find_zone(context.services.timezone) or ZoneInfo("UTC")
    clocks = Clocks(minutes.now, liked.clock, zone, liked.mine)
    return draw_rail(minutes, clocks.find_zone(), stuck=stuck)
