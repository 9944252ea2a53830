"""
The list of scheduled actions: filtered, in parts, without their documents.

In the order of small app and name, which the index of names serves, or of when they are
due next; states that few actions are in, and what is in trouble, have indexes of their
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from actions.read_actions import WITHOUT_DOCUMENT, is_one_of
from models.database.lists import belongs_to, cut_part
from models.database.tables import (
    DELETED_ACTIONS,
    DUE_ACTIONS,
    IDLE_ACTIONS,
    TROUBLED,
    operations,
    scheduled_actions,
)
from models.operation_state import OperationState
from models.paging import Page, Part, Position
from models.requests.actions import ActionFilterModel, Trouble
from models.revision import ActionState

#: How many of the latest failed and missed operations are looked at for actions in
#: trouble. Finding out which of them are their action's last run takes 10 µs each.
TROUBLES_LOOKED_AT = 2000

#: How many actions one part looks at for a text, a kind or a queue, which no index
#: serves: some 20 ms. If there are more, the part may have few entries or none, and
#: the list goes on all the same.
ACTIONS_LOOKED_AT = 10_000

#: The longest text that is searched for.
LONGEST_TEXT = 200

#: The members of a document that say when the action runs.
WHEN_KEYS = ("when", "starts_at", "ends_at", "except", "instead", "jitter")

_action = scheduled_actions.c

#: The columns that a list is sorted by, and their types.
_BY_NAME = {"app": str, "name": str, "uid": str}
_BY_NEXT = {"next_due_at": datetime, "app": str, "uid": str}

#: What an action is looked into for, beside its name and uid.
_LOOKED_INTO = tuple(
    _action[name] for name in ("queue", "event", "delay", "timing", "follows")
)


class Order(StrEnum):
    """How a list of actions is sorted."""

    NAME = "name"  # by small app and name
    NEXT = "next"  # the next due first, and only those that will be due

    @property
    def columns(self) -> Mapping[str, type]:
        """The columns that it is sorted by, and their types."""
        return _BY_NEXT if self is Order.NEXT else _BY_NAME


def select_part(
    connection: sa.Connection,
    wanted: ActionFilterModel,
    page: Page,
    *,
    order: Order = Order.NAME,
    looked_at: int = ACTIONS_LOOKED_AT,
) -> Part[sa.Row[Any]]:
    """
    Return a part of the list of actions: their rows, without documents.

    Args:
        page: Its position is that of ``Part.following``: what *order* sorts by.
        order: How the list is sorted.
        looked_at: The most actions to look at.

    Returns:
        Fewer than asked for, although the list goes on, if *looked_at* actions were
        looked at.
    """
    key = [_action[name] for name in order.columns]
    after = page.read_after(*order.columns.values())
    where = _match_quickly(connection, wanted)
    if order is Order.NEXT:
        where.append(DUE_ACTIONS.of(scheduled_actions.name))
    if after is not None:
        given = zip(after, key, strict=True)
        place = sa.tuple_(*(sa.literal(value, each.type) for value, each in given))
        where.append(sa.tuple_(*key) > place)
    chosen, end = where, None
    if _match_slowly(wanted, _action):
        uids, end = _look_at_each(
            connection, wanted, where, key, looked_at=looked_at, limit=page.limit
        )
        chosen = [_action.uid.in_(uids)]
    query = (
        sa.select(*WITHOUT_DOCUMENT).where(*chosen).order_by(*key).limit(page.limit + 1)
    )
    rows = connection.execute(query).all()
    part = cut_part(rows, page, key)
    return Part(part.entries, part.following or end)


def _look_at_each(
    connection: sa.Connection,
    wanted: ActionFilterModel,
    where: Sequence[sa.ColumnElement[bool] | sa.TextClause],
    key: Sequence[sa.Column[Any]],
    *,
    looked_at: int,
    limit: int,
) -> tuple[list[str], Position | None]:
    """
    Look at the first *looked_at* actions *where* an index finds them.

    Returns:
        The uids of those that are wanted, *limit* plus one at most; and the position up
        to which the actions were looked at, if there may be more.
    """
    place = sa.func.row_number().over(order_by=key).label("place")
    columns = dict.fromkeys((*key, _action.name, _action.uid, *_LOOKED_INTO))
    first = sa.select(*columns, place).where(*where).order_by(*key).limit(looked_at)
    seen = first.subquery("seen")
    fits = sa.and_(*_match_slowly(wanted, seen.c))
    sorted_by = [seen.c[each.name] for each in key]
    rows = connection.execute(
        sa.select(*sorted_by, seen.c.place, fits.label("fits"))
        .where(sa.or_(fits, seen.c.place == looked_at))
        .order_by(*sorted_by)
        .limit(limit + 1)
    ).all()
    end = None
    if rows and rows[-1].place == looked_at:
        end = tuple(rows[-1])[: len(key)]
    return [row.uid for row in rows if row.fits], end


def fetch_schedules(
    connection: sa.Connection, uids: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """
    Return the parts of documents that say when, by uid of the action.

    The rest of a document may be long, and is not read.
    """
    parts = (_action.document[key].label(key) for key in WHEN_KEYS)
    rows = connection.execute(
        sa.select(_action.uid, *parts).where(is_one_of(connection, uids))
    )
    pairs = {uid: zip(WHEN_KEYS, parts, strict=True) for uid, *parts in rows}
    return {
        uid: {key: part for key, part in given if part is not None}
        for uid, given in pairs.items()
    }


def match(
    connection: sa.Connection, wanted: ActionFilterModel
) -> list[sa.ColumnElement[bool] | sa.TextClause]:
    """
    Return the conditions on ``scheduled_actions`` that *wanted* means.

    Args:
        connection: Which actions are in trouble is looked up first: the database would
            look at every action for it.
    """
    return [*_match_quickly(connection, wanted), *_match_slowly(wanted, _action)]


def _match_quickly(
    connection: sa.Connection, wanted: ActionFilterModel
) -> list[sa.ColumnElement[bool] | sa.TextClause]:
    """Return the conditions that an index serves."""
    conditions = _match_state(wanted.state)
    conditions += belongs_to(wanted.app, _action.app)
    if wanted.trouble is not None:
        conditions.append(_match_trouble(connection, wanted.trouble, wanted.app))
    if wanted.uids is not None:
        conditions.append(is_one_of(connection, wanted.uids))
    return conditions


def _match_slowly(
    wanted: ActionFilterModel, kept: ReadOnlyColumnCollection[str, Any]
) -> list[sa.ColumnElement[bool]]:
    """Return the conditions for which each row is looked at."""
    conditions = []
    if wanted.queue is not None:
        conditions.append(kept.queue == wanted.queue)
    if wanted.kind is not None:
        conditions.append(match_kind(wanted.kind, kept))
    if wanted.text:
        conditions.append(match_text(wanted.text, kept))
    return conditions


def _match_trouble(
    connection: sa.Connection, trouble: Trouble, app: str | None
) -> sa.ColumnElement[bool]:
    chosen: set[str] = set()
    if trouble is not Trouble.QUARANTINED:
        chosen.update(
            uid
            for uid, state in fetch_troubled(connection, app).items()
            if trouble in {Trouble.ANY, state}
        )
    if trouble in {Trouble.QUARANTINED, Trouble.ANY}:
        bad = *_match_state(ActionState.QUARANTINED), *belongs_to(app, _action.app)
        query = sa.select(_action.uid).where(*bad).order_by(_action.app, _action.name)
        chosen.update(connection.scalars(query.limit(TROUBLES_LOOKED_AT)))
    return is_one_of(connection, chosen)


def _match_state(
    state: ActionState | None,
) -> list[sa.ColumnElement[bool] | sa.TextClause]:
    table = scheduled_actions.name
    alive = _action.deleted_at.is_(None)
    if state is None:
        return [alive]
    if state is ActionState.DELETED:
        return [DELETED_ACTIONS.of(table)]
    if state is ActionState.ACTIVE:
        return [alive, sa.text(f"NOT {IDLE_ACTIONS.of(table)}")]
    held, bad = _action.paused_at.is_not(None), _action.quarantined_at.is_not(None)
    state_is = {
        ActionState.QUARANTINED: bad,
        ActionState.PAUSED: sa.and_(held, ~bad),
        ActionState.INACTIVE: ~sa.or_(held, bad),
    }
    return [alive, IDLE_ACTIONS.of(table), state_is[state]]


def match_text(
    text: str, kept: ReadOnlyColumnCollection[str, Any]
) -> sa.ColumnElement[bool]:
    """Match the name and the uid, whatever the case of their letters."""
    part = text[:LONGEST_TEXT]
    return sa.or_(
        kept.name.icontains(part, autoescape=True),
        kept.uid.icontains(part, autoescape=True),
    )


def name_state() -> sa.ColumnElement[str]:
    """Return the state of an action that is not deleted; see ``get_action_state``."""
    return sa.case(
        (_action.quarantined_at.is_not(None), ActionState.QUARANTINED.value),
        (_action.paused_at.is_not(None), ActionState.PAUSED.value),
        (_action.active, ActionState.ACTIVE.value),
        else_=ActionState.INACTIVE.value,
    )


def match_kind(
    kind: str, kept: ReadOnlyColumnCollection[str, Any]
) -> sa.ColumnElement[bool]:
    """Match the columns that are derived from ``when``: no document is read."""
    # A time of day alone is no delay: models/fields/delay.py.
    lasts = sa.func.coalesce(kept.delay.startswith("P"), sa.false())
    if kind == "on":
        return sa.and_(kept.event.is_not(None), ~lasts)
    if kind == "after":
        return sa.and_(kept.event.is_not(None), lasts)
    if kind == "after_action":
        return sa.and_(kept.follows.is_not(None))
    # Canonical JSON, whose values have no quotes in them. Of others than time, null.
    found: sa.ColumnElement[bool] = kept.timing.contains(f'"{kind}":"', autoescape=True)
    return sa.func.coalesce(found, sa.false())


def fetch_troubled(
    connection: sa.Connection, app: str | None
) -> dict[str, OperationState]:
    """
    Return the actions (of *app*) whose latest operation failed or was missed, by uid.

    Only the latest TROUBLES_LOOKED_AT failed and missed operations are looked at.
    """
    kept = operations.c
    found = sa.select(kept.action_uid, kept.occurrence, kept.state).where(
        TROUBLED.of(), *belongs_to(app)
    )
    few = found.order_by(kept.finished_at.desc()).limit(TROUBLES_LOOKED_AT)
    recent = few.subquery("recent")
    # An action that fails each time is asked about once.
    of_state = recent.c.action_uid, recent.c.state
    last = sa.func.max(recent.c.occurrence).label("occurrence")
    newest = sa.select(*of_state, last).group_by(*of_state).subquery("newest")
    later = operations.alias("later")
    latest = (
        sa.select(later.c.occurrence)
        .where(later.c.action_uid == newest.c.action_uid)
        .order_by(later.c.occurrence.desc())
        .limit(1)
        .scalar_subquery()
    )
    query = sa.select(newest.c.action_uid, newest.c.state)
    rows = connection.execute(query.where(newest.c.occurrence == latest))
    return {uid: OperationState(state) for uid, state in rows}
