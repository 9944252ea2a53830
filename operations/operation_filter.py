"""Which operations are wanted, and the conditions that find them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from models.database.lists import belongs_to, comes_after
from models.database.tables import (
    RECORDED_APART,
    RECORDED_WITHIN,
    UNCERTAIN,
    deliveries,
    operations,
)
from models.operation_state import OperationState, Queue, Reason, Trigger
from models.paging import Page
from operations.reasons import CausePattern, has_cause

Conditions = list[sa.ColumnElement[bool] | sa.TextClause]
Columns = ReadOnlyColumnCollection[str, Any]


@dataclass(frozen=True, slots=True)
class OperationFilter:
    """
    Which operations are wanted; None, or an empty set, matches everything.

    Args:
        reason: The beginning of the reason; free text may follow it.
        text: The id of an operation, or a part of what triggered it (which has the name
            of the action), of the uid of the action, of the user, of the reason or of
            the error. Upper and lower case are the same.
        since: Compared with the occurrence, inclusive.
        until: Compared with the occurrence, exclusive.
        recorded_since: Compared with when it was recorded, inclusive.
        recorded_until: Compared with when it was recorded, exclusive.
        cause: Failed of it.
        is_retrying: Only those that wait for another attempt.
        is_uncertain: Only those with mails that may or may not have been sent.
        ids: Only these.
    """

    app: str | None = None
    action_uid: str | None = None
    states: frozenset[OperationState] = frozenset()
    queue: Queue | None = None
    trigger: Trigger | None = None
    reason: Reason | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    recorded_since: datetime | None = None
    recorded_until: datetime | None = None
    cause: CausePattern | None = None
    is_retrying: bool = False
    is_uncertain: bool = False
    ids: frozenset[UUID] | None = None


def match_period(
    since: datetime | None, until: datetime | None
) -> sa.ColumnElement[bool]:
    """Match occurrences from *since* to before *until*, in a way that indexes serve."""
    due, recorded = read_period(since, until)
    if not due:
        return sa.true()
    return sa.and_(*due, sa.or_(sa.and_(*recorded), RECORDED_APART.of()))


def read_period(
    since: datetime | None, until: datetime | None
) -> tuple[Conditions, Conditions]:
    """
    Return the conditions of what was due in a period.

    Returns:
        Those of when it was due; and those of when it was recorded, which hold for all
        but RECORDED_APART, and are there for the indexes.
    """
    columns = operations.c
    due: Conditions = []
    recorded: Conditions = []
    if since is not None:
        due.append(columns.occurrence >= since)
        recorded.append(columns.recorded_at >= since)
    if until is not None:
        due.append(columns.occurrence < until)
        # A second more, for SQLite knows of recorded apart to the second alone.
        recorded_by = until + RECORDED_WITHIN + timedelta(seconds=1)
        recorded.append(columns.recorded_at < recorded_by)
    return due, recorded


def find_place(wanted: OperationFilter, page: Page | None = None) -> Conditions:
    """Return the conditions that an index on ``recorded_at`` serves, in its order."""
    columns = operations.c
    place: Conditions = list(belongs_to(wanted.app))
    if wanted.recorded_since is not None:
        place.append(columns.recorded_at >= wanted.recorded_since)
    if wanted.recorded_until is not None:
        place.append(columns.recorded_at < wanted.recorded_until)
    if page is not None:
        place += comes_after(
            page, (columns.recorded_at, columns.occurrence, columns.id)
        )
    return place


def match(columns: Columns, wanted: OperationFilter) -> Conditions:
    """Return the conditions of *wanted* but for place and period, on *columns*."""
    found: Conditions = [
        column == value
        for column, value in (
            (columns.action_uid, wanted.action_uid),
            (columns.queue, wanted.queue),
            (columns.trigger, wanted.trigger),
        )
        if value is not None
    ]
    if wanted.states:
        found.append(columns.state.in_(sorted(wanted.states)))
    if wanted.reason is not None:
        found.append(begins_with(columns.reason, wanted.reason))
    if wanted.text:
        found.append(_contains(columns, wanted.text))
    if wanted.cause is not None:
        found.append(columns.state == OperationState.FAILED)
        found.append(has_cause(columns, wanted.cause))
    if wanted.is_retrying:
        found.append(columns.state == OperationState.PENDING)
        found.append(is_tried_before(columns.reason))
    if wanted.is_uncertain:
        found.append(columns.id.in_(UNCERTAIN_IDS))
    if wanted.ids is not None:
        found.append(columns.id.in_(wanted.ids))
    return found


#: Operations with uncertain mails, of which there are few.
UNCERTAIN_IDS = sa.select(deliveries.c.operation_id).where(UNCERTAIN.of("deliveries"))


def find_uncertain(since: datetime | None = None) -> sa.CTE:
    """
    Select the operation of each uncertain mail, and ``updated_at``, to group them by.

    Materialized, or SQLite would walk all mails to have them in groups.

    Args:
        since: Only mails that were marked then or later, aware UTC. None: all.
    """
    marked_at = deliveries.c.updated_at
    few = UNCERTAIN_IDS.add_columns(marked_at)
    few = few if since is None else few.where(marked_at >= since)
    return few.cte("few").prefix_with("MATERIALIZED")


def is_tried_before(column: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Match the reasons of what waits for another attempt, not for a task's end."""
    return sa.and_(column.is_not(None), ~begins_with(column, Reason.TASK))


def begins_with(
    column: sa.ColumnElement[str], reason: Reason
) -> sa.ColumnElement[bool]:
    """Match texts that are *reason*, perhaps followed by free text."""
    return sa.or_(
        column == reason.value, column.startswith(f"{reason.value}: ", autoescape=True)
    )


def _contains(columns: Columns, text: str) -> sa.ColumnElement[bool]:
    return sa.or_(
        columns.id == read_id(text),
        *(
            column.icontains(text, autoescape=True)
            for column in (
                *(columns.triggered_by, columns.action_uid, columns.user_id),
                *(columns.reason, columns.error),
            )
        ),
    )


def read_id(text: str) -> UUID | None:
    """Return the id of an operation that somebody typed in full; None: it is none."""
    try:
        return UUID(text.strip())
    except ValueError:
        return None
