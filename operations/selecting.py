"""Which operations a change of many is about, counted first, and in pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import (
    Identifier,
    read_clock,
)
from models.database.tables import operations
from models.errors import ConflictError, UsageError
from models.operation_state import (
    LIVE_STATES,
    OperationState,
    Queue,
    Reason,
    Trigger,
)
from operations.cancel_and_retry import (
    RETRIED_STATES,
)
from operations.operation_filter import begins_with, match_period


class Change(StrEnum):
    """What may be done to many operations."""

    CANCEL = "cancel"
    RETRY = "retry"


#: The states to which each change applies.
CHANGEABLE: Mapping[Change, frozenset[OperationState]] = MappingProxyType(
    {Change.CANCEL: LIVE_STATES, Change.RETRY: RETRIED_STATES}
)


@dataclass(frozen=True, slots=True)
class Selection:
    """
    Which operations are meant; None, or an empty set, matches everything.

    Args:
        reason: The beginning of the reason; free text may follow it.
        since: Compared with the occurrence, inclusive.
        until: Compared with the occurrence, exclusive.
        recorded_since: Compared with when it was recorded, inclusive.
        recorded_until: Compared with when it was recorded, exclusive.
        ids: Only these. None: any.
    """

    app: str | None = None
    action_uid: str | None = None
    states: frozenset[OperationState] = frozenset()
    reason: Reason | None = None
    queue: Queue | None = None
    trigger: Trigger | None = None
    since: datetime | None = None
    until: datetime | None = None
    recorded_since: datetime | None = None
    recorded_until: datetime | None = None
    ids: frozenset[UUID] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it matches every operation."""
        return self == Selection()


@dataclass(frozen=True, slots=True)
class Counted:
    """
    What a selection matches at an instant.

    Args:
        at: Aware UTC; operations that are recorded later are not included.
        by_state: Number by state; only states to which the change applies.
        by_app: Number by small app, the largest first.
    """

    at: datetime
    by_state: Mapping[str, int]
    by_app: Mapping[str, int]

    @property
    def total(self) -> int:
        """How many in all."""
        return sum(self.by_state.values())


def refuse_unfit_states(selection: Selection, change: Change) -> None:
    """
    Refuse a selection of states to which *change* does not apply.

    Raises:
        UsageError: There are such states; the message names the allowed ones.
    """
    fit = CHANGEABLE[change]
    if unfit := selection.states - fit:
        msg = (
            f"--state: {change} does not apply to {' or '.join(sorted(unfit))}"
            f" operations, only to {', '.join(sorted(fit))} ones"
        )
        raise UsageError(msg)


def refuse_other_count(matched: int, expected: int | None) -> None:
    """
    Refuse to change another number of operations than the caller expects.

    Args:
        matched: How many the filters match now.
        expected: How many the caller has seen. None: the caller has not looked.

    Raises:
        ConflictError: The two differ.
    """
    if expected is not None and matched != expected:
        msg = (
            f"the filters now match {matched:,}, but {expected:,} were expected."
            " Look again, then repeat the command with the number that you see."
        )
        raise ConflictError(msg)


def count_selected(
    connection: sa.Connection,
    selection: Selection,
    *,
    change: Change,
    expected_count: int | None = None,
) -> Counted:
    """
    Count the operations that ``change_selected`` would handle.

    Args:
        change: What would be done.
        expected_count: How many the caller has seen. None: the caller has not looked.

    Raises:
        ConflictError: The number differs from *expected_count*.
    """
    at = read_clock(connection)
    rows = connection.execute(
        sa.select(operations.c.state, operations.c.app, sa.func.count())
        .where(*match_selected(selection, change, at))
        .group_by(operations.c.state, operations.c.app)
    ).all()
    by_state: Counter[str] = Counter()
    by_app: Counter[str] = Counter()
    for state, app, count in rows:
        by_state[state] += count
        by_app[app] += count
    refuse_other_count(by_state.total(), expected_count)
    return Counted(at, dict(sorted(by_state.items())), dict(by_app.most_common()))


def match_selected(
    selection: Selection, change: Change, at: datetime
) -> list[sa.ColumnElement[bool]]:
    """Return the conditions for the operations of *selection* that *change* fits."""
    columns = operations.c
    states = CHANGEABLE[change]
    if selection.states:
        states &= selection.states
    found = [
        columns.state.in_(sorted(states)),
        columns.recorded_at <= at,
        match_period(selection.since, selection.until),
    ]
    if selection.app is not None:
        found.append(columns.app == selection.app)
    if selection.action_uid is not None:
        found.append(columns.action_uid == selection.action_uid)
    if selection.queue is not None:
        found.append(columns.queue == selection.queue)
    if selection.reason is not None:
        found.append(begins_with(columns.reason, selection.reason))
    if selection.trigger is not None:
        found.append(columns.trigger == selection.trigger)
    if selection.recorded_since is not None:
        found.append(columns.recorded_at >= selection.recorded_since)
    if selection.recorded_until is not None:
        found.append(columns.recorded_at < selection.recorded_until)
    if selection.ids is not None:
        found.append(columns.id.in_(selection.ids))
    return found


def fetch_page(
    connection: sa.Connection,
    selection: Selection,
    change: Change,
    *,
    at: datetime,
    after: tuple[datetime, UUID] | None,
    limit: int,
) -> Sequence[sa.Row[Any]]:
    """
    Return the next operations of *selection* for ``change_page``, the latest first.

    Args:
        change: What is to be done.
        at: From ``count_selected``: operations recorded later are left out.
        after: ``recorded_at`` and ``id`` of the last one before. None: the first page.
        limit: The most to return; fewer are the last page.
    """
    columns = operations.c
    key = sa.tuple_(columns.recorded_at, columns.id)
    query = (
        sa.select(
            columns.id,
            columns.action_uid,
            columns.user_id,
            columns.overlap,
            columns.recorded_at,
        )
        .where(*match_selected(selection, change, at))
        .order_by(columns.recorded_at.desc(), columns.id.desc())
        .limit(limit)
    )
    if after is not None:
        recorded_at, operation_id = after
        last = sa.tuple_(
            sa.literal(recorded_at, columns.recorded_at.type),
            sa.literal(operation_id, Identifier),
        )
        query = query.where(key < last)
    page: Sequence[Any] = connection.execute(query).all()
    return page
