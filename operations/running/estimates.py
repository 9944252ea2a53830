"""What is under way, and how long it usually takes, for people who wait for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from uuid import UUID

import sqlalchemy as sa
from typing_extensions import TypedDict

from models.database.tables import CLAIMED_HEAVY, operation_steps, operations
from models.operation_state import StepState

#: Number of latest operations from which an estimate is made.
RUNS = 20

#: How people describe an app while such a step runs.
_VERBS = {"publish": "being published", "refresh": "being refreshed"}


class WorkingJson(TypedDict):
    """The heavy operation of a small app that a worker runs."""

    operation: UUID
    action_uid: str
    what: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Working:
    """
    The heavy operation of a small app that a worker runs.

    Args:
        verb: ``being published``, ``being refreshed``, or ``at work``.
        since: When its current step began, aware UTC. None: no step runs.
    """

    operation_id: UUID
    action_uid: str
    verb: str
    since: datetime | None

    def as_json(self) -> WorkingJson:
        """Return the object that ``--json`` prints."""
        return {
            "operation": self.operation_id,
            "action_uid": self.action_uid,
            "what": self.verb,
            "since": self.since,
        }


def fetch_working(
    connection: sa.Connection, app: str | None = None
) -> dict[str, Working]:
    """Return the heavy operation of each small app (or only *app*), by app."""
    running = sa.and_(
        operation_steps.c.operation_id == operations.c.id,
        operation_steps.c.state == StepState.RUNNING,
    )
    query = (
        sa.select(
            operations.c.app,
            operations.c.id,
            operations.c.action_uid,
            operation_steps.c.name,
            operation_steps.c.started_at,
        )
        .join_from(operations, operation_steps, running, isouter=True)
        .where(CLAIMED_HEAVY.of())
    )
    if app is not None:
        query = query.where(operations.c.app == app)
    return {
        row.app: Working(
            row.id, row.action_uid, _VERBS.get(row.name, "at work"), row.started_at
        )
        for row in connection.execute(query)
    }


@dataclass(frozen=True, slots=True)
class Usual:
    """How long a step took before: the median of the latest successes."""

    took: timedelta
    runs: int


def estimate_steps(
    connection: sa.Connection, action_uid: str, names: Iterable[str]
) -> dict[str, Usual]:
    """
    Return how long steps of an action usually take.

    Args:
        action_uid: Uid of the action.
        names: Names of its steps.

    Returns:
        Estimates by name of the step, without steps that have not succeeded in the
        latest RUNS operations of the action.
    """
    recent = (
        sa.select(operations.c.id)
        .where(operations.c.action_uid == action_uid)
        .order_by(operations.c.occurrence.desc())
        .limit(RUNS)
    )
    rows = connection.execute(
        sa.select(
            operation_steps.c.name,
            operation_steps.c.started_at,
            operation_steps.c.finished_at,
        ).where(
            operation_steps.c.operation_id.in_(recent),
            operation_steps.c.name.in_(list(names)),
            operation_steps.c.state == StepState.SUCCEEDED,
            operation_steps.c.started_at.is_not(None),
            operation_steps.c.finished_at.is_not(None),
        )
    )
    took: defaultdict[str, list[float]] = defaultdict(list)
    for name, started_at, finished_at in rows:
        took[name].append((finished_at - started_at).total_seconds())
    return {
        name: Usual(timedelta(seconds=median(found)), len(found))
        for name, found in took.items()
    }
