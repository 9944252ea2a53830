"""What ran and what will run in a window of time, action by action."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from actions.load.foresee import Whose, count_due, find_undecided
from actions.occurrences import Due
from actions.read_rules import find_due_between
from models.database.engine import read_clock
from models.database.tables import scheduled_actions
from models.operation_state import Queue
from operations.running.pace import fetch_usual
from web.timeline.fetch_runs import (
    RunOverlap,
    Window,
    fetch_busy,
    fetch_overlaps,
    fetch_runs,
)
from web.timeline.lane_chart import MOST_PLANNED, TimelineLane

#: Lanes unless the caller says otherwise.
LANES = 30

_action = scheduled_actions.c


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
    """

    at: datetime
    since: datetime
    until: datetime
    lanes: Sequence[TimelineLane]
    ran: int
    due: int
    overlaps: Sequence[RunOverlap]
    overlaps_in_all: int


def fetch_timeline(
    connection: sa.Connection,
    since: datetime,
    until: datetime,
    *,
    whose: Whose,
    lanes: int = LANES,
) -> Timeline:
    """
    Return what ran and what will run in a window, action by action.

    Runs that had been recorded more than REACH before the window, and have ended, are
    not shown.

    Args:
        since: Aware UTC, inclusive.
        until: Aware UTC, exclusive: hours to days later.
        whose: Of which app and queue.
        lanes: The most actions.
    """
    now = read_clock(connection)
    window = Window(since, until, now, whose)
    planned_from = max(since, find_undecided(connection, now))
    # Nothing has happened in a window that has not begun.
    busy = [] if since > now else fetch_busy(connection, window, limit=lanes)
    following, due = _fetch_next(connection, window, limit=lanes)
    overlaps, overlaps_in_all = fetch_overlaps(
        connection, window, [each.uid for each in busy]
    )
    made = _make_lanes(connection, window, busy, following, planned_from, lanes)
    return Timeline(
        at=now,
        since=since,
        until=until,
        lanes=list(made),
        ran=busy[0].all if busy else 0,
        due=due,
        overlaps=overlaps,
        overlaps_in_all=overlaps_in_all,
    )


def _fetch_next(
    connection: sa.Connection, window: Window, *, limit: int
) -> tuple[Sequence[sa.Row[Any]], int]:
    """Return the actions that are due next in the window, and how many are."""
    if window.until <= window.now:
        return [], 0
    in_window = _action.next_due_at < window.until
    query = (
        sa.select(scheduled_actions)
        .where(*window.whose.ticked(), _action.timing.is_not(None), in_window)
        .order_by(_action.next_due_at, _action.uid)
        .limit(limit)
    )
    found = connection.execute(query).all()
    if len(found) < limit:
        return found, len(found)
    return found, count_due(connection, window.whose, in_window)


def _make_lanes(
    connection: sa.Connection,
    window: Window,
    busy: Sequence[sa.Row[Any]],
    following: Sequence[sa.Row[Any]],
    planned_from: datetime,
    most: int,
) -> Iterator[TimelineLane]:
    """Yield the lanes of what ran, and then of what is only due."""
    seen = {each.uid: each for each in busy}
    runs = fetch_runs(connection, window, seen)
    known = {each.uid: each for each in following}
    known |= _fetch_known(connection, window, seen)
    uids = list(dict.fromkeys([*seen, *known]))[:most]
    usual = fetch_usual(connection, uids)
    for uid in uids:
        action, ran = known.get(uid), seen.get(uid)
        planned: Sequence[Due] = ()
        if action is not None:
            planned = find_due_between(
                action, planned_from, window.until, limit=MOST_PLANNED
            )
        whose: Any = ran or action
        yield TimelineLane(
            uid,
            whose.app,
            None if action is None else action.name,
            queue=Queue(whose.queue),
            count=ran.runs if ran else 0,
            troubled=ran.troubled if ran else 0,
            live=ran.live if ran else 0,
            usual=usual[uid].run,
            runs=runs.get(uid, ()),
            planned=[each.due_at for each in planned],
        )


def _fetch_known(
    connection: sa.Connection, window: Window, uids: Collection[str]
) -> dict[str, sa.Row[Any]]:
    """Return some actions by uid; their timing, if ticks look at them."""
    is_ticked = sa.and_(*window.whose.ticked())
    query = sa.select(
        *(_action.uid, _action.name, _action.app, _action.queue),
        sa.case((is_ticked, _action.timing)).label("timing"),
        _action.effective_from,
    ).where(_action.uid.in_(uids))
    rows: Iterable[sa.Row[Any]] = connection.execute(query) if uids else ()
    return {row.uid: row for row in rows}
