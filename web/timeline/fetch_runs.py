"""
What ran in a window of time: which actions, their runs, which overlap.

An index on when operations were recorded serves all of it, so that a window costs what
happened in it, however much there is in all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa

from actions.load.foresee import Whose
from models.database.engine import UtcDateTime
from models.database.sql_time import number_of
from models.database.tables import LIVE, operations
from models.operation_state import LIVE_STATES, TROUBLED_STATES, OperationState
from web.timeline.lane_chart import LaneRun

#: How long before the window an operation that has ended may have been recorded.
REACH = timedelta(hours=6)

#: Of a window: those runs of an action that end alike and begin in one are told as one,
#: so that there are never more to draw than can be told apart.
PARTS = 250

#: Overlaps that are told; all are counted.
MOST_OVERLAPS = 20

_run = operations.c


@dataclass(frozen=True, slots=True)
class Window:
    """
    What is looked at.

    Args:
        since: Aware UTC, inclusive; *until* is exclusive.
        now: The time of the database, aware UTC.
        whose: Of which app and queue.
    """

    since: datetime
    until: datetime
    now: datetime
    whose: Whose

    def select(self) -> sa.Subquery:
        """Return the operations that were under way, or decided, in the window."""
        begins = sa.func.coalesce(_run.started_at, _run.occurrence).label("begins_at")
        asked = [begins < sa.literal(self.until, UtcDateTime)]
        asked += self.whose.conditions(_run)
        columns = (
            *(_run.id, _run.action_uid, _run.app, _run.queue, _run.state),
            *(_run.occurrence, _run.started_at, _run.finished_at, begins),
        )
        early = self.since - REACH
        lately = sa.select(*columns).where(
            _run.recorded_at >= early,
            _run.recorded_at < self.until,
            sa.or_(_run.finished_at.is_(None), _run.finished_at >= self.since),
            *asked,
        )
        for_long = sa.select(*columns).where(
            LIVE.of(), _run.recorded_at < early, *asked
        )
        return sa.union_all(lately, for_long).subquery("seen")


class RunOverlap(NamedTuple):
    """A run that began before the former one of the same action had ended."""

    uid: str
    operation_id: UUID
    at: datetime
    until: datetime


def fetch_busy(
    connection: sa.Connection, window: Window, *, limit: int
) -> Sequence[sa.Row[Any]]:
    """
    Return the actions with the most to see: uid, app, queue, runs, troubled, live.

    First those with failed or missed runs, then those under way, then the busiest. Each
    row has the number of all actions with any run, too.
    """
    seen = window.select().c
    count = sa.func.count()
    troubled = count.filter(seen.state.in_(sorted(TROUBLED_STATES)))
    live = count.filter(seen.state.in_(sorted(LIVE_STATES)))
    query = (
        sa.select(
            seen.action_uid.label("uid"),
            sa.func.min(seen.app).label("app"),
            sa.func.min(seen.queue).label("queue"),
            count.label("runs"),
            troubled.label("troubled"),
            live.label("live"),
            count.over().label("all"),
        )
        .group_by(seen.action_uid)
        .order_by(
            (troubled > 0).desc(), (live > 0).desc(), count.desc(), seen.action_uid
        )
        .limit(limit)
    )
    return connection.execute(query).all()


def fetch_runs(
    connection: sa.Connection, window: Window, uids: Collection[str]
) -> dict[str, list[LaneRun]]:
    """Return the runs of some actions in the window, in order."""
    seen = window.select().c
    length_s = max(int((window.until - window.since).total_seconds()) // PARTS, 1)
    part = number_of(connection.dialect.name, seen.begins_at, length_s)
    never_ran = seen.started_at.is_(None) & seen.state.not_in(sorted(LIVE_STATES))
    ends_at = sa.case(
        (never_ran, seen.begins_at),
        else_=sa.func.coalesce(seen.finished_at, sa.literal(window.now, UtcDateTime)),
    )
    begins_at = sa.func.min(seen.begins_at)
    query = (
        sa.select(seen.action_uid, seen.state, begins_at, sa.func.max(ends_at))
        .where(seen.action_uid.in_(uids))
        .group_by(seen.action_uid, seen.state, part)
        .order_by(seen.action_uid, begins_at, seen.state)
    )
    found: defaultdict[str, list[LaneRun]] = defaultdict(list)
    for uid, state, *times in connection.execute(query) if uids else ():
        found[uid].append(LaneRun(OperationState(state), *times))
    return found


def fetch_overlaps(
    connection: sa.Connection, window: Window, uids: Collection[str]
) -> tuple[list[RunOverlap], int]:
    """Return where runs of an action overlap, latest first, and how often they do."""
    if not uids:
        return [], 0
    seen = window.select().c
    ends_at = sa.func.coalesce(seen.finished_at, sa.literal(window.now, UtcDateTime))
    former = sa.func.max(ends_at).over(
        partition_by=seen.action_uid,
        order_by=(seen.started_at, seen.id),
        rows=(None, -1),
    )
    runs = (
        sa.select(
            seen.action_uid,
            seen.id,
            seen.started_at,
            ends_at.label("ends_at"),
            sa.type_coerce(former, UtcDateTime).label("former_until"),
        )
        .where(seen.action_uid.in_(uids), seen.started_at.is_not(None))
        .subquery("runs")
    )
    columns = runs.c
    first_end = sa.case(
        (columns.ends_at < columns.former_until, columns.ends_at),
        else_=columns.former_until,
    )
    query = (
        sa.select(
            columns.action_uid,
            columns.id,
            columns.started_at,
            sa.type_coerce(first_end, UtcDateTime),
            sa.func.count().over(),
        )
        .where(columns.former_until > columns.started_at)
        .order_by(columns.started_at.desc(), columns.id)
        .limit(MOST_OVERLAPS)
    )
    rows = connection.execute(query).all()
    return [RunOverlap(*row[:-1]) for row in rows], rows[0][-1] if rows else 0
