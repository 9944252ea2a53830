"""
Count what the filters of a list would find, without ever looking at all operations.

Each filter's values are counted with all other filters in force: so a number beside a
value is how long the list would be if that value was chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from models.database.engine import read_clock
from models.database.tables import operations
from models.operation_state import OperationState, Reason
from operations.list_operations import BOUNDS, find_few, walk_latest
from operations.operation_filter import (
    OperationFilter,
    begins_with,
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
class Facets:
    """
    How many operations match, by what each filter might ask.

    Args:
        total: How many match all filters.
        states: By state, each of them.
        retrying: How many wait for another attempt.
        uncertain: How many have mails that may or may not have been sent.
        reasons: By reason, its head alone; the most frequent first, as below.
        apps: Only the one that is asked for, if one is.
        since: The operations recorded since then were counted, aware UTC. None: all.
        at: When they were counted, aware UTC.
    """

    total: int
    states: Mapping[OperationState, int]
    retrying: int
    uncertain: int
    reasons: Mapping[Reason, int]
    queues: Mapping[str, int]
    triggers: Mapping[str, int]
    apps: Mapping[str, int]
    since: datetime | None
    at: datetime


def count_facets(
    connection: sa.Connection, wanted: OperationFilter, *, most: int = LOOKED_AT
) -> Facets:
    """
    Count the operations that match *wanted*, by what each filter might ask.

    Args:
        wanted: The filters in force.
        most: How many operations to look at, the latest, unless they are of one small
            app: of these it is ``LOOKED_AT_OF_APP``.
    """
    at = read_clock(connection)
    free = replace(
        wanted,
        states=frozenset(),
        reason=None,
        queue=None,
        trigger=None,
        is_retrying=False,
        is_uncertain=False,
    )
    bound = most if wanted.app is None else LOOKED_AT_OF_APP
    rows = _count_groups(connection, free, bound)
    looked_at = sum(row.looked_at for row in rows)
    groups = [row for row in rows if row.matching]
    chosen = _choose(wanted)
    is_whole = looked_at < bound
    oldest = min((row.oldest for row in rows), default=None)
    since = wanted.recorded_since if is_whole else oldest
    of_state = _fit(groups, chosen, *_STATE)
    reasons = _tally(_fit(groups, chosen, "reason"), "reason")
    uncertain = replace(wanted, states=frozenset(), is_retrying=False)
    return Facets(
        total=_sum(_fit(groups, chosen)),
        states=dict.fromkeys(OperationState, 0) | _tally(of_state, "state"),
        retrying=_sum(group for group in of_state if group.retrying),
        uncertain=_count_uncertain(connection, uncertain, since),
        reasons={Reason(r): n for r, n in reasons.items() if r},
        queues=_tally(_fit(groups, chosen, "queue"), "queue"),
        triggers=_tally(_fit(groups, chosen, "trigger"), "trigger"),
        apps=_tally(_fit(groups, chosen), "app"),
        since=since,
        at=at,
    )


#: What a filter asks of a group: its column has one of these values.
_Chosen = Mapping[str, frozenset[Any]]

#: Both are filtered by the state.
_STATE = ("state", "retrying")


def _choose(wanted: OperationFilter) -> _Chosen:
    """Return what each filter in force asks of a group."""
    asked = {name: getattr(wanted, name) for name in ("reason", "queue", "trigger")}
    chosen = {name: frozenset({value}) for name, value in asked.items() if value}
    if wanted.is_retrying:
        return {**chosen, "retrying": frozenset({1})}
    return {**chosen, "state": wanted.states} if wanted.states else chosen


def _fit(
    groups: Iterable[sa.Row[Any]], chosen: _Chosen, *but: str
) -> list[sa.Row[Any]]:
    """Return those of *groups* that fit, whatever is asked of *but*."""
    asked = {name: values for name, values in chosen.items() if name not in but}
    return [
        group
        for group in groups
        if all(getattr(group, name) in values for name, values in asked.items())
    ]


def _sum(groups: Iterable[sa.Row[Any]]) -> int:
    return sum(group.matching for group in groups)


def _tally(groups: Iterable[sa.Row[Any]], name: str) -> dict[Any, int]:
    """Count by the values of *name*."""
    counts: Counter[Any] = Counter()
    for group in groups:
        counts[getattr(group, name)] += group.matching
    return dict(counts.most_common())


def _count_groups(
    connection: sa.Connection, free: OperationFilter, most: int
) -> list[sa.Row[Any]]:
    """Count the latest operations in groups: looked at, and matching *free*."""
    base = find_few(connection, free, BOUNDS)
    latest = walk_latest(free, [*find_place(free), *base], most).subquery("latest")
    columns = latest.c
    is_retrying = sa.and_(
        columns.state == OperationState.PENDING, is_tried_before(columns.reason)
    )
    head = sa.case(
        (columns.reason.is_(None), None),
        *((begins_with(columns.reason, each), each.value) for each in Reason),
    )
    matches = sa.and_(sa.true(), *match(columns, free))
    each = (
        sa.select(
            *(columns.state, columns.queue, columns.trigger, columns.app),
            head.label("reason"),
            sa.case((is_retrying, 1), else_=0).label("retrying"),
            sa.case((matches, 1), else_=0).label("matches"),
            columns.recorded_at,
        )
    ).subquery("each")
    keys = (
        *(each.c.state, each.c.queue, each.c.trigger),
        *(each.c.app, each.c.reason, each.c.retrying),
    )
    found = connection.execute(
        sa.select(
            *keys,
            sa.func.sum(each.c.matches).label("matching"),
            sa.func.count().label("looked_at"),
            sa.func.min(each.c.recorded_at, type_=_run.recorded_at.type).label(
                "oldest"
            ),
        ).group_by(*keys)
    )
    return list(found)


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
