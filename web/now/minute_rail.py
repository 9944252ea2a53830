"""
The minute rail: a bar a minute, two hours back and one ahead. Pure.

What went well and what is to come stands above the line, trouble hangs below it. The
height of a bar is the root of its count, so that a busy full hour leaves the others
visible.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from models.operation_state import LIVE_STATES, OperationState
from models.units import format_age
from web.now.fetch_minutes import PLANNED, Minutes

WIDTH, HEIGHT = 1240, 118

#: The first and the last minute, the lines of bars above and below, and the ruler.
_LEFT, _RIGHT = 20.0, 1217.0
_ABOVE, _BELOW, _RULER, _TOP = 62.0, 66.0, 92.0, 14.0

#: The highest and the lowest bar above and below the line.
_HIGHEST, _DEEPEST, _LEAST = 44.0, 26.0, 4.0

#: Width of a bar that is drawn as a box.
_BOX = 3.6

_MINUTE = timedelta(minutes=1)

#: States by how they are drawn.
_LIVE = tuple(sorted(LIVE_STATES))
_LEFT_OUT = (OperationState.SKIPPED, OperationState.CANCELED)

#: Minutes of a row of the table.
_ROW = timedelta(minutes=15)

#: Shorter stretches have no room for a text of their own.
_LABEL_WIDTH = 105.0


@dataclass(frozen=True, slots=True)
class RailMark:
    """A stroke of the ruler with its time; *is_hour*: of a full hour."""

    x: float
    text: str
    is_hour: bool


@dataclass(frozen=True, slots=True)
class RailShade:
    """
    A stretch that is shaded, and why.

    Args:
        kind: ``lost`` or ``bad``: of its colours.
        label_x: Where its text is.
        anchor: ``middle``, ``start`` or ``end``: the side on which there is room.
    """

    kind: str
    x: float
    width: float
    text: str
    label_x: float
    anchor: str


@dataclass(frozen=True, slots=True)
class RailRow:
    """A quarter of an hour for those who read the picture as a table."""

    at: datetime
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Rail:
    """
    The minute rail.

    Args:
        paths: By what they show: ``succeeded``, ``live``, ``planned``, ``failed``,
            ``missed``, ``skipped``; empty ones are left out.
        ruler: The strokes that have no time.
        marks: Those that have one.
        now_x: Where the hand is.
        rows: The same figures as a table.
    """

    paths: Mapping[str, str]
    ruler: str
    marks: Sequence[RailMark]
    shades: Sequence[RailShade]
    now_x: float
    rows: Sequence[RailRow]


def draw_rail(
    minutes: Minutes, zone: ZoneInfo, *, stuck: Mapping[str, datetime]
) -> Rail:
    """
    Return the rail of *minutes*.

    Args:
        minutes: What there was and what comes.
        zone: In which the ruler tells the time.
        stuck: Queues of which no worker takes anything, and since when (aware).
    """
    place = _Place(minutes.since, (minutes.until - minutes.since) / _MINUTE - 1)
    return Rail(
        paths={name: d for name, d in _draw_bars(minutes, place) if d},
        ruler=_draw_ruler(minutes, place),
        marks=list(_find_marks(minutes, place, zone)),
        shades=list(_find_shades(minutes, place, stuck)),
        now_x=place.find(minutes.now),
        rows=list(_make_rows(minutes)),
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where instants are: *since* is at the left edge, *count* minutes on the right."""

    since: datetime
    count: float

    @property
    def step(self) -> float:
        return (_RIGHT - _LEFT) / self.count

    def find(self, at: datetime) -> float:
        x = _LEFT + (at - self.since) / _MINUTE * self.step
        return round(min(max(x, _LEFT), _RIGHT + self.step), 1)


def _draw_bars(minutes: Minutes, place: _Place) -> Iterator[tuple[str, str]]:
    columns = [
        (place.find(at) + place.step / 2, counts)
        for at, counts in sorted(minutes.counts.items())
    ]
    above = max((_sum(c, _UP) for _x, c in columns), default=0)
    below = max((_sum(c, _DOWN) for _x, c in columns), default=0)
    up = _Scale(above, _HIGHEST)
    down = _Scale(below, _DEEPEST)
    paths: dict[str, list[str]] = {name: [] for name in _DRAWN}
    for x, each in columns:
        has = _sum_drawn(each)
        if well := has["succeeded"]:
            paths["succeeded"].append(f"M{x:.1f} {_ABOVE:g}v-{up.find(well):g}")
        if live := has["live"]:
            low = _ABOVE - (up.find(well) + 2 if well else 0)
            high = max(low - max(up.find(live) - 4, 3), _TOP)
            paths["live"].append(_box(x, high, low))
        if planned := has["planned"]:
            paths["planned"].append(_open_box(x, _ABOVE, up.find(planned)))
        if failed := has["failed"]:
            paths["failed"].append(f"M{x:.1f} {_BELOW:g}v{down.find(failed):g}")
        top = _BELOW + (down.find(failed) + 1 if failed else 0)
        if lost := has["missed"]:
            paths["missed"].append(_box(x, top, min(top + down.find(lost), _RULER)))
        elif left_out := has["skipped"]:
            low = min(top + down.find(left_out), _RULER)
            paths["skipped"].append(_box(x, top + 1, low))
    for name, parts in paths.items():
        yield name, "".join(parts)


