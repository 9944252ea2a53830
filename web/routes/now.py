"""What is wrong at this moment, what is fine, and what comes next."""

from __future__ import annotations

from functools import partial
from zoneinfo import ZoneInfo

from fastapi import APIRouter
from starlette.responses import Response

from overview.installation.figures import LATELY
from overview.now.causes import Failures, fetch_failures
from overview.now.coming import fetch_coming
from overview.now.lag import Lag, fetch_lag
from overview.now.minutes import Minutes, fetch_minutes
from overview.now.not_run import NotRunList, fetch_not_run
from overview.now.pulse import Pulse, fetch_pulse
from overview.now.under_way import fetch_under_way
from overview.now.verdict import STANDS_AFTER, Verdict, judge
from serving.context import Context, Viewer
from web.charts.minute_rail import Rail, draw_rail
from web.charts.spark import Spark, draw_spark
from web.clocks import Clocks, find_zone
from web.guarding import PageRoute
from web.preferences import read_preferences
from web.reading import Unread, read_part
from web.rendering import render
from web.routes.begin import make_begin_values

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/")
def show_now(context: Viewer) -> Response:
    """Show what happens at this moment."""
    app = context.app
    state = read_part(context, partial(fetch_pulse, app=app))
    if not isinstance(state, Unread) and not state.has_actions:
        lag = read_part(context, partial(fetch_lag, app=app))
        values = {"state": state, "verdict": judge(state.as_figures(None, None))}
        more = make_begin_values(context)
        return render(
            context,
            "now_empty.html",
            {**values, **more, "lag": lag, "spark": _draw_lag(lag, state)},
        )
    failures = read_part(context, partial(fetch_failures, app=app))
    not_run = read_part(context, partial(fetch_not_run, app=app))
    lag = read_part(context, partial(fetch_lag, app=app))
    minutes = read_part(context, partial(fetch_minutes, app=app))
    return render(
        context,
        "now.html",
        {
            "state": state,
            "verdict": _judge(state, failures, not_run),
            "failures": failures,
            "not_run": not_run,
            "lag": lag,
            "spark": _draw_lag(lag, state),
            "minutes": minutes,
            "rail": _draw_minutes(context, minutes, state),
            "running": read_part(context, partial(fetch_under_way, app=app)),
            "coming": read_part(context, partial(fetch_coming, app=app)),
        },
    )


def _judge(
    state: Pulse | Unread, failures: Failures | Unread, not_run: NotRunList | Unread
) -> Verdict | None:
    """Return the verdict; None: nothing can be told."""
    if isinstance(state, Unread):
        return None
    figures = state.as_figures(
        None if isinstance(failures, Unread) else failures,
        None if isinstance(not_run, Unread) else not_run,
    )
    return judge(figures)


def _draw_lag(lag: Lag | Unread, state: Pulse | Unread) -> Spark | None:
    if isinstance(lag, Unread) or isinstance(state, Unread):
        return None
    return draw_spark(lag.by_minute, state.now - LATELY, state.now)


def _draw_minutes(
    context: Context, minutes: Minutes | Unread, state: Pulse | Unread
) -> Rail | None:
    if isinstance(minutes, Unread):
        return None
    stuck = {}
    if not isinstance(state, Unread):
        stuck = {
            each.queue.value: each.since
            for each in state.queues
            if each.since is not None
            and not each.workers
            and state.now - each.since >= STANDS_AFTER
        }
    liked = read_preferences(context.request)
    zone = find_zone(context.services.timezone) or ZoneInfo("UTC")
    clocks = Clocks(minutes.now, liked.clock, zone, liked.mine)
    return draw_rail(minutes, clocks.find_zone(), stuck=stuck)
