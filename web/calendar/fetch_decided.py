"""Count what was decided by when it was due: the database does, a quarter at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from actions.load.foresee import Whose
from actions.occurrences import parse_timing
from actions.when.searching import find_occurrences
from models.database.sql_time import number_of
from models.database.tables import (
    UNSUCCESSFUL,
    operations,
    scheduled_action_revisions,
)
from models.errors import RuleError
from models.operation_state import OperationState
from operations.operation_filter import match_period

#: How long after its end an outage may have been recorded and still counts.
LATEST = timedelta(days=7)

#: Outages that are looked at: those of actions with the same rule are one.
MOST_OUTAGES = 2_000

#: Occurrences of one outage: as many as a missed row counts itself.
MOST_MISSED = 1_000

#: Every zone's clocks differ from UTC by a multiple of this, so each hour of each zone
#: begins with one.
_QUARTER_S = 900

_SECOND = timedelta(seconds=1)

_kept = operations.c


@dataclass(frozen=True, slots=True)
class Outage:
    """
    Occurrences of actions with the same rule that were missed.

    Args:
        first: The first of them, aware UTC.
        occurrences: All of them, in order.
        actions: How many actions missed each.
    """

    first: datetime
    occurrences: Sequence[datetime]
    actions: int


@dataclass(frozen=True, slots=True)
class Missed:
    """What was missed; *is_whole*: there were no more outages than are looked at."""

    outages: Sequence[Outage]
    is_whole: bool


def count_operations(
    connection: sa.Connection, whose: Whose, since: datetime, until: datetime
) -> Iterator[tuple[datetime, OperationState, int]]:
    """
    Yield how many operations are in which state, by the quarter in which they were due.

    Args:
        whose: Of which app and queue.
        since: Compared with the occurrence; aware, inclusive.
        until: Compared with the occurrence; aware, exclusive.

    Yields:
        An instant of the quarter, the state, and the number; missed ones are left out.
    """
    quarter = number_of(connection.dialect.name, _kept.occurrence, _QUARTER_S)
    query = (
        sa.select(quarter, _kept.state, sa.func.count())
        .where(
            match_period(since, until),
            _kept.state != OperationState.MISSED.value,
            *_are_of(whose),
        )
        .group_by(quarter, _kept.state)
    )
    for number, state, count in connection.execute(query):
        at = datetime.fromtimestamp(number * _QUARTER_S, UTC)
        yield at, OperationState(state), count


def _are_of(whose: Whose) -> list[sa.ColumnElement[bool]]:
    pairs = (_kept.app, whose.app), (_kept.queue, whose.queue)
    return [column == value for column, value in pairs if value is not None]


def count_missed(
    connection: sa.Connection, whose: Whose, since: datetime, until: datetime
) -> Missed:
    """
    Return what was missed, each occurrence at its own instant.

    A missed row is a range; which occurrences it has, its rule says. Ranges that began
    before *since* are found as far as they were recorded since.

    Args:
        whose: Of which app and queue.
        since: Aware, inclusive; *until* is exclusive.
    """
    revised = scheduled_action_revisions.c
    query = (
        sa.select(revised.timing, _kept.occurrence, _kept.details, sa.func.count())
        .join_from(
            operations,
            scheduled_action_revisions,
            sa.and_(
                revised.uid == _kept.action_uid,
                revised.revision == _kept.action_revision,
            ),
            isouter=True,
        )
        .where(
            UNSUCCESSFUL.of(),
            _kept.state == OperationState.MISSED.value,
            _kept.recorded_at >= since,
            _kept.recorded_at < until + LATEST,
            _kept.occurrence < until,
            *_are_of(whose),
        )
        .group_by(revised.timing, _kept.occurrence, _kept.details)
        .order_by(_kept.occurrence.desc())
        .limit(MOST_OUTAGES + 1)
    )
    rows = connection.execute(query).all()
    outages = [_read_outage(*row) for row in rows[:MOST_OUTAGES]]
    return Missed(outages, is_whole=len(rows) <= MOST_OUTAGES)


def _read_outage(
    timing: str | None, first: datetime, details: dict[str, Any] | None, actions: int
) -> Outage:
    if timing is None or not details or "last" not in details:
        return Outage(first, [first], actions)
    last = datetime.fromisoformat(details["last"])
    most = min(int(details.get("count", 1)), MOST_MISSED)
    try:
        found = find_occurrences(
            parse_timing(timing), first, last + _SECOND, limit=most
        )
    except RuleError:
        return Outage(first, [first], actions)
    return Outage(first, found, actions)
