"""What ran and what will, action by action, on a line of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from starlette.responses import Response

from models.database.engine import read_clock
from models.operation_state import OperationState, Queue
from models.units import format_count
from serving.context import Viewer
from web.calendar.cells import link_period
from web.charts import LOOKS
from web.guarding import make_router
from web.preferences import format_iso
from web.query import Asked, Unread, ask, read_part
from web.rendering import render
from web.timeline.fetch_timeline import Timeline, fetch_timeline
from web.timeline.lane_chart import (
    LaneFrame,
    TimelineLane,
    draw_planned,
    draw_runs,
    find_ticks,
)

router = make_router()

#: The part of the window that is past, if the link does not say which window.
_PAST = 2 / 3


class Span(StrEnum):
    """How long a stretch of the timeline is."""

    HOUR = "1h"
    SIX_HOURS = "6h"
    DAY = "24h"
    WEEK = "7d"

    @property
    def length(self) -> timedelta:
        """As a length of time."""
        return timedelta(hours=_SPANS[self][0])

    @property
    def words(self) -> str:
        """As people say it."""
        return _SPANS[self][1]

    def step(self, by: int) -> Span | None:
        """Return the one so many longer. None: there is none."""
        number = list(Span).index(self) + by
        return list(Span)[number] if 0 <= number < len(Span) else None


_SPANS = {
    Span.HOUR: (1, "1 hour"),
    Span.SIX_HOURS: (6, "6 hours"),
    Span.DAY: (24, "24 hours"),
    Span.WEEK: (168, "7 days"),
}


@router.get("/timeline")
def show_timeline(context: Viewer) -> Response:
    """Show lanes of actions, and where their runs collide."""
    asked = ask(context)
    if isinstance(asked, Unread):
        return render(context, "timeline/timeline.html", {"timeline": asked})
    zone, span = asked.find_zone(), asked.choice("span", Span) or Span.SIX_HOURS
    since = asked.instant("from")
    timeline = read_part(context, _read, asked, since, span)
    values: dict[str, Any] = {
        "asked": asked,
        "timeline": timeline,
        "queues": tuple(Queue),
        "span": span,
        "LOOKS": LOOKS,
        "spans": tuple(Span),
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
    if since is None:
        since = read_clock(connection) - length * _PAST
        since = since.replace(second=0, microsecond=0)
    return fetch_timeline(connection, since, since + length, whose=asked.whose)


@dataclass(frozen=True, slots=True)
class DrawnLane:
    """
    A lane, and how it is drawn.

    Args:
        states: Outlines by state.
        planned: Ticks of what is to come.
        overlaps: Where runs overlap: left edge and width.
        label: What ran and what is to come, in words.
        path: Where its operations are listed.
    """

    lane: TimelineLane
    states: Mapping[OperationState, str]
    planned: str
    overlaps: list[tuple[int, int]]
    label: str
    path: str


def _describe(
    timeline: Timeline, asked: Asked, zone: ZoneInfo, span: Span
) -> Mapping[str, Any]:
    frame = LaneFrame(timeline.since, timeline.until)
    half = span.length / 2
    middle = timeline.since + half
    return {
        "lanes": [_draw(frame, timeline, each, asked) for each in timeline.lanes],
        "ticks": find_ticks(frame, zone),
        "now_at": frame.place(timeline.at) / 10 if frame.has(timeline.at) else None,
        "earlier": format_iso(timeline.since - half),
        "later": format_iso(timeline.since + half),
        "zooms": {each: format_iso(middle - each.length / 2) for each in Span},
        "zoom_keys": {span.step(-1): "+", span.step(1): "-"},
        "names": {each.uid: each.name or each.uid for each in timeline.lanes},
        "large": _say(timeline),
        "left_out": _tell_left_out(timeline),
    }


def _draw(
    frame: LaneFrame, timeline: Timeline, lane: TimelineLane, asked: Asked
) -> DrawnLane:
    overlaps = []
    for each in timeline.overlaps:
        if each.uid == lane.uid:
            left, right = frame.place(each.at), frame.place(each.until)
            overlaps.append((left, max(right - left, 3)))
    whole = timeline.since, timeline.until
    told = dict.fromkeys(filter(None, (lane.tell(), lane.tell_due())))
    label = f"{lane.name or lane.uid}: {', '.join(told)}"
    if overlaps:
        label += f", {len(overlaps)} of them together with another"
    return DrawnLane(
        lane=lane,
        states=draw_runs(frame, lane.runs),
        planned=draw_planned(frame, lane.planned),
        overlaps=overlaps,
        label=label,
        path=link_period("/operations", *whole, asked.whose, action=lane.uid),
    )


def _say(timeline: Timeline) -> str:
    """Return the answer of the page."""
    if not timeline.lanes:
        return "Nothing ran here, and nothing is due."
    if not timeline.overlaps_in_all:
        return "Nothing collides."
    what = format_count(timeline.overlaps_in_all, "run overlaps", "runs overlap")
    return f"{what} another of the same action."


def _tell_left_out(timeline: Timeline) -> str:
    """Return what has no lane."""
    ran = timeline.ran - sum(1 for each in timeline.lanes if each.count)
    due = timeline.due - sum(1 for each in timeline.lanes if each.planned)
    more = ((ran, "more that ran"), (due, "more that are due"))
    parts = [f"{count:,} {what}" for count, what in more if count > 0]
    if not parts:
        return "All that ran or is due here has a lane."
    return f"Without {' and '.join(parts)}: choose an app, a queue or a shorter time."
