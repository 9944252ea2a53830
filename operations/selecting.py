"""Which operations a change of many is about, counted first, and in pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from models.database.lists import fetch_latest
from models.database.sql_time import was_there
from models.database.tables import operations
from models.errors import ConflictError, UsageError
from models.paging import Page, Part
from models.units import format_count
from operations.cancel_and_retry import CHANGEABLE, OperationChange
from operations.operation_filter import (
    Conditions,
    OperationFilter,
    find_place,
    match,
    match_period,
)

_run = operations.c


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
        raise UsageError(
            f"--state: {change} does not apply to {' or '.join(sorted(unfit))}"
            f" operations, only to {', '.join(sorted(fit))} ones"
        )


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
        raise ConflictError(
            f"the filters now match {matched:,}, but"
            f" {format_count(expected, 'was', 'were')} expected."
            " Look again, then repeat the command with the number that you see."
        )


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
        sa.select(_run.state, _run.app, sa.func.count())
        .where(*match_selected(wanted, change, at))
        .group_by(_run.state, _run.app)
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
        _run.state.in_(sorted(states)),
        was_there(_run.recorded_at, at),
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
    page: Page,
) -> Part[Any]:
    """
    Return the next operations of *wanted* for ``change_page``, the latest first.

    Args:
        change: What is to be done.
        at: From ``count_selected``: operations recorded later are left out.
        page: Its position is ``recorded_at`` and ``id``.
    """
    kept = operations.c
    columns = kept.id, kept.action_uid, kept.user_id, kept.overlap, kept.recorded_at
    query = sa.select(*columns).where(*match_selected(wanted, change, at))
    return fetch_latest(connection, query, page, (kept.recorded_at, kept.id))
