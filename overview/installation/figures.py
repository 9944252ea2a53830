"""
What is waiting, what failed lately, which worker takes what: the figures of every face.

Each function takes a connection and returns plain data. The queries use the partial
indexes over live and failed operations, so their cost grows with the backlog and not
with the history.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import db_now, read_clock
from models.database.lists import belongs_to
from models.database.sql_time import minutes_ago, seconds_between
from models.database.tables import (
    CLAIMED,
    DUE_ACTIONS,
    LIVE,
    TRIED_BEFORE,
    TROUBLED,
    UNCERTAIN,
    deliveries,
    domains,
    operations,
    scheduled_actions,
)
from models.json_form import ASIDE
from models.operation_state import (
    FINAL_STATES,
    TROUBLED_STATES,
    OperationState,
    Queue,
    Reason,
    Trigger,
)
from operations.fleet.processes import ProcessRole, Seen
from operations.running.pace import seconds_taken

#: Operations among which the last success is looked for.
_LATEST = 1_000

#: The most operations that the lag is found from, the latest first: some 20 ms.
LAG_LOOKED_AT = 10_000

#: Of a hundred operations, this many started as fast or faster.
_PERCENT = 95

#: How far "lately" reaches back.
LATELY = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Backlog:
    """
    The live operations of an app in a queue and state.

    Args:
        count: How many operations.
        waiting_since: When the oldest operation that no worker has taken was to be
            sent, aware UTC. None: none of them is waiting. Running operations are not,
            nor are those whose next attempt is still to come.
        oldest_s: How many seconds ago that was.
        waiting: How many of them are waiting.
    """

    app: str
    queue: Queue
    state: OperationState
    count: int
    waiting_since: datetime | None
    oldest_s: float | None = None
    waiting: int = 0


def fetch_backlog(
    connection: sa.Connection, *, now: datetime, app: str | None = None
) -> list[Backlog]:
    """Return the live operations (of *app*), by queue, app and state."""
    kept = operations.c
    # An operation that was never tried has waited since it was recorded, even if its
    # message was lost and sent again in between.
    since = sa.case((kept.attempt == 0, kept.recorded_at), else_=kept.send_at)
    instant = sa.literal(now, kept.send_at.type)  # a call for each row costs more
    waits = sa.and_(kept.state != OperationState.RUNNING, kept.send_at <= instant)
    key = kept.queue, kept.app, kept.state
    rows = connection.execute(
        sa.select(
            *(*key, sa.func.count()),
            sa.func.min(sa.case((waits, since)), type_=kept.send_at.type),
            sa.func.sum(sa.case((waits, 1), else_=0)),
        )
        .where(LIVE.of(), *belongs_to(app))
        .group_by(*key)
        .order_by(*key)
    )
    return [
        Backlog(
            *(app, Queue(queue), OperationState(state), count),
            *(since, find_age_s(now, since), int(waiting)),
        )
        for queue, app, state, count, since, waiting in rows
    ]


def find_age_s(now: datetime, since: datetime | None) -> float | None:
    """Return how many seconds ago *since* was; None: it never was."""
    return None if since is None else round((now - since).total_seconds(), 3)


#: The live states, in the order in which an operation passes them.
LIVE_IN_ORDER = (OperationState.PENDING, OperationState.QUEUED, OperationState.RUNNING)


def count_live(backlog: Iterable[Backlog]) -> dict[OperationState, int]:
    """Return how many operations are in each of the live states."""
    counted: Counter[OperationState] = Counter()
    for each in backlog:
        counted[each.state] += each.count
    return {state: counted[state] for state in LIVE_IN_ORDER}


def find_oldest(backlog: Iterable[Backlog]) -> datetime | None:
    """Return since when the oldest operation has waited; None if none is waiting."""
    return min((b.waiting_since for b in backlog if b.waiting_since), default=None)


@dataclass(frozen=True, slots=True)
class QueueNow:
    """
    A queue: its living workers, and how many operations they run at a time.

    ``waiting_since`` and ``oldest_s`` are of the oldest operation that no worker has
    taken; null: none waits.
    """

    workers: int
    slots: int
    waiting_since: datetime | None
    oldest_s: float | None
    #: How many wait whose time has come; and how many are in each of the live states.
    due: int = field(metadata=ASIDE)
    counts: Mapping[OperationState, int] = field(metadata=ASIDE)


def find_queues(
    backlog: Iterable[Backlog], seen: Sequence[Seen], now: datetime
) -> dict[Queue, QueueNow]:
    """Return how each queue is, by the *backlog* and all processes that are *seen*."""
    by_queue: dict[Queue, list[Backlog]] = {queue: [] for queue in Queue}
    for each in backlog:
        by_queue[each.queue].append(each)
    found = {}
    for queue, ours in by_queue.items():
        takers, since = find_takers(seen, queue), find_oldest(ours)
        found[queue] = QueueNow(
            *(len(takers), count_slots(takers), since, find_age_s(now, since)),
            due=sum(each.waiting for each in ours),
            counts=count_live(ours),
        )
    return found


@dataclass(frozen=True, slots=True)
class HeldOperations:
    """
    Operations that wait for the platform, such as for space on a full disk.

    Args:
        count: How many operations.
        apps: How many apps they belong to.
        since: When the first of them was recorded, aware UTC.
        error: The full error of one of them.
    """

    count: int
    apps: int
    since: datetime
    error: str


def fetch_held(connection: sa.Connection) -> HeldOperations | None:
    """Return what is waiting for the platform; None if nothing is."""
    kept = operations.c
    count, apps, since, error = connection.execute(
        sa.select(
            sa.func.count(),
            sa.func.count(kept.app.distinct()),
            sa.func.min(kept.recorded_at, type_=kept.recorded_at.type),
            sa.func.max(sa.func.coalesce(kept.error, kept.reason)),
        ).where(TRIED_BEFORE.of(), kept.reason.startswith(f"{Reason.PLATFORM}:"))
    ).one()
    return HeldOperations(count, apps, since, error) if count else None


@dataclass(frozen=True, slots=True)
class RecentTrouble:
    """
    Operations of an app that failed or were missed, or mails that are uncertain.

    Args:
        state: ``failed``, ``missed`` or ``uncertain``.
        reason: That of the operations; for mails, the step.
        count: How many operations, or mails.
        latest_at: When it happened last, aware UTC.
    """

    app: str
    state: str
    reason: str
    count: int
    latest_at: datetime


def fetch_troubles(
    connection: sa.Connection, *, app: str | None
) -> list[RecentTrouble]:
    """Return what went wrong lately (in *app*), by reason, the most first."""
    kept, marks = operations.c, deliveries.c
    mailed = operations.join(deliveries, kept.id == marks.operation_id)
    found: list[RecentTrouble] = []
    for source, state, reason, at, is_trouble in (
        (operations, kept.state, kept.reason, kept.finished_at, TROUBLED.of()),
        (mailed, marks.state, marks.step, marks.updated_at, UNCERTAIN.of("deliveries")),
    ):
        latest = sa.func.max(at, type_=at.type)
        rows = connection.execute(
            sa.select(
                kept.app, state, sa.func.coalesce(reason, ""), sa.func.count(), latest
            )
            .select_from(source)
            .where(is_trouble, at >= db_now(-LATELY), *belongs_to(app))
            .group_by(kept.app, state, reason)
        )
        found += [RecentTrouble(*row) for row in rows]
    return sorted(found, key=lambda each: (-each.count, each.app, each.reason))


def count_uncertain(connection: sa.Connection, *, app: str | None) -> int:
    """Return the number of uncertain mails (of *app*), however old."""
    count = sa.select(sa.func.count()).select_from(deliveries)
    query = count.where(UNCERTAIN.of("deliveries"))
    if app is not None:
        query = query.join(operations).where(*belongs_to(app))
    return connection.execute(query).scalar_one()


@dataclass(frozen=True, slots=True)
class Running:
    """
    An operation that a worker runs, and how far it is.

    Args:
        progress: ``{"step", "done", "total", "note"}``, as far as its step reports
            them.
        worker: The name of the worker, which names its host: not for tenants.
    """

    id: UUID
    app: str
    action_uid: str
    trigger: Trigger
    attempt: int
    started_at: datetime | None
    progress: dict[str, Any] | None
    worker: str | None = field(metadata=ASIDE)


def fetch_running(
    connection: sa.Connection, *, limit: int, app: str | None = None
) -> list[Running]:
    """Return operations (of *app*) that workers run, the longest running first."""
    kept = operations.c
    rows = connection.execute(
        sa.select(
            *(kept.id, kept.app, kept.action_uid, kept.trigger, kept.attempt),
            *(kept.started_at, kept.progress, kept.worker),
        )
        .where(CLAIMED.of(), kept.state == OperationState.RUNNING, *belongs_to(app))
        .order_by(kept.started_at, kept.id)
        .limit(limit)
    )
    return [Running(*row) for row in rows]


def fetch_last_success(connection: sa.Connection, app: str | None) -> datetime | None:
    """Return when an operation (of *app*) last succeeded, among the latest thousand."""
    kept = operations.c
    latest = (
        sa.select(kept.state, kept.finished_at)
        .where(*belongs_to(app))
        .order_by(kept.recorded_at.desc())
        .limit(_LATEST)
        .subquery()
    )
    found: datetime | None = connection.execute(
        sa.select(sa.func.max(latest.c.finished_at)).where(
            latest.c.state == OperationState.SUCCEEDED
        )
    ).scalar_one()
    return found


def fetch_data_updated(connection: sa.Connection, app: str | None) -> datetime | None:
    """Return when data (of *app*) were last published; None: never."""
    last = sa.select(sa.func.max(domains.c.published_at))
    owned = last.where(*belongs_to(app, domains.c.app))
    found: datetime | None = connection.execute(owned).scalar_one()
    return found


@dataclass(frozen=True, slots=True)
class Spread:
    """
    How long recently recorded operations of a queue took, counted by bounds.

    Args:
        start_lag: For each bound, how many operations began within so many seconds
            after they were recorded; the last number is how many began at all.
        run_time: The same for the seconds that those that have ended ran.
    """

    start_lag: Sequence[int]
    run_time: Sequence[int]


def fetch_spread(
    connection: sa.Connection, bounds: Sequence[float], *, within: timedelta = LATELY
) -> dict[Queue, Spread]:
    """Count what was recorded *within* that time, by *bounds* (seconds, ascending)."""
    kept = operations.c
    lag = seconds_between(kept.recorded_at, kept.started_at)
    ran = seconds_taken()

    def count(length: sa.ColumnElement[float]) -> list[sa.ColumnElement[int]]:
        each = [sa.func.sum(sa.case((length <= bound, 1), else_=0)) for bound in bounds]
        return [*each, sa.func.count(length)]

    rows = connection.execute(
        sa.select(kept.queue, *count(lag), *count(ran))
        .where(kept.recorded_at >= db_now(-within))
        .group_by(kept.queue)
    )
    size = len(bounds) + 1
    return {
        Queue(queue): Spread(tuple(counts[:size]), tuple(counts[size:]))
        for queue, *counts in rows
    }


def count_finished(connection: sa.Connection) -> dict[tuple[OperationState, str], int]:
    """
    Return how many operations became final lately, by state and reason.

    Failed and missed operations count by when they became final. All others count only
    if they were also recorded lately: an index over every end would cost each
    operation. Reasons are cut at the first colon.
    """
    kept = operations.c
    others = sorted(FINAL_STATES - TROUBLED_STATES)
    counted: Counter[tuple[OperationState, str]] = Counter()
    for where in (
        (TROUBLED.of(), kept.finished_at >= db_now(-LATELY)),
        (kept.state.in_(others), kept.recorded_at >= db_now(-LATELY)),
    ):
        query = sa.select(kept.state, kept.reason, sa.func.count()).where(*where)
        for state, reason, count in connection.execute(
            query.group_by(kept.state, kept.reason)
        ):
            head = (reason or "").partition(":")[0]
            counted[OperationState(state), head] += count
    return counted


def is_scheduled(connection: sa.Connection, queue: Queue, app: str | None) -> bool:
    """Return whether an action (of *app*) on *queue* will run as it is."""
    kept = scheduled_actions.c
    is_meant = kept.queue == queue, *belongs_to(app, kept.app)
    waits = (
        *(kept.event.is_not(None), kept.deleted_at.is_(None), kept.active),
        *(kept.paused_at.is_(None), kept.quarantined_at.is_(None)),
    )
    # Each half has an index of its own.
    is_due = sa.exists().where(DUE_ACTIONS.of(scheduled_actions.name), *is_meant)
    return bool(
        connection.scalar(
            sa.select(sa.or_(is_due, sa.exists().where(*waits, *is_meant)))
        )
    )


def find_takers(seen: Sequence[Seen], queue: Queue) -> list[Seen]:
    """Return the living workers that take from *queue*."""
    return [
        each
        for each in seen
        if each.process.role is ProcessRole.WORKER
        and each.is_alive
        and queue.value in each.process.queues
    ]


@dataclass(frozen=True, slots=True)
class Lag:
    """
    How long operations waited from being recorded to their first start.

    Args:
        p95: Of 100, 95 started within this time. None: none has started.
        by_minute: The same of those recorded in one minute, in seconds, by how many
            minutes ago; oldest first.
    """

    p95: timedelta | None
    by_minute: Mapping[int, float]


def fetch_lag(connection: sa.Connection, *, app: str | None = None) -> Lag:
    """
    Return how long what was recorded lately waited for its first start.

    Args:
        app: Uid of the only small app that counts. None: all.
    """
    kept = operations.c
    now = read_clock(connection)
    rows = connection.execute(
        sa.select(
            minutes_ago(kept.recorded_at, sa.literal(now, kept.recorded_at.type)),
            seconds_between(kept.recorded_at, kept.started_at),
        )
        .where(
            kept.recorded_at >= now - LATELY,
            kept.started_at.is_not(None),
            *belongs_to(app),
        )
        .order_by(kept.recorded_at.desc())
        .limit(LAG_LOOKED_AT)
    ).all()
    waits: dict[int, list[float]] = {}
    for ago, waited in reversed(rows):
        waits.setdefault(max(0, ago), []).append(max(0.0, float(waited)))
    everything = [each for found in waits.values() for each in found]
    return Lag(
        find_p95(everything) if everything else None,
        {ago: find_p95(found).total_seconds() for ago, found in waits.items()},
    )


def find_p95(waits: list[float]) -> timedelta:
    """
    Return the time within which 95 of 100 *waits* (seconds, at least one) ended.

    >>> find_p95([float(each) for each in range(1, 101)])
    datetime.timedelta(seconds=95)
    """
    place = math.ceil(len(waits) * _PERCENT / 100) - 1
    return timedelta(seconds=sorted(waits)[place])


def count_slots(takers: Sequence[Seen]) -> int:
    """Return how many operations these workers run at a time."""
    return sum(each.process.concurrency or 0 for each in takers)
