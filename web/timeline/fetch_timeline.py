"""
Actions side by side on a line of time: what ran, what will, and where it collides.

There may be thousands of actions. Those with the most to see have a lane; how many have
none is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.leader import get_last_tick_at
from actions.load.counting import Counting
from actions.load.foresee import TIME, Whose, find_undecided, foresee
from actions.lookup import find_filtered
from actions.occurrences import find_due, parse_timing
from models.database.engine import read_clock
from models.errors import RuleError, UsageError
from models.operation_state import Queue
from operations.fleet.processes import fetch_processes
from overview.installation.figures import find_takers
from web.timeline.fetch_runs import (
    Busy,
    Crowd,
    Overlap,
    Ticked,
    Window,
    fetch_busy,
    fetch_crowds,
    fetch_names,
    fetch_next,
    fetch_overlaps,
    fetch_runs,
    fetch_stretches,
    fetch_ticked,
)
from web.timeline.lanes import MOST_PLANNED, Lane, LaneJson

#: The shortest and the longest window.
SHORTEST = timedelta(hours=1)
LONGEST = timedelta(days=7)

#: The window unless the caller says otherwise: before and after now.
BEFORE, AFTER = timedelta(hours=4), timedelta(hours=2)

#: Lanes unless the caller says otherwise, and the most.
LANES = 40
MOST_LANES = 100

#: Runs of a lane that are told one by one; of more, how many there are in each of as
#: many stretches.
MOST_RUNS = 150

#: Overlaps and crowded minutes that are told; all are counted.
MOST_COLLISIONS = 20

#: How long foreseeing crowded minutes may take.
PATIENCE = timedelta(seconds=1)

_MINUTE = timedelta(minutes=1)
_RESOLUTION = timedelta.resolution


class OverlapJson(TypedDict):
    """Two runs of an action at the same time: the later one, and until when."""

    action: str
    operation: UUID
    at: datetime
    until: datetime


class CrowdJson(TypedDict):
    """A minute in which more was or is due than the workers of a queue can run."""

    queue: Queue
    at: datetime
    due: int
    slots: int
    is_planned: bool


TimelineJson = TypedDict(
    "TimelineJson",
    {
        "at": datetime,
        "from": datetime,
        "until": datetime,
        "lanes": list[LaneJson],
        "ran": int,
        "due": int,
        "overlaps": list[OverlapJson],
        "overlaps_in_all": int,
        "crowds": list[CrowdJson],
        "crowds_in_all": int,
        "is_partial": bool,
    },
)


@dataclass(frozen=True, slots=True)
class Timeline:
    """
    What there is to see in a window.

    Args:
        at: The time of the database, aware UTC.
        since: Aware UTC, inclusive; *until* is exclusive.
        lanes: Failed and missed first, then what is under way, then the busiest, then
            what is due next.
        ran: How many actions have runs in the window, with a lane or without.
        due: How many actions are due in the rest of the window, with a lane or without.
        overlaps: The latest overlaps of the lanes; *overlaps_in_all* counts all.
        crowds: The worst minutes of all actions that were asked for; *crowds_in_all*
            counts all.
        is_partial: Whether not all crowded minutes ahead were counted.
    """

    at: datetime
    since: datetime
    until: datetime
    lanes: Sequence[Lane]
    ran: int
    due: int
    overlaps: Sequence[Overlap]
    overlaps_in_all: int
    crowds: Sequence[Crowd]
    crowds_in_all: int
    is_partial: bool

    def as_json(self) -> TimelineJson:
        """Return the documented object; keys are only added."""
        return {
            "at": self.at,
            "from": self.since,
            "until": self.until,
            "lanes": [each.as_json() for each in self.lanes],
            "ran": self.ran,
            "due": self.due,
            "overlaps": [
                {
                    "action": each.uid,
                    "operation": each.operation_id,
                    "at": each.at,
                    "until": each.until,
                }
                for each in self.overlaps
            ],
            "overlaps_in_all": self.overlaps_in_all,
            "crowds": [
                {
                    "queue": each.queue,
                    "at": each.at,
                    "due": each.due,
                    "slots": each.slots,
                    "is_planned": each.is_planned,
                }
                for each in self.crowds
            ],
            "crowds_in_all": self.crowds_in_all,
            "is_partial": self.is_partial,
        }


def fetch_timeline(
    connection: sa.Connection,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    whose: Whose | None = None,
    lanes: int = LANES,
    monotonic: Callable[[], float] = time.monotonic,
) -> Timeline:
    """
    Return what ran and what will run in a window, action by action.

    Runs that had been recorded more than REACH before the window, and have ended, are
    not shown.

    Args:
        since: Aware, inclusive. None: BEFORE now, or as long before *until*.
        until: Aware, exclusive. None: as long after *since* as the window is by itself.
        whose: Of which app and queue. None: all.
        lanes: The most actions, at most MOST_LANES.
        monotonic: Returns seconds that never jump.

    Raises:
        NotFoundError: There is no such small app.
        UsageError: The window is empty, too short or too long.
    """
    whose = whose or Whose()
    find_filtered(connection, app=whose.app, action=None)
    now = read_clock(connection)
    begin, end = _find_window(now, since, until)
    window = Window(begin, end, now, whose)
    lanes = min(lanes, MOST_LANES)
    # Nothing has happened in a window that has not begun.
    is_ahead = begin > now
    busy, ran = ([], 0) if is_ahead else fetch_busy(connection, window, limit=lanes)
    following, due = fetch_next(connection, window, limit=lanes)
    found = _make_lanes(connection, window, busy, following, lanes)
    slots = _count_slots(connection)
    overlaps, overlaps_in_all = fetch_overlaps(
        connection, window, [each.uid for each in busy], limit=MOST_COLLISIONS
    )
    crowds, crowds_in_all = fetch_crowds(
        connection, window, {} if is_ahead else slots, limit=MOST_COLLISIONS
    )
    deadline = monotonic() + PATIENCE.total_seconds()
    ahead, is_whole = _foresee_crowds(
        connection, window, slots, lambda: monotonic() >= deadline
    )
    worst = sorted([*crowds, *ahead], key=lambda each: (each.slots - each.due, each.at))
    return Timeline(
        at=now,
        since=begin,
        until=end,
        lanes=found,
        ran=ran,
        due=due,
        overlaps=overlaps,
        overlaps_in_all=overlaps_in_all,
        crowds=worst[:MOST_COLLISIONS],
        crowds_in_all=crowds_in_all + len(ahead),
        is_partial=not is_whole,
    )


def _find_window(
    now: datetime, since: datetime | None, until: datetime | None
) -> tuple[datetime, datetime]:
    length = BEFORE + AFTER
    if since is None:
        since = now - BEFORE if until is None else until - length
    until = until or since + length
    since, until = since.astimezone(UTC), until.astimezone(UTC)
    if not SHORTEST <= until - since <= LONGEST:
        msg = (
            f"the window from {since:%Y-%m-%d %H:%M:%S}Z to {until:%Y-%m-%d %H:%M:%S}Z"
            f" is not 1 hour to {LONGEST.days} days long. Ask for another."
        )
        raise UsageError(msg)
    return since, until


def _make_lanes(
    connection: sa.Connection,
    window: Window,
    busy: Sequence[Busy],
    following: Sequence[Ticked],
    most: int,
) -> list[Lane]:
    """Return the lanes of what ran, and in the room left of what is only due."""
    uids = [each.uid for each in busy]
    few = [each.uid for each in busy if each.runs <= MOST_RUNS]
    many = [each.uid for each in busy if each.runs > MOST_RUNS]
    length_s = max(int((window.until - window.since).total_seconds()) // MOST_RUNS, 1)
    runs = fetch_runs(connection, window, few) if few else {}
    stretches = (
        fetch_stretches(connection, window, many, length_s=length_s) if many else {}
    )
    names = fetch_names(connection, uids)
    ticked = {each.uid: each for each in fetch_ticked(connection, window, uids)}
    since = max(window.since, find_undecided(window.now, get_last_tick_at(connection)))
    lanes = [
        Lane(
            each.uid,
            each.app,
            names.get(each.uid),
            Queue(each.queue),
            count=each.runs,
            troubled=each.troubled,
            live=each.live,
            runs=runs.get(each.uid, ()),
            stretches=stretches.get(each.uid, ()),
            planned=_find_planned(ticked.get(each.uid), since, window.until),
        )
        for each in busy
    ]
    others = [each for each in following if each.uid not in set(uids)]
    lanes += [
        Lane(
            each.uid,
            each.app,
            each.name,
            Queue(each.queue),
            planned=_find_planned(each, since, window.until),
        )
        for each in others[: most - len(lanes)]
    ]
    return lanes


def _find_planned(
    action: Ticked | None, since: datetime, until: datetime
) -> list[datetime]:
    """Return when an action is due, at most MOST_PLANNED times."""
    if action is None or since >= until:
        return []
    try:
        schedule = parse_timing(action.timing)
    except RuleError:
        return []
    found = find_due(
        schedule,
        action.uid,
        start=since,
        now=until - _RESOLUTION,
        limit=MOST_PLANNED,
        effective_from=action.effective_from,
    )
    return [each.due_at for each in found]


def _count_slots(connection: sa.Connection) -> dict[Queue, int]:
    """Return how many operations the living workers of each queue run at a time."""
    seen = fetch_processes(connection)
    return {
        queue: sum(each.process.concurrency or 0 for each in find_takers(seen, queue))
        for queue in Queue
    }


def _foresee_crowds(
    connection: sa.Connection,
    window: Window,
    slots: Mapping[Queue, int],
    is_over: Callable[[], bool],
) -> tuple[list[Crowd], bool]:
    """Return the crowded minutes ahead, and whether there was time to find all."""
    limits = {queue.value: (queue, count) for queue, count in slots.items() if count}
    begin = find_undecided(window.now, get_last_tick_at(connection))
    begin = max(begin, window.since.replace(second=0, microsecond=0))
    if begin >= window.until or not limits:
        return [], True
    counting = Counting(begin, window.until, named=0)
    found = foresee(
        connection, counting, window.whose, before=window.until, is_over=is_over
    )
    crowds = []
    for number, by_queue in counting.iterate_minutes():
        for name, due in by_queue.items():
            queue, most = limits.get(name, (None, 0))
            if queue is not None and due > most:
                at = begin + number * _MINUTE
                crowds.append(Crowd(queue, at, due, most, is_planned=True))
    return crowds, not found.left_out[TIME]
