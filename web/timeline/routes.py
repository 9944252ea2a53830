"""What ran and what will, action by action, on a line of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from fastapi import APIRouter
from starlette.responses import Response

from actions.load.foresee import Whose
from models.database.engine import read_clock
from models.operation_state import OperationState, Queue
from serving.context import Viewer
from web.calendar.cells import make_filters
from web.clocks import format_iso
from web.guarding import PageRoute
from web.query import Asked, Span, ask
from web.reading import Unread, read_part
from web.rendering import render
from web.timeline.fetch_runs import Crowd
from web.timeline.fetch_timeline import Timeline, fetch_timeline
from web.timeline.lane_chart import (
    Frame,
    draw_planned,
    draw_runs,
    draw_stretches,
    find_ticks,
)
from web.timeline.lanes import Lane

router = APIRouter(include_in_schema=False, route_class=PageRoute)

#: Lanes of a page.
_LANES = 30

#: The part of the window that is past, if the link does not say which window.
_PAST = 2 / 3

_UTC = ZoneInfo("UTC")


@router.get("/timeline")
def show_timeline(context: Viewer) -> Response:
    """Show lanes of actions, and where their runs collide."""
    asked = ask(context)
    if isinstance(asked, Unread):
        return render(context, "timeline/timeline.html", {"timeline": asked})
    zone, span = asked.find_zone(), asked.span(Span.SIX_HOURS)
    since = asked.instant("from")
    timeline = read_part(
        context, lambda connection: _read(connection, asked, since, span)
    )
    values: dict[str, Any] = {
        "asked": asked,
        "timeline": timeline,
        "queues": tuple(Queue),
        "span": span,
        "spans": tuple(Span),
        "UTC": _UTC,
        "zone": zone,
    }
    if isinstance(timeline, Timeline):
        values |= _describe(timeline, asked, zone, span)
        values["is_live"] = since is None
    return render(context, "timeline/timeline.html", values)


def _read(
    connection: sa.Connection, asked: Asked, since: datetime | None, span: Span
) -> Timeline:
    length = span.length
    now = read_clock(connection)
    if since is None:
        since = now - length * _PAST
        since = since.replace(second=0, microsecond=0)
    begin = since
    timeline, _age = asked.context.services.kept.ask(
        ("timeline", begin, length, asked.whose),
        lambda: fetch_timeline(
            connection,
            since=begin,
            until=begin + length,
            whose=asked.whose,
            lanes=_LANES,
        ),
    )
    return timeline


@dataclass(frozen=True, slots=True)
class DrawnLane:
    """
    A lane, and how it is drawn.

    Args:
        states: Outlines by state.
        planned: Ticks of what is to come.
        overlaps: Where runs overlap: left edge and width.
        told: What ran, in words.
        due: What is to come, in words. Empty: nothing.
        path: Where its operations are listed.
    """

    lane: Lane
    states: Mapping[OperationState, str]
    planned: str
    overlaps: list[tuple[int, int]]
    told: str
    due: str
    path: str


def _describe(
    timeline: Timeline, asked: Asked, zone: ZoneInfo, span: Span
) -> Mapping[str, Any]:
    frame = Frame(timeline.since, timeline.until)
    half = span.length / 2
    middle = timeline.since + half
    return {
        "lanes": [_draw(frame, timeline, each, asked) for each in timeline.lanes],
        "ticks": find_ticks(frame, zone),
        "now_at": frame.place(timeline.at) / 10 if frame.has(timeline.at) else None,
        "crowds_at": [(frame.place(each.at) / 10, each) for each in timeline.crowds],
        "earlier": format_iso(timeline.since - half),
        "later": format_iso(timeline.since + half),
        "zooms": {each: format_iso(middle - each.length / 2) for each in Span},
        "closer": _step(span, -1),
        "wider": _step(span, 1),
        "names": {each.uid: each.name or each.uid for each in timeline.lanes},
        "large": _say(timeline),
        "left_out": _tell_left_out(timeline),
        "link": partial(_link, asked),
    }


def _step(span: Span, by: int) -> Span | None:
    spans = list(Span)
    number = spans.index(span) + by
    return spans[number] if 0 <= number < len(spans) else None


def _draw(frame: Frame, timeline: Timeline, lane: Lane, asked: Asked) -> DrawnLane:
    states = (
        draw_runs(frame, lane.runs, now=timeline.at)
        if lane.runs
        else draw_stretches(frame, lane.stretches)
    )
    overlaps = []
    for each in timeline.overlaps:
        if each.uid == lane.uid:
            left, right = frame.place(each.at), frame.place(each.until)
            overlaps.append((left, max(right - left, 3)))
    query = {
        "action": lane.uid,
        "from": format_iso(timeline.since),
        "until": format_iso(timeline.until),
    }
    return DrawnLane(
        lane=lane,
        states=states,
        planned=draw_planned(frame, lane.planned),
        overlaps=overlaps,
        told=_tell(lane),
        due=_tell_due(lane),
        path=f"/operations?{urlencode(query | make_filters(asked.whose))}",
    )


def _tell(lane: Lane) -> str:
    """Return what ran in a lane, in words."""
    if not lane.count:
        return _tell_due(lane)
    parts = [f"{lane.count:,} {'run' if lane.count == 1 else 'runs'}"]
    if lane.troubled:
        parts.append(f"{lane.troubled:,} failed or missed")
    if lane.live:
        parts.append(f"{lane.live:,} to be done")
    return ", ".join(parts)


def _tell_due(lane: Lane) -> str:
    """Return what is to come in a lane, in words."""
    if not lane.planned:
        return ""
    more = "" if lane.is_planned_whole else " or more"
    return f"{len(lane.planned):,}{more} planned"


def _say(timeline: Timeline) -> str:
    """Return the answer of the page."""
    if not timeline.lanes:
        return "Nothing ran here, and nothing is due"
    parts = []
    overlaps, crowds = timeline.overlaps_in_all, timeline.crowds_in_all
    if overlaps:
        what = "run overlaps" if overlaps == 1 else "runs overlap"
        parts.append(f"{overlaps:,} {what} another of the same action")
    if crowds:
        what = "minute has" if crowds == 1 else "minutes have"
        parts.append(f"{crowds:,} {what} more runs than slots")
    return "; ".join(parts) if parts else "Nothing collides"


def _tell_left_out(timeline: Timeline) -> str:
    """Return what has no lane."""
    ran = timeline.ran - sum(1 for each in timeline.lanes if each.count)
    due = timeline.due - sum(1 for each in timeline.lanes if each.planned)
    parts = []
    if ran > 0:
        parts.append(f"{ran:,} more that ran")
    if due > 0:
        parts.append(f"{due:,} more that are due")
    if not parts:
        return "All that ran or is due here has a lane."
    return f"Without {' and '.join(parts)}: choose an app, a queue or a shorter time."


def _link(asked: Asked, crowd: Crowd) -> str:
    """Return where the runs of a crowded minute are listed."""
    until = crowd.at + timedelta(minutes=1)
    query = {"from": format_iso(crowd.at), "until": format_iso(until)}
    query |= make_filters(Whose(asked.app, crowd.queue))
    path = "/calendar/planned" if crowd.is_planned else "/operations"
    return f"{path}?{urlencode(query)}"