#: What is drawn, in this order, and which states it counts.
_DRAWN: Mapping[str, Sequence[str]] = {
    "succeeded": (OperationState.SUCCEEDED,),
    "live": _LIVE,
    "planned": (PLANNED,),
    "failed": (OperationState.FAILED,),
    "missed": (OperationState.MISSED,),
    "skipped": _LEFT_OUT,
}
_UP = (OperationState.SUCCEEDED, *_LIVE, PLANNED)
_DOWN = (OperationState.FAILED, OperationState.MISSED, *_LEFT_OUT)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Heights of counts, of which *most* has the height *room*."""

    most: int
    room: float

    def find(self, count: int) -> float:
        part = math.sqrt(count / max(self.most, 16))
        return round(min(_LEAST + (self.room - _LEAST) * part, self.room), 1)


def _sum(counts: Mapping[str, int], names: Sequence[str]) -> int:
    return sum(counts.get(name, 0) for name in names)


def _sum_drawn(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: _sum(counts, states) for name, states in _DRAWN.items()}


def _box(x: float, top: float, bottom: float) -> str:
    left = x - _BOX / 2
    return f"M{left:.1f} {bottom:.1f}h{_BOX:g}V{top:.1f}h-{_BOX:g}z"


def _open_box(x: float, bottom: float, height: float) -> str:
    left = x - _BOX / 2
    return f"M{left:.1f} {bottom:g}v-{height:g}h{_BOX:g}v{height:g}"


def _draw_ruler(minutes: Minutes, place: _Place) -> str:
    strokes = [f"M14 {_ABOVE + 2:g}H1226M14 {_RULER:g}H1226"]
    at = _round_up(minutes.since, timedelta(minutes=5))
    while at <= minutes.until:
        long = at.minute % 15 == 0
        strokes.append(f"M{place.find(at):g} {_RULER:g}v{8 if long else 4}")
        at += timedelta(minutes=5)
    return "".join(strokes)


def _find_marks(minutes: Minutes, place: _Place, zone: ZoneInfo) -> Iterator[RailMark]:
    at = _round_up(minutes.since, _ROW)
    while at <= minutes.until:
        local = at.astimezone(zone)
        yield RailMark(place.find(at), f"{local:%H:%M}", local.minute == 0)
        at += _ROW


def _find_shades(
    minutes: Minutes, place: _Place, stuck: Mapping[str, datetime]
) -> Iterator[RailShade]:
    for each in minutes.unled:
        end = each.until or minutes.now
        # whole minutes, as the picture has them
        length = format_age(max(round((end - each.since) / _MINUTE), 1) * _MINUTE)
        yield _shade("lost", each.since, end, f"nobody led, {length}", place)
    for queue, since in stuck.items():
        yield _shade("bad", since, minutes.now, f"{queue} has no worker", place)


def _shade(
    kind: str, since: datetime, until: datetime, text: str, place: _Place
) -> RailShade:
    x, end = place.find(since), place.find(until)
    width = round(max(end - x, 1.5), 1)
    if width >= _LABEL_WIDTH:
        return RailShade(kind, x, width, text, round(x + width / 2, 1), "middle")
    if x - _LEFT >= _LABEL_WIDTH:
        return RailShade(kind, x, width, text, round(x - 6, 1), "end")
    return RailShade(kind, x, width, text, round(x + width + 6, 1), "start")


def _make_rows(minutes: Minutes) -> Iterator[RailRow]:
    at = minutes.since - timedelta(minutes=minutes.since.minute % 15)
    while at < minutes.until:
        counts: Counter[str] = Counter()
        for minute, each in minutes.counts.items():
            if at <= minute < at + _ROW:
                counts.update(each)
        yield RailRow(at, _sum_drawn(counts))
        at += _ROW


def _round_up(at: datetime, step: timedelta) -> datetime:
    past = timedelta(minutes=at.minute) % step
    return at if not past else at + step - past
