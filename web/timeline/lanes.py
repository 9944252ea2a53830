"""A lane of the timeline: what one action did, and when it is due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from uuid import UUID

from typing_extensions import TypedDict

from models.operation_state import OperationState, Queue
from web.timeline.fetch_runs import Run, Stretch

#: Planned occurrences of a lane.
MOST_PLANNED = 1_000


class RunJson(TypedDict):
    """A run; ``starts_at`` is null before it started, ``ends_at`` before it ended."""

    operation: UUID
    state: OperationState
    occurrence: datetime
    starts_at: datetime | None
    ends_at: datetime | None


class StretchJson(TypedDict):
    """How many runs began in a part of the window, by state."""

    starts_at: datetime
    ends_at: datetime
    states: dict[OperationState, int]


class LaneJson(TypedDict):
    """
    An action in the window.

    Either ``runs`` has every run, or ``stretches`` tells how many there were.
    ``usual_s`` is how long a run takes: the median of ``runs`` that succeeded.
    ``too_close`` is how many planned occurrences are due before the former run will
    have ended, if it takes as long as usual.
    """

    action: str
    app: str
    name: str | None
    queue: Queue
    count: int
    troubled: int
    live: int
    runs: list[RunJson]
    stretches: list[StretchJson]
    planned: list[datetime]
    is_planned_whole: bool
    usual_s: float | None
    too_close: int


@dataclass(frozen=True, slots=True)
class Lane:
    """
    An action in the window.

    Args:
        name: None: it is known no more.
        count: How many runs there are.
        troubled: How many of them failed or were missed.
        live: How many are still to be done.
        runs: All of them, in order, if they are few.
        stretches: What they were, if they are many.
        planned: When it is due, in order; at most MOST_PLANNED.
    """

    uid: str
    app: str
    name: str | None
    queue: Queue
    count: int = 0
    troubled: int = 0
    live: int = 0
    runs: Sequence[Run] = ()
    stretches: Sequence[Stretch] = ()
    planned: Sequence[datetime] = ()

    @property
    def is_planned_whole(self) -> bool:
        """Whether ``planned`` has all."""
        return len(self.planned) < MOST_PLANNED

    @property
    def usual(self) -> timedelta | None:
        """How long a run takes: the median of those that succeeded."""
        took = [
            each.took.total_seconds()
            for each in self.runs
            if each.state is OperationState.SUCCEEDED and each.took is not None
        ]
        return timedelta(seconds=median(took)) if took else None

    @property
    def too_close(self) -> int:
        """How many planned occurrences come before the former run will have ended."""
        usual = self.usual
        if usual is None:
            return 0
        gaps = (after - before for before, after in pairwise(self.planned))
        return sum(gap < usual for gap in gaps)

    def as_json(self) -> LaneJson:
        """Return the documented object; keys are only added."""
        usual = self.usual
        return {
            "action": self.uid,
            "app": self.app,
            "name": self.name,
            "queue": self.queue,
            "count": self.count,
            "troubled": self.troubled,
            "live": self.live,
            "runs": [
                {
                    "operation": each.id,
                    "state": each.state,
                    "occurrence": each.occurrence,
                    "starts_at": each.started_at,
                    "ends_at": each.finished_at,
                }
                for each in self.runs
            ],
            "stretches": [
                {
                    "starts_at": each.starts_at,
                    "ends_at": each.ends_at,
                    "states": dict(each.states),
                }
                for each in self.stretches
            ],
            "planned": list(self.planned),
            "is_planned_whole": self.is_planned_whole,
            "usual_s": None if usual is None else usual.total_seconds(),
            "too_close": self.too_close,
        }
