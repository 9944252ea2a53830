"""
Find a scheduled action, an operation or a small app by a few letters or an id.

Each kind is looked for by its index or among a bounded number of rows, so that one
search costs the same however much there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

import sqlalchemy as sa

from actions.list_actions import LONGEST_TEXT, select_part
from actions.read_actions import WITHOUT_DOCUMENT, get_action_state
from models.database.lists import belongs_to
from models.database.tables import operations, scheduled_actions, small_apps
from models.decision import get_action_name
from models.operation_state import OperationState
from models.paging import Page
from models.requests.actions import ActionFilterModel
from models.revision import ActionState

#: The most hits of each kind.
HITS = 20

#: How many actions are looked at.
LOOKED_AT = 100_000

#: A shorter beginning of an id is not looked for: it would fit too many.
SHORTEST_ID = 6

#: The digits of an id.
_DIGITS = frozenset("0123456789abcdef")
_ID_LENGTH = 32


class HitKind(StrEnum):
    """What was found."""

    ACTION = "action"
    OPERATION = "operation"
    APP = "app"


@dataclass(frozen=True, slots=True)
class Hit:
    """
    Something that fits.

    Args:
        id: Uid of an action or small app, or id of an operation.
        name: Of an operation, that of its action.
        state: Of an action or operation. None: it is an app.
        is_exact: Whether what was given is its id or name, to the letter.
    """

    kind: HitKind
    id: str
    app: str
    name: str
    state: ActionState | OperationState | None
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class Hits:
    """What fits; *is_whole* tells whether that is all."""

    query: str
    entries: tuple[Hit, ...]
    is_whole: bool

    @property
    def only(self) -> Hit | None:
        """The one that must be meant: the only one, or the only exact one."""
        exact = [each for each in self.entries if each.is_exact]
        if len(exact) == 1:
            return exact[0]
        if len(self.entries) == 1 and self.is_whole:
            return self.entries[0]
        return None


def search(
    connection: sa.Connection, text: str, *, app: str | None = None, limit: int = HITS
) -> Hits:
    """
    Return what has *text* in its name or uid, or begins with it as its id.

    Args:
        text: Letters in any case; of operations, at least SHORTEST_ID digits of the id.
        app: Uid of the only small app to look in. None: all.
        limit: The most hits of each kind.

    Returns:
        None of anything if *text* is blank. Exact ones first, then operations, apps and
        actions.
    """
    query = text.strip()[:LONGEST_TEXT]
    if not query:
        return Hits("", (), is_whole=True)
    finds = _find_operations, _find_apps, _find_actions
    parts = [find(connection, query, app, limit) for find in finds]
    found = [hit for hits, _is_whole in parts for hit in hits]
    found.sort(key=lambda each: not each.is_exact)
    return Hits(query, tuple(found), is_whole=all(whole for _, whole in parts))


_Found = tuple[list[Hit], bool]


def _find_operations(
    connection: sa.Connection, query: str, app: str | None, limit: int
) -> _Found:
    bounds = find_ids(query)
    if bounds is None:
        return [], True
    kept = operations.c
    rows = connection.execute(
        sa.select(kept.id, kept.app, kept.triggered_by, kept.state)
        .where(kept.id.between(*bounds), *belongs_to(app))
        .order_by(kept.id)
        .limit(limit + 1)
    ).all()
    is_exact = bounds[0] == bounds[1]
    hits = []
    for row in rows[:limit]:
        name, state = get_action_name(row.triggered_by), OperationState(row.state)
        hit = Hit(HitKind.OPERATION, str(row.id), row.app, name, state, is_exact)
        hits.append(hit)
    return hits, len(rows) <= limit


def find_ids(text: str) -> tuple[UUID, UUID] | None:
    """
    Return the first and last id that begin with *text*; None if it is no such text.

    >>> find_ids("5e2f1f5c-6b")[1]
    UUID('5e2f1f5c-6bff-ffff-ffff-ffffffffffff')
    """
    digits = text.lower().replace("-", "")
    if not SHORTEST_ID <= len(digits) <= _ID_LENGTH or not _DIGITS.issuperset(digits):
        return None
    return UUID(digits.ljust(_ID_LENGTH, "0")), UUID(digits.ljust(_ID_LENGTH, "f"))


def _find_apps(
    connection: sa.Connection, query: str, app: str | None, limit: int
) -> _Found:
    kept = small_apps.c
    rows = connection.execute(
        sa.select(kept.uid, kept.name)
        .where(
            kept.deleted_at.is_(None),
            sa.or_(
                kept.uid.icontains(query, autoescape=True),
                kept.name.icontains(query, autoescape=True),
            ),
            *belongs_to(app, kept.uid),
        )
        .order_by(kept.uid)
        .limit(limit + 1)
    ).all()
    folded = query.lower()
    hits = [
        Hit(HitKind.APP, uid, uid, name, None, folded == uid.lower())
        for uid, name in rows[:limit]
    ]
    return hits, len(rows) <= limit


def _find_actions(
    connection: sa.Connection, query: str, app: str | None, limit: int
) -> _Found:
    """Return actions; the one whose uid it is also if it was deleted."""
    is_named = scheduled_actions.c.uid == query
    named = connection.execute(
        sa.select(*WITHOUT_DOCUMENT).where(
            is_named, *belongs_to(app, scheduled_actions.c.app)
        )
    ).all()
    wanted = ActionFilterModel().but(app=app, text=query)
    part = select_part(connection, wanted, Page(limit), looked_at=LOOKED_AT)
    rows = {row.uid: row for row in (*named, *part.entries)}
    folded = query.lower()
    hits = []
    for uid, row in rows.items():
        is_exact = folded in {uid.lower(), row.name.lower()}
        what = uid, row.app, row.name, get_action_state(row)
        hits.append(Hit(HitKind.ACTION, *what, is_exact))
    return hits, part.following is None
