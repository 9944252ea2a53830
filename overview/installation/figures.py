"""
What is waiting, what failed lately, which worker takes what: the figures of every face.

Each function takes a connection and returns plain data. The queries use the partial
indexes over live and failed operations, so their cost grows with the backlog and not
with the history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.lookup import SYSTEM_APP
from models.database.engine import db_now
from models.database.sql_time import seconds_between
from models.database.tables import (
    LIVE,
    PENDING,
    TROUBLED,
    UNCERTAIN,
    deliveries,
    domains,
    operations,
    scheduled_actions,
)
from models.operation_state import (
    FINAL_STATES,
    TROUBLED_STATES,
    OperationState,
    Queue,
    Reason,
    Trigger,
)
from operations.fleet.processes import Role, Seen
from operations.running.taken import seconds_taken

#: Operations among which the last success is looked for.
_LATEST = 1_000

#: How far "lately" reaches back.
LATELY = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Backlog:
    """
    The live operations of one app in one queue and state.

    Args:
        count: How many operations.
        waiting_since: When the oldest operation that no worker has taken was to be
            sent, aware UTC. None: none of them is waiting. Running operations are not,
            nor are those whose next attempt is still to come.
        waiting: How many of them are waiting.
    """

    queue: Queue
    app: str
    state: OperationState
    count: int
    waiting_since: datetime | None
    waiting: int = 0


def fetch_backlog(
    connection: sa.Connection, *, app: str | None = None
) -> list[Backlog]:
    """Return the live operations (of *app*), by queue, app and state."""
    kept = operations.c
    # An operation that was never tried has waited since it was recorded, even if its
    # message was lost and sent again in between.
    since = sa.case((kept.attempt == 0, kept.recorded_at), else_=kept.send_at)
    waits = sa.and_(kept.state != OperationState.RUNNING, kept.send_at <= db_now())
    rows = connection.execute(
        sa.select(
            kept.queue,
            kept.app,
            kept.state,
            sa.func.count(),
            sa.func.min(sa.case((waits, since)), type_=kept.send_at.type),
            sa.func.sum(sa.case((waits, 1), else_=0)),
        )
        .where(LIVE.of(), *_of(app))
        .group_by(kept.queue, kept.app, kept.state)
        .order_by(kept.queue, kept.app, kept.state)
    )
    return [
        Backlog(Queue(queue), app, OperationState(state), count, since, int(waiting))
        for queue, app, state, count, since, waiting in rows
    ]


def find_oldest(backlog: Iterable[Backlog]) -> datetime | None:
    """Return since when the oldest operation has waited; None if none is waiting."""
    return min((b.waiting_since for b in backlog if b.waiting_since), default=None)


@dataclass(frozen=True, slots=True)
class Held:
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


def fetch_held(connection: sa.Connection) -> Held | None:
    """Return what is waiting for the platform; None if nothing is."""
    kept = operations.c
    count, apps, since, error = connection.execute(
        sa.select(
            sa.func.count(),
            sa.func.count(kept.app.distinct()),
            sa.func.min(kept.recorded_at, type_=kept.recorded_at.type),
            sa.func.max(sa.func.coalesce(kept.error, kept.reason)),
        ).where(
            PENDING.of(),
            kept.reason.startswith(f"{Reason.PLATFORM}:"),
        )
    ).one()
    return Held(count, apps, since, error) if count else None


@dataclass(frozen=True, slots=True)
class Trouble:
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
    connection: sa.Connection, *, app: str | None = None
) -> list[Trouble]:
    """Return what went wrong lately (in *app*), by reason, the most first."""
    failed = sa.select(
        operations.c.app,
        operations.c.state,
        sa.func.coalesce(operations.c.reason, ""),
        sa.func.count(),
        sa.func.max(operations.c.finished_at, type_=operations.c.finished_at.type),
    ).where(
        TROUBLED.of(),
        operations.c.finished_at >= db_now(-LATELY),
        *_of(app),
    )
    uncertain = (
        sa.select(
            operations.c.app,
            deliveries.c.state,
            deliveries.c.step,
            sa.func.count(),
            sa.func.max(deliveries.c.updated_at, type_=deliveries.c.updated_at.type),
        )
        .join(operations, operations.c.id == deliveries.c.operation_id)
        .where(
            UNCERTAIN.of("deliveries"),
            deliveries.c.updated_at >= db_now(-LATELY),
            *_of(app),
        )
    )
    found = [
        Trouble(*row)
        for query in (
            failed.group_by(operations.c.app, operations.c.state, operations.c.reason),
            uncertain.group_by(operations.c.app, deliveries.c.state, deliveries.c.step),
        )
        for row in connection.execute(query)
    ]
    return sorted(found, key=lambda each: (-each.count, each.app, each.reason))


def count_uncertain(connection: sa.Connection, *, app: str | None = None) -> int:
    """Return the number of uncertain mails (of *app*), however old."""
    query = (
        sa.select(sa.func.count())
        .select_from(deliveries)
        .where(UNCERTAIN.of("deliveries"))
    )
    if app is not None:
        query = query.join(operations).where(*_of(app))
    return connection.execute(query).scalar_one()


def _of(app: str | None) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the condition for the operations of *app*; None: none."""
    return () if app is None else (operations.c.app == app,)


