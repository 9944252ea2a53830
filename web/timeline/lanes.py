"""A lane of the timeline: what one action did, and when it is due. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import NamedTuple
from uuid import UUID

from models.operation_state import OperationState, Queue

#: Planned occurrences of a lane.
MOST_PLANNED = 1_000


class LaneRun(NamedTuple):
    """
    One operation; times are aware UTC.

    Args:
        finished_at: None: it is still to be done.
        took: How long it ran: see operations/running/pace.py. None: it has not, or
            still runs.
    """

    id: UUID
    state: OperationState
    occurrence: datetime
    started_at: datetime | None
    finished_at: datetime | None
    took: timedelta | None = None


class LaneStretch(NamedTuple):
    """
    What an action did in a part of the window, if there are too many runs to tell.

    Args:
        states: How many runs that began in it are in each state.
    """

    starts_at: datetime
    ends_at: datetime
    states: Mapping[OperationState, int]


@dataclass(frozen=True, slots=True)
class TimelineLane:
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
    runs: Sequence[LaneRun] = ()
    stretches: Sequence[LaneStretch] = ()
    planned: Sequence[datetime] = ()

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

    def tell(self) -> str:
        """Return what ran, in words; or what is to come, if nothing did."""
        if not self.count:
            return self.tell_due()
        parts = [f"{self.count:,} {'run' if self.count == 1 else 'runs'}"]
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
