"""Pause everything, with a note and an end; and go on. A key of one app: its app."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from zoneinfo import ZoneInfo

from fastapi import APIRouter
from starlette.responses import Response

from actions.pausing.pause_state import fetch_pause
from actions.pausing.targets import pause_target, resume_target
from models.errors import MinutehandError
from serving.context import Context, Operator
from web.clocks import Clocks, find_zone
from web.forms import Form, Refused, go_to, make_refused, read_form
from web.guarding import PageRoute, takes_form
from web.now.fetch_pulse import count_scheduled
from web.preferences import read_preferences
from web.query import read_part
from web.rendering import render

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/pause")
def ask_pause(context: Operator) -> Response:
    """Ask how long everything is to rest, and why."""
    return _render(context)


@router.post("/pause")
@takes_form
def pause_all(context: Operator) -> Response:
    """Pause everything."""
    form = read_form(context.body)
    zone = _find_zone(context)
    try:
        asked = form.read_pause(zone)
        with context.writing() as connection:
            done = pause_target(
                connection,
                context.app,
                until=asked.until,
                note=asked.note,
                by=context.caller.name,
            )
    except MinutehandError as error:
        return _render(context, form, make_refused(error))
    what = "everything" if context.app is None else f"small app {context.app}"
    actions = (
        "1 action rests" if done.actions == 1 else f"{done.actions:,} actions rest"
    )
    end = "" if asked.until is None else f" until {_tell(asked.until, zone)}"
    return go_to("/", f"Paused {what}{end}: {actions}.", undo="/resume")


@router.post("/resume")
@takes_form
def resume_all(context: Operator) -> Response:
    """Let everything go on from now."""
    with context.writing() as connection:
        done = resume_target(connection, context.app, by=context.caller.name)
    actions = "1 action runs" if done.actions == 1 else f"{done.actions:,} actions run"
    left = f" {done.still_paused:,} are still paused." if done.still_paused else ""
    return go_to("/", f"Resumed: {actions} again from now on.{left}")


def _tell(until: datetime, zone: ZoneInfo) -> str:
    local = until.astimezone(zone)
    return f"{local.day} {local:%b %H:%M} ({zone.key})"


def _find_zone(context: Context) -> ZoneInfo:
    """Return the zone that the form is filled in, as the page shows times."""
    liked = read_preferences(context.request)
    installation = find_zone(context.services.timezone) or ZoneInfo("UTC")
    now = datetime.now(installation)
    return Clocks(now, liked.clock, installation, liked.mine).find_zone()


def _render(
    context: Context, form: Form | None = None, refused: Refused | None = None
) -> Response:
    values = {
        "form": form,
        "refused": refused,
        "count": read_part(context, partial(count_scheduled, app=context.app)),
        "pause": read_part(context, partial(fetch_pause, app=context.app)),
        "zone": _find_zone(context).key,
    }
    return render(context, "now/pause_all.html", values, refused=refused)
