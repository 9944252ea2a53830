"""
The lanes of the timeline, and each as strokes: where its runs stand. Pure.

What succeeded stands above the line, trouble hangs below it; so it is told without
colours. A lane is WIDE units wide, however wide it is on the screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from models.operation_state import OperationState, Queue
from models.units import format_count
from web.charts import LOOKS

#: Units of a lane from its beginning to its end.
WIDE = 1000

#: The narrowest that a run is drawn.
_NARROW = 2


@dataclass(frozen=True, slots=True)
class LaneFrame:
    """
    The window of time that lanes show.

    Args:
        since: Aware; the left edge.
        until: Aware; the right edge.
    """

    since: datetime
    until: datetime

    def place(self, at: datetime) -> int:
        """Return where *at* is, within the lane."""
        part = (at - self.since) / (self.until - self.since)
        return round(min(max(part, 0.0), 1.0) * WIDE)

    def has(self, at: datetime) -> bool:
        """Tell whether *at* is in the window."""
        return self.since <= at < self.until


def draw_runs(
    frame: LaneFrame, runs: Sequence[LaneRun]
) -> Mapping[OperationState, str]:
    """
    Return the outlines of runs, by state; success never hides what failed.

    Args:
        frame: The window.
        runs: Of one lane.
    """
    boxes: dict[OperationState, list[str]] = {}
    for run in runs:
        left, right = frame.place(run.since), frame.place(run.until)
        width = max(right - left, _NARROW)
        left = min(left, WIDE - width)
        top, height = LOOKS[run.state].place
        box = f"M{left} {top}h{width}v{height}h{-width}z"
        boxes.setdefault(run.state, []).append(box)
    return {state: "".join(dict.fromkeys(found)) for state, found in boxes.items()}


def draw_planned(frame: LaneFrame, planned: Sequence[datetime]) -> str:
    """
    Return a tick for each planned occurrence; those that fall together are one.

    Beyond the last of MOST_PLANNED, a line says that it goes on.
    """
    places = dict.fromkeys(frame.place(each) for each in planned)
    ticks = "".join(f"M{place} 4v8" for place in places)
    if len(planned) < MOST_PLANNED:
        return ticks
    return f"{ticks}M{frame.place(planned[-1])} 8H{WIDE}"


@dataclass(frozen=True, slots=True)
class AxisTick:
    """
    A tick of the axis.

    Args:
        x: In hundredths of the width.
        text: What clocks show.
        is_day: Whether a day begins.
    """

    x: float
    text: str
    is_day: bool


#: How far ticks are apart: the first of which there are few enough.
_STEPS = (
    *(timedelta(minutes=10), timedelta(hours=1), timedelta(hours=3)),
    timedelta(days=1),
)
_MOST_TICKS = 9

#: Ticks are at times that are round at least to this.
_ROUND = timedelta(minutes=5)


def find_ticks(frame: LaneFrame, zone: ZoneInfo) -> list[AxisTick]:
    """Return the ticks of the axis: round times of *zone*."""
    length = frame.until - frame.since
    step = next(each for each in _STEPS if length / each <= _MOST_TICKS)
    ticks = []
    # By minutes that are round on the clock, so that a change of clocks moves no tick
    # to an odd time.
    at = frame.since.astimezone(UTC).replace(second=0, microsecond=0)
    at += (-(at.minute % 5) % 5) * timedelta(minutes=1)
    while at < frame.until:
        local = at.astimezone(zone)
        into = timedelta(hours=local.hour, minutes=local.minute)
        if not into % step and at >= frame.since:
            x = round((at - frame.since) / length * 100, 2)
            text = f"{local:%R}" if into else f"{local:%a} {local.day} {local:%b}"
            ticks.append(AxisTick(x, text, is_day=not into))
        at += _ROUND
    return ticks


#: Planned occurrences of a lane.
MOST_PLANNED = 1_000


class LaneRun(NamedTuple):
    """
    One operation; or several of one state that begin too close to be told apart.

    Args:
        since: When the first began, or was due if it never did; aware UTC.
        until: When the last ended: now, if it has not; *since*, if it never ran.
    """

    state: OperationState
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class TimelineLane:
    """
    An action in the window.

    Args:
        name: None: it is known no more.
        count: How many runs there are.
        troubled: How many of them failed or were missed.
        live: How many are still to be done.
        usual: How long a run takes. None: not known.
        runs: In order.
        planned: When it is due, in order; at most MOST_PLANNED.
    """

    uid: str
    app: str
    name: str | None
    queue: Queue
    count: int = 0
    troubled: int = 0
    live: int = 0
    usual: timedelta | None = None
    runs: Sequence[LaneRun] = ()
    planned: Sequence[datetime] = ()

    @property
    def too_close(self) -> int:
        """How many planned occurrences come before the former run will have ended."""
        usual = self.usual or timedelta()
        return sum(after - before < usual for before, after in pairwise(self.planned))

    def tell(self) -> str:
        """Return what ran, in words; or what is to come, if nothing did."""
        if not self.count:
            return self.tell_due()
        parts = [format_count(self.count, "run", "runs")]
        if self.troubled:
            parts.append(f"{self.troubled:,} failed or missed")
        if self.live:
            parts.append(f"{self.live:,} to be done")
        return ", ".join(parts)

    def tell_due(self) -> str:
        """Return what is to come, in words. Empty: nothing."""
        if not self.planned:
            return ""
        more = "" if len(self.planned) < MOST_PLANNED else " or more"
        return f"{len(self.planned):,}{more} planned"
