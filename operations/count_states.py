"""Count operations by state, without ever looking at all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from models.database.engine import read_clock
from models.database.tables import LIVE, operations
from models.operation_state import FINAL_STATES, LIVE_STATES, OperationState
from operations.operation_filter import Conditions, belongs_to

#: How far back final operations are counted, unless somebody says otherwise.
COUNTED_WITHIN = timedelta(hours=24)

#: Operations that are counted at most, which takes some 20 ms; those of one small app
#: lie far apart in the table, so that each costs more.
COUNTED = 50_000
COUNTED_OF_APP = 5_000


@dataclass(frozen=True, slots=True)
class StateCounts:
    """
    How many operations are in each state, as far as was counted.

    Args:
        live: All live operations, by state; has each of the live states.
        live_is_whole: Whether all live ones were counted. False: there are more.
        final: Final operations that were recorded at or after *since*, by state; has
            each of the final states.
        since: Aware UTC. Later than what was asked for if there are too many operations
            since then.
        final_is_whole: Whether *since* is what was asked for.
        at: When they were counted, aware UTC.
    """

    live: Mapping[OperationState, int]
    live_is_whole: bool
    final: Mapping[OperationState, int]
    since: datetime
    final_is_whole: bool
    at: datetime


def count_states(
    connection: sa.Connection,
    *,
    app: str | None = None,
    action_uid: str | None = None,
    since: datetime | None = None,
    most: int = COUNTED,
) -> StateCounts:
    """
    Count operations by state, within bounds that keep it cheap.

    Args:
        app: Uid of the small app. None: those of all.
        action_uid: Uid of the action. None: those of all.
        since: Final operations count if they were recorded at or after it, aware. None:
            ``COUNTED_WITHIN`` ago.
        most: How many to count, live ones and final ones each; but at most
            ``COUNTED_OF_APP`` final ones if *app* is given.
    """
    bound = most if app is None else COUNTED_OF_APP
    at = read_clock(connection)
    since = at - COUNTED_WITHIN if since is None else since
    live_counts = _count_live(connection, app, action_uid, most)
    rows = _count_since(connection, app, action_uid, since, bound)
    final_counts = {OperationState(row.state): row.matching for row in rows}
    is_whole = sum(row.total for row in rows) < bound
    return StateCounts(
        live=_pick(live_counts, LIVE_STATES),
        live_is_whole=sum(live_counts.values()) <= most,
        final=_pick(final_counts, FINAL_STATES),
        since=since if is_whole else min(row.oldest for row in rows),
        final_is_whole=is_whole,
        at=at,
    )


def _count_live(
    connection: sa.Connection, app: str | None, action_uid: str | None, most: int
) -> dict[OperationState, int]:
    """Count live operations by state, one more than *most* at most."""
    columns = operations.c
    of: Conditions = list(belongs_to(app))
    if action_uid is not None:
        of.append(columns.action_uid == action_uid)
    live = sa.select(columns.state).where(LIVE.of(), *of).limit(most + 1)
    chosen = live.subquery("live")
    counted = connection.execute(
        sa.select(chosen.c.state, sa.func.count()).group_by(chosen.c.state)
    )
    return {OperationState(state): count for state, count in counted}


def _count_since(
    connection: sa.Connection,
    app: str | None,
    action_uid: str | None,
    since: datetime,
    most: int,
) -> Collection[sa.Row[Any]]:
    """
    Count the latest operations that were recorded at or after *since*.

    Returns:
        For each state ``total``, of which ``matching`` are of the action, and when the
        ``oldest`` was recorded.
    """
    columns = operations.c
    looked_at = (
        sa.select(columns.state, columns.recorded_at, columns.action_uid)
        .where(columns.recorded_at >= since, *belongs_to(app))
        .order_by(columns.recorded_at.desc())
        .limit(most)
        .subquery("looked_at")
    )
    is_of = sa.true() if action_uid is None else looked_at.c.action_uid == action_uid
    return connection.execute(
        sa.select(
            looked_at.c.state,
            sa.func.sum(sa.case((is_of, 1), else_=0)).label("matching"),
            sa.func.count().label("total"),
            sa.func.min(looked_at.c.recorded_at).label("oldest"),
        ).group_by(looked_at.c.state)
    ).all()


def _pick(
    counts: Mapping[OperationState, int], states: Collection[OperationState]
) -> dict[OperationState, int]:
    return {state: counts.get(state, 0) for state in OperationState if state in states}
