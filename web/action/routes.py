"""The page of one scheduled action."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from actions.lookup import get_action
from actions.read_rules import find_zone
from dispatch.backfills.shown_backfills import fetch_shown_backfills
from models.fields.zone import load_zone
from models.paging import Page
from overview.actions.recent_runs import fetch_runs_of_action
from overview.actions.shown import fetch_detailed_action
from serving.context import Viewer
from web.action.fetch_days import fetch_action_days
from web.action.parts import (
    STRIPPED,
    ask_why,
    draw_durations,
    draw_weeks,
    fetch_difference,
    fetch_reached,
    fetch_runs,
    foresee,
)
from web.action_words import (
    find_zone_name,
    make_strip,
    name_mark,
    tell_idleness,
    write_rules,
)
from web.clocks import Clock
from web.guarding import PageRoute
from web.preferences import read_preferences
from web.query import Query, read_part
from web.rendering import render

router = APIRouter(include_in_schema=False, route_class=PageRoute)

#: Revisions and backfills that are looked at.
_REVISIONS, _BACKFILLS = 10, 3


@router.get("/actions/{uid}")
def show_action(context: Viewer, uid: str) -> Response:
    """Show one action."""
    query = Query(context)
    with context.reading() as connection:
        found = fetch_detailed_action(
            connection, uid, app=context.app, count=1, revisions=_REVISIONS, is_uid=True
        )
        zone = find_zone(get_action(connection, uid, app=context.app))
    preferences = read_preferences(context.request)
    mine = preferences.mine or load_zone(context.services.timezone)
    asked = query.text("at")
    values = {
        "found": found.seen_by(context.app),
        "zone": zone.key,
        "mine": None if mine.key in {zone.key, "UTC"} else mine.key,
        "whose": "you" if preferences.mine else "the installation",
        "foreseen": read_part(context, lambda c: foresee(c, uid, mine)),
        "runs": read_part(context, lambda c: fetch_runs(c, uid)),
        "recent": read_part(
            context, lambda c: fetch_runs_of_action(c, uid, limit=STRIPPED)
        ),
        "durations": read_part(
            context, lambda c: draw_durations(fetch_runs_of_action(c, uid, limit=30))
        ),
        "weeks": read_part(context, lambda c: draw_weeks(fetch_action_days(c, uid))),
        "reached": read_part(context, lambda c: fetch_reached(c, uid)),
        "difference": read_part(context, lambda c: fetch_difference(c, found)),
        "backfills": read_part(
            context,
            lambda c: fetch_shown_backfills(
                c, Page(_BACKFILLS), app=context.app, action_uid=uid
            ),
        ),
        "asked": read_part(context, lambda c: ask_why(c, uid, asked)),
        "Clock": Clock,
        "find_zone_name": find_zone_name,
        "make_strip": make_strip,
        "name_mark": name_mark,
        "tell_idleness": tell_idleness,
        "write_rules": write_rules,
    }
    return render(context, "action/action.html", values)
