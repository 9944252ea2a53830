"""The latest operations of actions: how they went, and how long they took."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from statistics import median
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from actions.lookup import get_action
from models.database.engine import json_rows, make_rows_json
from models.database.tables import UNCERTAIN, deliveries, operations
from models.operation_state import OperationState, Trigger
from operations.running.pace import read_taken, seconds_taken

#: The most of one action; and of each of a list, so that one with 200 reads 4,000.
MOST_RUNS = 100
MOST_LISTED = 20


@dataclass(frozen=True, slots=True)
class RecentRun:
    """
    An operation of an action; times are aware UTC.

    Args:
        is_uncertain: Whether nobody knows what became of one of its mails.
        took_s: How long its last attempt took, or has taken. None: none has begun.
    """

    operation: UUID
    occurrence: datetime
    user: str | None
    trigger: Trigger
    state: OperationState
    reason: str | None
    is_uncertain: bool
    attempt: int
    started_at: datetime | None
    finished_at: datetime | None
    took_s: float | None


@dataclass(frozen=True, slots=True)
class RecentRuns:
    """The latest operations of an action, newest first, and what success takes."""

    runs: tuple[RecentRun, ...]
    median_s: float | None

    @property
    def median(self) -> timedelta | None:
        """How long those took that succeeded, in the middle. None: none did."""
        return None if self.median_s is None else timedelta(seconds=self.median_s)


def make_recent(runs: Iterable[RecentRun]) -> RecentRuns:
    """Return *runs* with how long those that succeeded took, in the middle."""
    found = tuple(runs)
    took = [
        each.took_s
        for each in found
        if each.state is OperationState.SUCCEEDED and each.took_s is not None
    ]
    return RecentRuns(found, round(median(took), 3) if took else None)


def fetch_runs_of_action(
    connection: sa.Connection, uid: str, *, limit: int, app: str | None = None
) -> RecentRuns:
    """
    Return the latest *limit* operations of one action.

    Args:
        uid: Of an action, deleted or not.
        limit: At most MOST_RUNS.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.

    Raises:
        NotFoundError: There has never been such an action.
    """
    get_action(connection, uid, app=app)
    return fetch_recent_runs(connection, [uid], limit=limit).get(uid) or make_recent(())


def fetch_recent_runs(
    connection: sa.Connection, uids: Collection[str], *, limit: int
) -> dict[str, RecentRuns]:
    """
    Return the latest *limit* operations of each of *uids* that has any.

    One query for all: it reads so many rows of each, by the index of actions and
    occurrences, however many more there are.
    """
    rows = make_rows_json([{"uid": uid} for uid in uids])
    given = {"given": rows, "most": min(limit, MOST_RUNS)}
    found: dict[str, list[RecentRun]] = {}
    for row in connection.execute(_make_statement(connection.dialect.name), given):
        found.setdefault(row.action_uid, []).append(_make_run(row))
    return {uid: make_recent(runs) for uid, runs in found.items()}


@cache
def _make_statement(dialect: str) -> sa.Select[Any]:
    given = json_rows(dialect, {"uid": sa.Text()}, "given")
    most = sa.bindparam("most", type_=sa.Integer)
    each = operations.alias("each")
    # Of those of one instant, which an event of many users makes, any will do: to sort
    # them, all would be read.
    latest = (
        sa.select(each)
        .where(each.c.action_uid == given.c.uid)
        .order_by(each.c.occurrence.desc())
        .limit(most)
        .correlate(given)
    )
    # SQLite knows no LATERAL; PostgreSQL would ask the other form of every operation.
    found: sa.FromClause
    if dialect == "postgresql":
        found = latest.lateral("latest")
        source = given.join(found, sa.true())
    else:
        found = operations
        source = given.join(found, found.c.id.in_(latest.with_only_columns(each.c.id)))
    shown = found.c
    uncertain = sa.exists().where(
        deliveries.c.operation_id == shown.id, UNCERTAIN.of(deliveries.name)
    )
    return (
        sa.select(
            *(shown.action_uid, shown.id, shown.occurrence, shown.user_id),
            *(shown.trigger, shown.state, shown.reason, shown.attempt),
            *(shown.started_at, shown.finished_at),
            uncertain.label("is_uncertain"),
            seconds_taken(shown).label("taken_s"),
        )
        .select_from(source)
        .order_by(shown.action_uid, shown.occurrence.desc(), shown.id.desc())
    )


def _make_run(row: sa.Row[Any]) -> RecentRun:
    took = read_taken(row.taken_s)
    return RecentRun(
        *(row.id, row.occurrence, row.user_id),
        *(Trigger(row.trigger), OperationState(row.state), row.reason),
        *(bool(row.is_uncertain), row.attempt, row.started_at, row.finished_at),
        None if took is None else round(took.total_seconds(), 3),
    )
