"""The latest operations of actions: how they went, and how long they took."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from statistics import median
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.lookup import get_action
from models.database.engine import json_rows, make_rows_json
from models.database.tables import UNCERTAIN, deliveries, operations
from models.operation_state import OperationState, Trigger
from operations.running.taken import read_taken, seconds_taken

#: The most of one action; and of each of a list, so that one with 200 reads 4,000.
MOST_RUNS = 100
MOST_LISTED = 20


class RecentRunJson(TypedDict):
    """
    One of the latest operations of an action.

    ``is_uncertain``: nobody knows whether all of its mails arrived. ``took_s`` is how
    long it ran, without the time between attempts; null if it has not, or still runs.
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


class RecentRunsJson(TypedDict):
    """
    The latest operations of an action, newest first.

    ``median_s`` is how long those of them took that succeeded; null: none did.
    """

    runs: list[RecentRunJson]
    median_s: float | None


@dataclass(frozen=True, slots=True)
class RecentRun:
    """
    One of the latest operations of an action; times are aware UTC.

    Args:
        is_uncertain: Whether nobody knows if all of its mails arrived.
        took: How long it ran: see operations/running/taken.py. None: it has not, or
            still runs.
    """

    operation_id: UUID
    occurrence: datetime
    user_id: str | None
    trigger: Trigger
    state: OperationState
    reason: str | None
    is_uncertain: bool
    attempt: int
    started_at: datetime | None
    finished_at: datetime | None
    took: timedelta | None

    def as_json(self) -> RecentRunJson:
        """Return the documented object; keys are only added."""
        return {
            "operation": self.operation_id,
            "occurrence": self.occurrence,
            "user": self.user_id,
            "trigger": self.trigger,
            "state": self.state,
            "reason": self.reason,
            "is_uncertain": self.is_uncertain,
            "attempt": self.attempt,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "took_s": _to_seconds(self.took),
        }


@dataclass(frozen=True, slots=True)
class RecentRuns:
    """The latest operations of one action, newest first."""

    runs: tuple[RecentRun, ...] = ()

    @property
    def median(self) -> timedelta | None:
        """How long those that succeeded took. None: none of them did."""
        took = [
            each.took
            for each in self.runs
            if each.state is OperationState.SUCCEEDED and each.took is not None
        ]
        return median(took) if took else None  # type: ignore[type-var]  # timedeltas

    def as_json(self) -> RecentRunsJson:
        """Return the documented object; keys are only added."""
        return {
            "runs": [each.as_json() for each in self.runs],
            "median_s": _to_seconds(self.median),
        }


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
    return fetch_recent_runs(connection, [uid], limit=limit).get(uid, RecentRuns())


def fetch_recent_runs(
    connection: sa.Connection, uids: Collection[str], *, limit: int
) -> dict[str, RecentRuns]:
    """
    Return the latest *limit* operations of each of *uids* that has any.

    One query for all: it reads so many rows of each, by the index of actions and
    occurrences, however many more there are.
    """
    given = {
        "given": make_rows_json([{"uid": uid} for uid in uids]),
        "most": min(limit, MOST_RUNS),
    }
    found: dict[str, list[RecentRun]] = {}
    for row in connection.execute(_make_statement(connection.dialect.name), given):
        found.setdefault(row.action_uid, []).append(_make_run(row))
    return {uid: RecentRuns(tuple(runs)) for uid, runs in found.items()}


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
            shown.action_uid,
            shown.id,
            shown.occurrence,
            shown.user_id,
            shown.trigger,
            shown.state,
            shown.reason,
            uncertain.label("is_uncertain"),
            shown.attempt,
            shown.started_at,
            shown.finished_at,
            seconds_taken(shown).label("taken_s"),
        )
        .select_from(source)
        .order_by(shown.action_uid, shown.occurrence.desc(), shown.id.desc())
    )


def _make_run(row: sa.Row[Any]) -> RecentRun:
    return RecentRun(
        operation_id=row.id,
        occurrence=row.occurrence,
        user_id=row.user_id,
        trigger=Trigger(row.trigger),
        state=OperationState(row.state),
        reason=row.reason,
        is_uncertain=bool(row.is_uncertain),
        attempt=row.attempt,
        started_at=row.started_at,
        finished_at=row.finished_at,
        took=read_taken(row.taken_s),
    )


def _to_seconds(took: timedelta | None) -> float | None:
    return None if took is None else round(took.total_seconds(), 3)
