"""
Count what the filters of a list would find, without ever looking at all operations.

Each filter's values are counted with all other filters in force: so a number beside a
value is how long the list would be if that value was chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa

from models.database.engine import read_clock
from models.database.tables import UNCERTAIN, deliveries, operations
from models.operation_state import OperationState, Reason
from operations.list_operations import BOUNDS, find_base
from operations.operation_filter import (
    OperationFilter,
    begins_with,
    find_place,
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
    found = dict.fromkeys(OperationState, 0) | _tally(groups, chosen, "state")
    uncertain = replace(wanted, states=frozenset(), is_retrying=False)
    return Facets(
        total=_sum(groups, chosen, ()),
        states=found,
        retrying=_sum([g for g in groups if g.retrying], chosen, ("state",)),
        uncertain=_count_uncertain(connection, uncertain, since),
        reasons={
            Reason(r): n for r, n in _tally(groups, chosen, "reason").items() if r
        },
        queues=_tally(groups, chosen, "queue"),
        triggers=_tally(groups, chosen, "trigger"),
        apps=_tally(groups, chosen, "app"),
        since=since,
        at=at,
    )


_Test = Callable[[sa.Row[Any]], bool]


def _has(group: sa.Row[Any], name: str, value: str) -> bool:
    return bool(getattr(group, name) == value)


def _choose(wanted: OperationFilter) -> dict[str, _Test]:
    """Return what each filter in force asks of a group."""
    asked = {name: getattr(wanted, name) for name in ("reason", "queue", "trigger")}
    tests: dict[str, _Test] = {
        name: partial(_has, name=name, value=value)
        for name, value in asked.items()
        if value is not None
    }
    if wanted.is_retrying:
        tests["state"] = lambda group: bool(group.retrying)
    elif wanted.states:
        tests["state"] = lambda group: group.state in wanted.states
    return tests


def _fits(group: sa.Row[Any], tests: Mapping[str, _Test], but: Iterable[str]) -> bool:
    left_out = set(but)
    return all(test(group) for name, test in tests.items() if name not in left_out)


def _sum(
    groups: Iterable[sa.Row[Any]], tests: Mapping[str, _Test], but: Iterable[str]
) -> int:
    return sum(group.matching for group in groups if _fits(group, tests, but))


def _tally(
    groups: Iterable[sa.Row[Any]], tests: Mapping[str, _Test], name: str
) -> dict[Any, int]:
    """Count by the values of *name*, whatever is asked of it."""
    counts: Counter[Any] = Counter()
    for group in groups:
        if _fits(group, tests, (name,)):
            counts[getattr(group, name)] += group.matching
    return dict(counts.most_common())


def _count_groups(
    connection: sa.Connection, free: OperationFilter, most: int
) -> list[sa.Row[Any]]:
    """Count the latest operations in groups: looked at, and matching *free*."""
    base = find_base(connection, free, BOUNDS)
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
    marks = deliveries.c
    ids = (
        sa.select(marks.operation_id)
        .distinct()
        .where(UNCERTAIN.of("deliveries"))
        .limit(BOUNDS.looked_at)
    )
    return connection.execute(
        sa.select(sa.func.count())
        .select_from(operations)
        .where(_run.id.in_(ids), *place, *match(_run, wanted))
    ).scalar_one()
