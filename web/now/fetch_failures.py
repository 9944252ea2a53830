"""Failures of a day by their cause, as notices group them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import read_clock
from models.database.lists import belongs_to
from models.database.tables import TROUBLED, operations
from models.decision import get_action_name
from models.operation_state import OperationState, Reason
from operations.reasons import find_cause, make_cause_key

#: How far back failures are looked for.
WITHIN = timedelta(hours=24)

#: The most failures that are looked at, the latest first: some 40 ms.
LOOKED_AT = 10_000

#: Characters of an error that its cause is taken from.
_HEAD = 600


@dataclass(frozen=True, slots=True)
class CountedAction:
    """An action, and how many of its occurrences or operations something befell."""

    uid: str
    name: str
    app: str
    count: int


@dataclass(frozen=True, slots=True)
class FailureCause:
    """
    Failures of one cause; times are aware UTC.

    Args:
        text: As the latest of them says it, on one line.
        actions: Those with the most failures first; all of them.
        operation_id: The latest failure.
        reason: Its reason.
        is_permanent: Whether it was not tried again because that could not help.
    """

    text: str
    count: int
    first_at: datetime
    last_at: datetime
    actions: Sequence[CountedAction]
    operation_id: UUID
    reason: str | None
    attempt: int
    attempts_allowed: int
    is_permanent: bool

    @property
    def apps(self) -> list[str]:
        """Uids of the small apps, those with the most failures first."""
        return list(dict.fromkeys(each.app for each in self.actions))


@dataclass(frozen=True, slots=True)
class Failures:
    """
    Failures of a day.

    Args:
        since: Aware UTC; later than a day ago if there are too many.
        is_whole: Whether all failures of the day were looked at.
        causes: Most failures first; all of those that were found.
    """

    since: datetime
    is_whole: bool
    causes: Sequence[FailureCause]

    @property
    def count(self) -> int:
        """How many operations failed."""
        return sum(each.count for each in self.causes)


def fetch_failures(
    connection: sa.Connection,
    *,
    app: str | None = None,
    within: timedelta = WITHIN,
    most: int = LOOKED_AT,
) -> Failures:
    """
    Return what failed lately and has not been tried again since, by cause.

    Args:
        app: Uid of the only small app that counts. None: all.
        within: How far back to look.
        most: The most failures to look at.
    """
    since = read_clock(connection) - within
    rows = _fetch_groups(connection, app, since, most)
    is_whole = sum(row.alike for row in rows) < most
    if not is_whole:
        since = min(row.first_at for row in rows)
    return Failures(since, is_whole, _group(rows))


def _fetch_groups(
    connection: sa.Connection, app: str | None, since: datetime, most: int
) -> Sequence[sa.Row[Any]]:
    """Return the latest failure of each action and error, with those like it."""
    kept = operations.c
    head = sa.func.substr(sa.func.coalesce(kept.error, ""), 1, _HEAD)
    looked_at = (
        sa.select(
            *(kept.id, kept.app, kept.action_uid, kept.triggered_by, kept.reason),
            *(kept.attempt, kept.attempts_allowed, kept.finished_at),
            head.label("head"),
        )
        .where(
            TROUBLED.of(),
            kept.state == OperationState.FAILED,
            kept.finished_at >= since,
            *belongs_to(app),
        )
        .order_by(kept.finished_at.desc())
        .limit(most)
        .subquery("looked_at")
    )
    given = looked_at.c
    alike = (given.action_uid, given.reason, given.head)
    return fetch_latest_of_each(connection, looked_at, alike, given.finished_at)


def fetch_latest_of_each(
    connection: sa.Connection,
    looked_at: sa.Subquery,
    alike: Sequence[sa.ColumnElement[Any]],
    at: sa.ColumnElement[Any],
) -> Sequence[sa.Row[Any]]:
    """
    Return the latest row of those that are alike, the latest first.

    Each has how many are *alike*, and *first_at* of them, too.
    """
    placed = sa.select(
        looked_at,
        at.label("at"),
        sa.func.count().over(partition_by=alike).label("alike"),
        sa.func.min(at, type_=at.type).over(partition_by=alike).label("first_at"),
        sa.func.row_number()
        .over(partition_by=alike, order_by=at.desc())
        .label("place"),
    ).subquery("placed")
    return connection.execute(
        sa.select(placed)
        .where(placed.c.place == 1)
        .order_by(placed.c.at.desc(), placed.c.id)
    ).all()


def _group(rows: Sequence[sa.Row[Any]]) -> list[FailureCause]:
    """Return the causes of *rows*, which are in order, the latest first."""
    found: defaultdict[str, list[sa.Row[Any]]] = defaultdict(list)
    for row in rows:
        found[make_cause_key(find_cause(row.reason, row.head))].append(row)
    causes = [_make_cause(each) for each in found.values()]
    return sorted(causes, key=lambda each: (-each.count, -each.last_at.timestamp()))


def _make_cause(rows: Sequence[sa.Row[Any]]) -> FailureCause:
    row = rows[0]
    latest = {each.action_uid: each for each in reversed(rows)}
    counts: Counter[str] = Counter()
    for each in rows:
        counts[each.action_uid] += each.alike
    return FailureCause(
        text=find_cause(row.reason, row.head),
        count=counts.total(),
        first_at=min(each.first_at for each in rows),
        last_at=row.finished_at,
        actions=tuple(
            CountedAction(
                uid, get_action_name(latest[uid].triggered_by), latest[uid].app, count
            )
            for uid, count in counts.most_common()
        ),
        operation_id=row.id,
        reason=row.reason,
        attempt=row.attempt,
        attempts_allowed=row.attempts_allowed,
        is_permanent=row.attempt < row.attempts_allowed
        and (row.reason or "").startswith(Reason.STEP_FAILED),
    )
