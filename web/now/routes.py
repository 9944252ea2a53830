"""What is wrong at this moment, what is fine, and what comes next; all pauses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from actions.load.forecast import Load
from actions.pausing.pause_state import fetch_pause
from actions.pausing.targets import pause_target, resume_target
from models.units import format_count
from overview.doctor.finding import Finding, Health
from serving.context import Context, Operator, Viewer
from web.charts import draw_spark
from web.forms import Form, go_to
from web.guarding import make_router, takes_form
from web.now.begin import make_begin_values
from web.now.fetch_failures import Failures, fetch_failures
from web.now.fetch_minutes import Minutes, fetch_minutes
from web.now.fetch_not_run import NotRunList, fetch_not_run
from web.now.fetch_pulse import Pulse, count_scheduled, fetch_pulse
from web.now.fetch_running import fetch_coming, fetch_under_way
from web.now.minute_rail import Rail, draw_rail
from web.now.verdict import DayCounts, judge
from web.query import Unread, read_part
from web.questions import after_question
from web.rendering import find_shown_zone, render

router = make_router()


@router.get("/")
async def show_now(context: Viewer) -> Response:
    """Show what happens at this moment."""
    known: tuple[Any, ...] = ()
    if context.app is None:
        far, age_s = await context.services.recall_far()
        known = far, age_s, await context.services.recall_ahead()
    async with context.share():
        return await run_in_threadpool(_render_now, context, *known)


def _render_now(
    context: Context,
    far: Sequence[Finding] = (),
    far_age_s: float | None = None,
    ahead: Load | None = None,
) -> Response:
    app, settings = context.app, context.services.settings
    state = read_part(context, fetch_pulse, settings, app=app)
    findings = [*_find(state), *far]
    values: dict[str, Any] = {"state": state, "far_age_s": far_age_s}
    if not isinstance(state, Unread):
        by_minute = state.lag.by_minute
        places = [1 - ago / 60 for ago in by_minute]
        values["spark"] = draw_spark([*by_minute.values()], places=places)
        if not state.has_actions:
            values["verdict"] = judge(findings, DayCounts(), has_actions=False)
            values |= make_begin_values(context)
            return render(context, "now/now_empty.html", values)
    failures = read_part(context, fetch_failures, app=app)
    not_run = read_part(context, fetch_not_run, app=app)
    day = None
    if not isinstance(failures, Unread) and not isinstance(not_run, Unread):
        day = _count_day(failures, not_run)
    minutes = read_part(context, fetch_minutes, app=app)
    values |= {
        "verdict": judge(findings, day),
        "failures": failures,
        "not_run": not_run,
        "minutes": minutes,
        "rail": _draw_minutes(context, minutes, findings),
        "running": read_part(context, fetch_under_way, app=app),
        "coming": read_part(context, fetch_coming, app=app),
        "ahead": ahead,
    }
    return render(context, "now/now.html", values)


def _count_day(failures: Failures, not_run: NotRunList) -> DayCounts:
    counts = {kind.value: count for kind, count in not_run.counts.items()}
    return DayCounts(failures.count, len(failures.causes), **counts)


def _find(state: Pulse | Unread) -> Sequence[Finding]:
    """Return what was found; that nothing can be read is a finding, too."""
    if isinstance(state, Unread):
        title = "the database cannot be read"
        return [Finding("database", Health.BAD, state.why, title)]
    return state.findings


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
    return draw_rail(minutes, find_shown_zone(context), stuck=stuck)


def _ask_pause(context: Context) -> tuple[str, dict[str, Any]]:
    """Ask how long everything is to rest, and why."""
    return "now/pause_all.html", {
        "count": read_part(context, count_scheduled, app=context.app),
        "pause": read_part(context, fetch_pause, app=context.app),
        "zone": find_shown_zone(context).key,
    }


@after_question(router, "/pause", _ask_pause)
def pause_all(context: Operator, form: Form) -> Response:
    """Pause everything."""
    zone = find_shown_zone(context)
    asked = form.read_pause(zone)
    done = context.change(pause_target, context.app, asked)
    what = "everything" if context.app is None else f"small app {context.app}"
    actions = format_count(done.actions, "action rests", "actions rest")
    end = "" if asked.until is None else f" until {_tell(asked.until, zone)}"
    return go_to("/", f"Paused {what}{end}: {actions}.", undo="/resume")


@router.post("/resume")
@takes_form
def resume_all(context: Operator) -> Response:
    """Let everything go on from now."""
    done = context.change(resume_target, context.app)
    actions = format_count(done.actions, "action runs", "actions run")
    left = f" {done.still_paused:,} are still paused." if done.still_paused else ""
    return go_to("/", f"Resumed: {actions} again from now on.{left}")


def _tell(until: datetime, zone: ZoneInfo) -> str:
    local = until.astimezone(zone)
    return f"{local.day} {local:%b %H:%M} ({zone.key})"