class RunningJson(TypedDict):
    """An operation that a worker runs, and how far it is."""

    id: UUID
    app: str
    action_uid: str
    trigger: Trigger
    attempt: int
    started_at: datetime | None
    progress: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Running:
    """
    An operation that a worker runs.

    Args:
        worker: The name of the worker.
        progress: ``{"step", "done", "total", "note"}``, as far as its step reports
            them.
    """

    id: UUID
    app: str
    action_uid: str
    trigger: Trigger
    attempt: int
    started_at: datetime | None
    worker: str | None
    progress: dict[str, Any] | None

    def as_json(self) -> RunningJson:
        """Return the documented object; keys are only added."""
        return {
            "id": self.id,
            "app": self.app,
            "action_uid": self.action_uid,
            "trigger": self.trigger,
            "attempt": self.attempt,
            "started_at": self.started_at,
            "progress": self.progress,
        }


def fetch_running(
    connection: sa.Connection, *, limit: int, app: str | None = None
) -> list[Running]:
    """Return operations (of *app*) that workers run, the longest running first."""
    kept = operations.c
    rows = connection.execute(
        sa.select(
            *(kept.id, kept.app, kept.action_uid, kept.trigger, kept.attempt),
            *(kept.started_at, kept.worker, kept.progress),
        )
        .where(LIVE.of(), kept.state == OperationState.RUNNING, *_of(app))
        .order_by(kept.started_at, kept.id)
        .limit(limit)
    )
    return [
        Running(**{**row._mapping, "trigger": Trigger(row.trigger)})  # noqa: SLF001 - SQLAlchemy's public name for it
        for row in rows
    ]


def fetch_last_success(
    connection: sa.Connection, *, app: str | None = None
) -> datetime | None:
    """Return when an operation (of *app*) last succeeded, among the latest thousand."""
    kept = operations.c
    latest = (
        sa.select(kept.state, kept.finished_at)
        .where(*_of(app))
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


def fetch_data_updated(
    connection: sa.Connection, *, app: str | None = None
) -> datetime | None:
    """Return when data (of *app*) were last published; None: never."""
    query = sa.select(sa.func.max(domains.c.published_at))
    if app is not None:
        query = query.where(domains.c.app == app)
    found: datetime | None = connection.execute(query).scalar_one()
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


def count_finished(
    connection: sa.Connection,
) -> dict[tuple[OperationState, str], int]:
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


def find_scheduled_queues(
    connection: sa.Connection, *, app: str | None = None
) -> set[Queue]:
    """Return the queues of actions (of *app*) that will run, unless it changes."""
    kept = scheduled_actions.c
    will_run = (
        kept.active,
        kept.paused_at.is_(None),
        kept.quarantined_at.is_(None),
        kept.deleted_at.is_(None),
        sa.or_(kept.next_due_at.is_not(None), kept.event.is_not(None)),
        *(() if app is None else (kept.app == app,)),
    )
    # Nothing else is on that queue, and in most installations one action is: an index
    # finds it, while all the others would be looked at.
    owned = {Queue.DEFAULT: [kept.app == SYSTEM_APP]}
    return {
        queue
        for queue in Queue
        if connection.execute(
            sa.select(
                sa.exists().where(kept.queue == queue, *will_run, *owned.get(queue, ()))
            )
        ).scalar()
    }


def find_takers(seen: Sequence[Seen], queue: Queue) -> list[Seen]:
    """Return the living workers that take from *queue*."""
    return [
        each
        for each in seen
        if each.process.role is Role.WORKER
        and each.is_alive
        and queue.value in each.process.queues
    ]
