"""
How many scheduled actions there are of each app and state, and in trouble.

Without a filter, indexes know; with one, some thousand actions are looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from actions.list_actions import (
    TROUBLES_LOOKED_AT,
    fetch_troubled,
    match,
    match_slowly,
    name_state,
)
from actions.read_actions import is_one_of
from models.database.tables import IDLE_ACTIONS, scheduled_actions
from models.requests.actions import ActionFilterModel, Trouble
from models.revision import ActionState

#: The most actions that are looked at for filters that no index serves: 20 ms.
COUNTED = 10_000

_action = scheduled_actions.c

#: How many there are of an app in a state.
_Count = tuple[str, ActionState, int]


@dataclass(frozen=True, slots=True)
class ActionCounts:
    """
    How many scheduled actions match, and how many would in another app or state.

    Args:
        total: Those that match all filters.
        apps: By uid, those that match the filters but that of the app.
        states: Those that match the filters but that of the state.
        troubles: Those that match all but this filter; ANY counts each action once.
        is_whole: Whether all were looked at; else each figure is the least that it may
            be.
    """

    total: int
    apps: Mapping[str, int]
    states: Mapping[ActionState, int]
    troubles: Mapping[Trouble, int]
    is_whole: bool


def count_actions(
    connection: sa.Connection,
    wanted: ActionFilterModel,
    *,
    app: str | None = None,
    most: int = COUNTED,
) -> ActionCounts:
    """
    Count the actions that match *wanted*.

    Args:
        wanted: Those that are deleted are not counted.
        app: The only small app whose actions may be known. None: all.
        most: How many actions to look at, if no index has the answer.
    """
    counts, is_whole = _count_indexed(connection, app), True
    if wanted.but(app=None, state=None) != ActionFilterModel():
        counts, is_whole = _count_matching(connection, wanted, app, most)
    apps: Counter[str] = Counter()
    states: Counter[ActionState] = Counter()
    for name, state, count in counts:
        if wanted.state in {None, state}:
            apps[name] += count
        if wanted.app in {None, name}:
            states[state] += count
    chosen = states if wanted.state is None else {wanted.state: states[wanted.state]}
    troubles = _count_troubles(connection, wanted, app)
    return ActionCounts(sum(chosen.values()), apps, states, troubles, is_whole)


def _count_matching(
    connection: sa.Connection, wanted: ActionFilterModel, app: str | None, most: int
) -> tuple[list[_Count], bool]:
    """Count those that match all but app and state, and tell whether all were seen."""
    quick = ActionFilterModel().but(app=app, trouble=wanted.trouble)
    seen = (
        sa.select(scheduled_actions, name_state().label("state"))
        .where(*match(connection, quick))
        .limit(most + 1)
        .subquery("seen")
    )
    fits = sa.and_(sa.true(), *match_slowly(wanted, seen.c))
    rows = connection.execute(
        sa.select(
            *(seen.c.app, seen.c.state),
            sa.func.sum(sa.case((fits, 1), else_=0)).label("matching"),
            sa.func.count().label("looked_at"),
        ).group_by(seen.c.app, seen.c.state)
    ).all()
    found = [(e.app, ActionState(e.state), e.matching) for e in rows if e.matching]
    return found, sum(row.looked_at for row in rows) <= most


def _count_indexed(connection: sa.Connection, app: str | None) -> list[_Count]:
    """Count all actions (of *app*) by app and state alone."""
    alive = match(connection, ActionFilterModel().but(app=app))
    state = name_state()
    idle = connection.execute(
        sa.select(_action.app, state, sa.func.count())
        .where(*alive, IDLE_ACTIONS.of(scheduled_actions.name))
        .group_by(_action.app, state)
    ).all()
    everything = connection.execute(
        sa.select(_action.app, sa.func.count()).where(*alive).group_by(_action.app)
    )
    active: Counter[str] = Counter(dict(tuple(row) for row in everything))
    for name, _word, count in idle:
        active[name] -= count
    rows = [*idle, *((name, ActionState.ACTIVE, n) for name, n in active.items())]
    return [(name, ActionState(word), count) for name, word, count in rows if count > 0]


def _count_troubles(
    connection: sa.Connection, wanted: ActionFilterModel, app: str | None
) -> dict[Trouble, int]:
    """Count those in trouble that match all but that filter."""
    troubled = fetch_troubled(connection, app)
    own = ActionFilterModel().but(app=app if wanted.app is None else wanted.app)
    found: dict[str, str] = {}
    for quick in (
        own.but(state=ActionState.QUARANTINED),
        own.but(uids=tuple(troubled)),
    ):
        query = sa.select(_action.uid, name_state()).where(
            *match(connection, quick), *match_slowly(wanted, _action)
        )
        found |= dict(connection.execute(query.limit(TROUBLES_LOOKED_AT)).all())
    counts = dict.fromkeys(Trouble, 0)
    for uid, state in found.items():
        if wanted.state in {None, state}:
            counts[Trouble.ANY] += 1
            counts[Trouble.QUARANTINED] += state == ActionState.QUARANTINED
            if uid in troubled:
                counts[Trouble(troubled[uid].value)] += 1
    return counts


def fetch_documents(
    connection: sa.Connection, uids: Collection[str]
) -> dict[str, Mapping[str, Any]]:
    """Return the documents of the actions *uids*, as they were posted."""
    query = sa.select(_action.uid, _action.document).where(is_one_of(connection, uids))
    return dict(connection.execute(query).all())
