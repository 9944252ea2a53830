"""
Fetch what ran in a window of time: which actions, their runs, where they collide.

An index on when operations were recorded serves all of it, so that a window costs what
happened in it, however much there is in all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import sqlalchemy as sa

from actions.load.foresee import Whose
from models.database.engine import UtcDateTime
from models.database.sql_time import number_of
from models.database.tables import LIVE, operations, scheduled_actions
from models.operation_state import (
    LIVE_STATES,
    TROUBLED_STATES,
    OperationState,
    Queue,
)
from operations.running.taken import read_taken, seconds_taken

#: How long before the window an operation that has ended may have been recorded.
REACH = timedelta(hours=6)

_MINUTE_S = 60

_kept = operations.c
_actions = scheduled_actions.c


@dataclass(frozen=True, slots=True)
class Window:
    """
    What is looked at.

    Args:
        since: Aware UTC, inclusive.
        until: Aware UTC, exclusive.
        now: The time of the database, aware UTC.
        whose: Of which app and queue.
    """

    since: datetime
    until: datetime
    now: datetime
    whose: Whose

    def select(self) -> sa.Subquery:
        """Return the operations that were under way, or decided, in the window."""
        begins = sa.func.coalesce(_kept.started_at, _kept.occurrence).label("begins_at")
        asked = [begins < sa.literal(self.until, UtcDateTime)]
        if self.whose.app is not None:
            asked.append(_kept.app == self.whose.app)
        if self.whose.queue is not None:
            asked.append(_kept.queue == self.whose.queue.value)
        columns = (
            *(_kept.id, _kept.action_uid, _kept.app, _kept.queue, _kept.state),
            *(_kept.occurrence, _kept.started_at, _kept.finished_at, begins),
            *(_kept.attempt, _kept.details),
        )
        early = self.since - REACH
        lately = sa.select(*columns).where(
            _kept.recorded_at >= early,
            _kept.recorded_at < self.until,
            sa.or_(_kept.finished_at.is_(None), _kept.finished_at >= self.since),
            *asked,
        )
        for_long = sa.select(*columns).where(
            LIVE.of(), _kept.recorded_at < early, *asked
        )
        return sa.union_all(lately, for_long).subquery("seen")


class Busy(NamedTuple):
    """An action that has runs in the window, and how many."""

    uid: str
    app: str
    queue: str
    runs: int
    troubled: int
    live: int


class Run(NamedTuple):
    """
    One operation; times are aware UTC.

    Args:
        finished_at: None: it is still to be done.
        took: How long it ran: see operations/running/taken.py. None: it has not, or
            still runs.
    """

    id: UUID
    state: OperationState
    occurrence: datetime
    started_at: datetime | None
    finished_at: datetime | None
    took: timedelta | None = None


class Stretch(NamedTuple):
    """
    What an action did in a part of the window, if there are too many runs to tell.

    Args:
        states: How many runs that began in it are in each state.
    """

    starts_at: datetime
    ends_at: datetime
    states: Mapping[OperationState, int]


class Overlap(NamedTuple):
    """A run that began before the former one of the same action had ended."""

    uid: str
    operation_id: UUID
    at: datetime
    until: datetime


class Crowd(NamedTuple):
    """A minute in which more was due than a queue has slots."""

    queue: Queue
    at: datetime
    due: int
    slots: int
    is_planned: bool = False


def fetch_busy(
    connection: sa.Connection, window: Window, *, limit: int
) -> tuple[list[Busy], int]:
    """
    Return the actions with the most to see, and how many have any run in the window.

    First those with failed or missed runs, then those under way, then the busiest.
    """
    seen = window.select().c
    count = sa.func.count()
    troubled = count.filter(seen.state.in_(sorted(TROUBLED_STATES)))
    live = count.filter(seen.state.in_(sorted(LIVE_STATES)))
    query = (
        sa.select(
            seen.action_uid,
            sa.func.min(seen.app),
            sa.func.min(seen.queue),
            count,
            troubled,
            live,
            count.over(),
        )
        .group_by(seen.action_uid)
        .order_by(
            (troubled > 0).desc(), (live > 0).desc(), count.desc(), seen.action_uid
        )
        .limit(limit)
    )
    rows = connection.execute(query).all()
    return [Busy(*row[:-1]) for row in rows], rows[0][-1] if rows else 0


def fetch_runs(
    connection: sa.Connection, window: Window, uids: Collection[str]
) -> dict[str, list[Run]]:
    """Return the runs of some actions in the window, in order."""
    seen = window.select().c
    query = (
        sa.select(
            *(seen.action_uid, seen.id, seen.state),
            *(seen.occurrence, seen.started_at, seen.finished_at),
            seconds_taken(seen),
        )
        .where(seen.action_uid.in_(uids))
        .order_by(seen.action_uid, seen.begins_at, seen.id)
    )
    found: dict[str, list[Run]] = {uid: [] for uid in uids}
    for uid, operation_id, state, *times, taken_s in connection.execute(query):
        run = Run(operation_id, OperationState(state), *times)
        found[uid].append(run._replace(took=read_taken(taken_s)))
    return found


def fetch_stretches(
    connection: sa.Connection, window: Window, uids: Collection[str], length_s: int
) -> dict[str, list[Stretch]]:
    """Return what some busy actions did, by stretches of *length_s* seconds."""
    seen = window.select().c
    number = number_of(connection.dialect.name, seen.begins_at, length_s)
    query = (
        sa.select(seen.action_uid, number, seen.state, sa.func.count())
        .where(seen.action_uid.in_(uids))
        .group_by(seen.action_uid, number, seen.state)
        .order_by(seen.action_uid, number)
    )
    states: dict[tuple[str, int], dict[OperationState, int]] = {}
    for uid, part, state, count in connection.execute(query):
        states.setdefault((uid, part), {})[OperationState(state)] = count
    found: dict[str, list[Stretch]] = {uid: [] for uid in uids}
    for (uid, part), counts in states.items():
        starts_at = datetime.fromtimestamp(part * length_s, UTC)
        ends_at = starts_at + timedelta(seconds=length_s)
        found[uid].append(Stretch(starts_at, ends_at, counts))
    return found


def fetch_overlaps(
    connection: sa.Connection, window: Window, uids: Collection[str], *, limit: int
) -> tuple[list[Overlap], int]:
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
        .limit(limit)
    )
    rows = connection.execute(query).all()
    return [Overlap(*row[:-1]) for row in rows], rows[0][-1] if rows else 0


def fetch_crowds(
    connection: sa.Connection,
    window: Window,
    slots: Mapping[Queue, int],
    *,
    limit: int,
) -> tuple[list[Crowd], int]:
    """
    Return the minutes in which more was due than could run, worst first, and how many.

    Args:
        window: The part of it that is past counts.
        slots: What the living workers of each queue run at a time; others are left out.
        limit: The most that are returned.
    """
    limits = {queue: count for queue, count in slots.items() if count}
    if not limits:
        return [], 0
    seen = window.select().c
    minute = number_of(connection.dialect.name, seen.occurrence, _MINUTE_S)
    count = sa.func.count()
    query = (
        sa.select(seen.queue, minute, count, sa.func.count().over())
        .where(seen.occurrence >= window.since)
        .group_by(seen.queue, minute)
        .having(
            sa.or_(
                *(
                    sa.and_(seen.queue == queue.value, count > most)
                    for queue, most in limits.items()
                )
            )
        )
        .order_by(count.desc(), minute)
        .limit(limit)
    )
    rows = connection.execute(query).all()
    crowds = []
    for name, number, due, _all in rows:
        queue = Queue(name)
        at = datetime.fromtimestamp(number * _MINUTE_S, UTC)
        crowds.append(Crowd(queue, at, due, limits[queue]))
    return crowds, rows[0][-1] if rows else 0


class Ticked(NamedTuple):
    """An action that is going to be due."""

    uid: str
    app: str
    name: str
    queue: str
    timing: str
    effective_from: datetime


_TICKED = (
    *(_actions.uid, _actions.app, _actions.name, _actions.queue),
    *(_actions.timing, _actions.effective_from),
)


def fetch_next(
    connection: sa.Connection, window: Window, *, limit: int
) -> tuple[list[Ticked], int]:
    """Return the actions that are due next in the window, and how many are."""
    if window.until <= window.now:
        return [], 0
    is_due = [
        *window.whose.ticked(),
        _actions.timing.is_not(None),
        _actions.next_due_at < window.until,
    ]
    query = sa.select(*_TICKED).where(*is_due)
    rows = connection.execute(
        query.order_by(_actions.next_due_at, _actions.uid).limit(limit)
    )
    found = [Ticked(*row) for row in rows]
    if len(found) < limit:
        return found, len(found)
    count = connection.execute(sa.select(sa.func.count()).where(*is_due)).scalar_one()
    return found, count


def fetch_ticked(
    connection: sa.Connection, window: Window, uids: Collection[str]
) -> list[Ticked]:
    """Return those of some actions that are going to be due."""
    if window.until <= window.now:
        return []
    query = sa.select(*_TICKED).where(
        *window.whose.ticked(), _actions.timing.is_not(None), _actions.uid.in_(uids)
    )
    return [Ticked(*row) for row in connection.execute(query)]


def fetch_names(connection: sa.Connection, uids: Sequence[str]) -> dict[str, str]:
    """Return the names that actions have now, by uid."""
    query = sa.select(_actions.uid, _actions.name).where(_actions.uid.in_(uids))
    return {row.uid: row.name for row in connection.execute(query)}
