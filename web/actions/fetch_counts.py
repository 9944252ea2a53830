"""
How many scheduled actions there are of each app, state, kind and queue, and in trouble.

One look at the actions counts them all: they are grouped by everything at once, and
each filter is applied to the counts of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from actions.list_actions import (
    TROUBLES_LOOKED_AT,
    fetch_troubled,
    match,
    match_kind,
    match_text,
    name_state,
)
from actions.read_actions import is_one_of
from models.database.tables import IDLE_ACTIONS, scheduled_actions
from models.operation_state import OperationState, Queue
from models.requests.actions import ActionFilterModel, ActionKind, Trouble
from models.revision import ActionState

#: The most actions that are looked at: 20 ms. Of more, indexes still know how many
#: there are of each app and in each state.
COUNTED = 10_000

_action = scheduled_actions.c

_Name = TypeVar("_Name")


@dataclass(frozen=True, slots=True)
class ActionCounts:
    """
    How many scheduled actions match, and how many would if one filter were another.

    Args:
        total: Those that match all filters.
        apps: By uid, those that match the filters but that of the app; and so on.
        kinds: By the key of ``when``; an action of several rules counts for each kind.
        troubles: ANY counts each action once.
        is_whole: Whether all were looked at; else each figure is the least that it may
            be, but for those of apps and states that indexes know.
    """

    total: int
    apps: Mapping[str, int]
    states: Mapping[ActionState, int]
    kinds: Mapping[str, int]
    queues: Mapping[Queue, int]
    troubles: Mapping[Trouble, int]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _Cell:
    """So many actions that have all of this in common."""

    app: str
    state: ActionState
    queue: str
    kinds: frozenset[str]
    count: int

    def fits(self, wanted: ActionFilterModel) -> bool:
        return (
            wanted.app in {None, self.app}
            and wanted.state in {None, self.state}
            and wanted.queue in {None, self.queue}
            and (wanted.kind is None or wanted.kind in self.kinds)
        )


def count_actions(
    connection: sa.Connection,
    wanted: ActionFilterModel,
    *,
    app: str | None = None,
    most: int = COUNTED,
) -> ActionCounts:
    """
    Count the actions that are not deleted, by whatever they can be filtered by.

    Args:
        wanted: The filters that are set.
        app: Uid of the only small app whose actions may be counted. None: those of all.
        most: The most actions to look at.
    """
    troubled = fetch_troubled(connection, app)
    in_trouble = _fetch_in_trouble(connection, troubled, wanted, app)
    whole, is_whole = _fetch_cells(connection, wanted, app, most)
    cells = whole if wanted.trouble is None else in_trouble[wanted.trouble]
    counts = ActionCounts(
        **_count_places(cells, wanted),
        kinds=_count(cells, wanted.but(kind=None), lambda cell: cell.kinds),
        queues=_count(cells, wanted.but(queue=None), lambda cell: (Queue(cell.queue),)),
        troubles={
            trouble: _sum(found, wanted) for trouble, found in in_trouble.items()
        },
        is_whole=is_whole,
    )
    if is_whole or wanted.but(app=None, state=None) != ActionFilterModel():
        return counts
    return replace(counts, **_count_places(_fetch_indexed(connection, app), wanted))


def _count_places(cells: Sequence[_Cell], wanted: ActionFilterModel) -> dict[str, Any]:
    """Count what indexes know, too: all, those of each app, and in each state."""
    return {
        "total": _sum(cells, wanted),
        "apps": _count(cells, wanted.but(app=None), lambda cell: (cell.app,)),
        "states": _count(cells, wanted.but(state=None), lambda cell: (cell.state,)),
    }


def _fetch_indexed(connection: sa.Connection, app: str | None) -> list[_Cell]:
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
    return [
        _Cell(name, ActionState(word), "", frozenset(), count)
        for name, word, count in rows
        if count > 0
    ]


def _fetch_in_trouble(
    connection: sa.Connection,
    troubled: Mapping[str, OperationState],
    wanted: ActionFilterModel,
    app: str | None,
) -> dict[Trouble, list[_Cell]]:
    """Return each action that is in trouble, by what it is, if its name matches."""
    found: dict[Trouble, list[_Cell]] = {trouble: [] for trouble in Trouble}
    alive = ActionFilterModel().but(app=app)
    is_bad = match(connection, alive.but(state=ActionState.QUARANTINED))
    is_named = match(connection, alive.but(uids=tuple(troubled)))
    text = [] if not wanted.text else [match_text(wanted.text, _action)]
    shared = (_action.app, name_state(), _action.queue, *_name_kinds(_action))
    seen: set[str] = set()
    for conditions in (is_bad, is_named):
        query = sa.select(_action.uid, *shared).where(*conditions, *text)
        for uid, *rest in connection.execute(query.limit(TROUBLES_LOOKED_AT)):
            if uid in seen:
                continue  # its last run failed, and it is in quarantine
            seen.add(uid)
            cell = _make_cell(*rest, 1)
            found[Trouble.ANY].append(cell)
            if uid in troubled:
                found[Trouble(troubled[uid].value)].append(cell)
            if cell.state is ActionState.QUARANTINED:
                found[Trouble.QUARANTINED].append(cell)
    return found


def _fetch_cells(
    connection: sa.Connection, wanted: ActionFilterModel, app: str | None, most: int
) -> tuple[list[_Cell], bool]:
    """Count the actions (of *app*) with such a name by all at once; and whether all."""
    looked_into = (
        _action.name,
        _action.uid,
        _action.timing,
        _action.event,
        _action.follows,
        _action.delay,
    )
    seen = (
        sa.select(_action.app, name_state().label("state"), _action.queue, *looked_into)
        .where(*match(connection, ActionFilterModel().but(app=app)))
        .limit(most + 1)
        .subquery("seen")
    )
    fits = match_text(wanted.text, seen.c) if wanted.text else sa.literal(value=True)
    shared = sa.select(
        fits.label("fits"), seen.c.app, seen.c.state, seen.c.queue, *_name_kinds(seen.c)
    ).subquery("shared")
    query = sa.select(*shared.c, sa.func.count()).group_by(*shared.c)
    rows = connection.execute(query).all()
    cells = [_make_cell(*rest) for fits, *rest in rows if fits]
    return cells, sum(row[-1] for row in rows) <= most


def _name_kinds(kept: ReadOnlyColumnCollection[str, Any]) -> list[sa.Label[bool]]:
    return [match_kind(kind, kept).label(f"is_{kind}") for kind in ActionKind]


def _make_cell(app: str, state: str, queue: str, *rest: Any) -> _Cell:
    *flags, count = rest
    kinds = frozenset(
        kind.value for kind, flag in zip(ActionKind, flags, strict=True) if flag
    )
    return _Cell(app, ActionState(state), queue, kinds, count)


def _sum(cells: Iterable[_Cell], wanted: ActionFilterModel) -> int:
    return sum(cell.count for cell in cells if cell.fits(wanted))


def _count(
    cells: Iterable[_Cell],
    wanted: ActionFilterModel,
    name: Callable[[_Cell], Iterable[_Name]],
) -> dict[_Name, int]:
    """Count those that match *wanted* by what *name* returns of them."""
    counts: Counter[_Name] = Counter()
    for cell in cells:
        if cell.fits(wanted):
            for each in name(cell):
                counts[each] += cell.count
    return dict(counts)


def fetch_documents(
    connection: sa.Connection, uids: Collection[str]
) -> dict[str, Mapping[str, Any]]:
    """Return the documents of the actions *uids*, as they were posted."""
    query = sa.select(_action.uid, _action.document).where(is_one_of(connection, uids))
    return dict(connection.execute(query).all())
