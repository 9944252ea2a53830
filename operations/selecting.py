"""Which operations a change of many is about, counted first, and in pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import Identifier
from models.database.tables import operations
from models.errors import ConflictError, UsageError
from models.units import format_count
from operations.cancel_and_retry import CHANGEABLE, OperationChange
from operations.operation_filter import (
    Conditions,
    OperationFilter,
    find_place,
    match,
    match_period,
)


@dataclass(frozen=True, slots=True)
class Counted:
    """
    What a filter matches at an instant.

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


def refuse_unfit_states(wanted: OperationFilter, change: OperationChange) -> None:
    """
    Refuse a filter of states to which *change* does not apply.

    Raises:
        UsageError: There are such states; the message names the allowed ones.
    """
    fit = CHANGEABLE[change]
    if unfit := wanted.states - fit:
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
            f"the filters now match {matched:,}, but"
            f" {format_count(expected, 'was', 'were')} expected."
            " Look again, then repeat the command with the number that you see."
        )
        raise ConflictError(msg)


def count_selected(
    connection: sa.Connection,
    wanted: OperationFilter,
    *,
    change: OperationChange,
    at: datetime,
) -> Counted:
    """
    Count the operations that *change* would be applied to.

    Args:
        at: Operations that were recorded later are left out.
    """
    rows = connection.execute(
        sa.select(operations.c.state, operations.c.app, sa.func.count())
        .where(*match_selected(wanted, change, at))
        .group_by(operations.c.state, operations.c.app)
    )
    return tally(at, rows)


def tally(at: datetime, rows: Iterable[tuple[str, str, int]]) -> Counted:
    """Return the sums of *rows*: state, small app and number."""
    by_state: Counter[str] = Counter()
    by_app: Counter[str] = Counter()
    for state, app, count in rows:
        by_state[state] += count
        by_app[app] += count
    return Counted(at, dict(sorted(by_state.items())), dict(by_app.most_common()))


def match_selected(
    wanted: OperationFilter, change: OperationChange, at: datetime
) -> Conditions:
    """Return the conditions for the operations of *wanted* that *change* fits."""
    states = CHANGEABLE[change]
    if wanted.states:
        states &= wanted.states
    return [
        operations.c.state.in_(sorted(states)),
        operations.c.recorded_at <= at,
        match_period(wanted.since, wanted.until),
        *find_place(wanted),
        *match(operations.c, replace(wanted, states=frozenset())),
    ]


def fetch_page(
    connection: sa.Connection,
    wanted: OperationFilter,
    change: OperationChange,
    *,
    at: datetime,
    after: tuple[datetime, UUID] | None,
    limit: int,
) -> Sequence[sa.Row[Any]]:
    """
    Return the next operations of *wanted* for ``change_page``, the latest first.

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
        .where(*match_selected(wanted, change, at))
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
