"""
Count the operations of a list by their states, without ever looking at all operations.

States are counted with all other filters in force: so a number beside a state is how
long the list would be if that state was chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from models.database.tables import operations
from models.operation_state import OperationState
from operations.list_operations import BOUNDS, find_few
from operations.operation_filter import (
    OperationFilter,
    find_place,
    find_uncertain,
    is_tried_before,
    match,
    match_period,
)

#: Operations that are looked at, at most; those of one app lie apart in the table, so
#: that each costs more.
LOOKED_AT = 20_000
LOOKED_AT_OF_APP = 5_000

_run = operations.c


@dataclass(frozen=True, slots=True)
class StateCounts:
    """
    How many operations match, by state.

    Args:
        total: How many match all filters.
        states: By state, each of them.
        retrying: How many wait for another attempt.
        uncertain: How many have mails that may or may not have been sent.
        since: The operations recorded since then were counted, aware UTC. None: all.
    """

    total: int
    states: Mapping[OperationState, int]
    retrying: int
    uncertain: int
    since: datetime | None


def count_states(
    connection: sa.Connection, wanted: OperationFilter, *, most: int = LOOKED_AT
) -> StateCounts:
    """
    Count the operations that match *wanted*, by state.

    Args:
        wanted: The filters in force.
        most: How many operations to look at, the latest, unless they are of one small
            app: of these it is ``LOOKED_AT_OF_APP``.
    """
    free = replace(wanted, states=frozenset(), is_retrying=False, is_uncertain=False)
    bound = most if wanted.app is None else LOOKED_AT_OF_APP
    rows = _count_groups(connection, free, bound)
    is_whole = sum(row.looked_at for row in rows) < bound
    oldest = min((row.oldest for row in rows), default=None)
    since = wanted.recorded_since if is_whole else oldest
    states = Counter(dict.fromkeys(OperationState, 0))
    for row in rows:
        states[OperationState(row.state)] += row.matching
    retrying = sum(row.matching for row in rows if row.retrying)
    uncertain = _count_uncertain(connection, free, since)
    total = sum(states[each] for each in wanted.states or OperationState)
    if wanted.is_retrying or wanted.is_uncertain:
        total = retrying if wanted.is_retrying else uncertain
    return StateCounts(total, states, retrying, uncertain, since)


def _count_groups(
    connection: sa.Connection, free: OperationFilter, most: int
) -> Sequence[sa.Row[Any]]:
    """
    Count the latest *most*, whether or not they match *free*, by state.

    They are found as those of the list, by whatever holds for few of them.
    """
    base = find_few(connection, free, BOUNDS)
    place = [*find_place(free), match_period(free.since, free.until), *base]
    latest = (
        sa.select(operations)
        .where(*place)
        .order_by(_run.recorded_at.desc())
        .limit(most)
        .subquery("latest")
    )
    columns = latest.c
    is_retrying = sa.and_(
        columns.state == OperationState.PENDING, is_tried_before(columns.reason)
    )
    matches = sa.and_(sa.true(), *match(columns, free))
    each = sa.select(
        columns.state,
        sa.case((is_retrying, 1), else_=0).label("retrying"),
        sa.case((matches, 1), else_=0).label("matches"),
        columns.recorded_at,
    ).subquery("each")
    keys = each.c.state, each.c.retrying
    return connection.execute(
        sa.select(
            *keys,
            sa.func.sum(each.c.matches).label("matching"),
            sa.func.count().label("looked_at"),
            sa.func.min(each.c.recorded_at, type_=_run.recorded_at.type).label(
                "oldest"
            ),
        ).group_by(*keys)
    ).all()


def _count_uncertain(
    connection: sa.Connection, wanted: OperationFilter, since: datetime | None
) -> int:
    """Count operations with uncertain mails that match all but the state."""
    wanted = replace(wanted, recorded_since=since, is_uncertain=False)
    place = [*find_place(wanted), match_period(wanted.since, wanted.until)]
    marked = find_uncertain().c.operation_id
    ids = sa.select(marked).distinct().limit(BOUNDS.looked_at)
    return connection.execute(
        sa.select(sa.func.count())
        .select_from(operations)
        .where(_run.id.in_(ids), *place, *match(_run, wanted))
    ).scalar_one()
