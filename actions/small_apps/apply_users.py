"""
Make the users of a small app those of a list, in bulk.

A few statements write any number of users; only what differs is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from actions.small_apps.app_row import PartChange
from actions.user_events import NewEvent, record_events
from models.database.engine import UtcDateTime, json_rows, make_rows_json
from models.database.tables import memberships, users
from models.event import EventName
from models.small_app import UserModel

#: Rows in one parameter.
_CHUNK = 2000

_COLUMNS: dict[str, sa.types.TypeEngine[Any]] = {
    "app": sa.Text(),
    "id": sa.Text(),
    "email": sa.Text(),
    "name": sa.Text(),
    "locale": sa.Text(),
    "disabled": sa.Boolean(),
    "expires_at": UtcDateTime,
    "created_at": UtcDateTime,
    "activated_at": UtcDateTime,
    "last_seen_at": UtcDateTime,
}

_MEMBERSHIP: dict[str, sa.types.TypeEngine[Any]] = {
    "app": sa.Text(),
    "group_name": sa.Text(),
    "user_id": sa.Text(),
}

#: The event that each field of a user stands for.
_EVENT_OF_COLUMN = {
    "created_at": EventName.USER_CREATED,
    "activated_at": EventName.USER_ACTIVATED,
    "last_seen_at": EventName.USER_LAST_SEEN,
}

_Row = dict[str, Any]
_T = TypeVar("_T")


def put_users(
    connection: sa.Connection,
    app: str,
    wanted: Sequence[UserModel],
    *,
    now: datetime,
    raise_events: bool,
    is_whole: bool = True,
) -> tuple[PartChange, int]:
    """
    Make the users of an app those *wanted*; return what changed, and events recorded.

    Args:
        wanted: Fields that the entry of a known user leaves out stay as they are.
        now: Aware UTC; becomes ``created_at`` of new users without one.
        raise_events: Whether what is new about users is recorded as events.
        is_whole: Whether all others are removed; else they stay as they are.
    """
    ids = None if is_whole else [each.id for each in wanted]
    stored = _fetch_stored(connection, app, ids)
    rows = {each.id: _merge(app, each, stored.get(each.id), now) for each in wanted}
    added = rows.keys() - stored.keys()
    changed = {each for each in rows.keys() & stored if rows[each] != stored[each]}
    news = list(_find_news(app, rows, stored)) if raise_events else []
    if raise_events:
        # Recording an event updates this column itself; if it were written here, the
        # event would look stale.
        for user_id, row in rows.items():
            old = stored.get(user_id)
            if row["last_seen_at"] is not None:
                row["last_seen_at"] = None if old is None else old["last_seen_at"]
    _write(connection, [rows[user_id] for user_id in sorted(added | changed)])
    changed = (changed | _apply_groups(connection, app, wanted)) - added
    events = record_events(connection, news) if news else 0
    removed = stored.keys() - rows.keys()
    remove_users(connection, app, removed)
    return PartChange(len(added), len(changed), len(removed)), events


def _fetch_stored(
    connection: sa.Connection, app: str, ids: Collection[str] | None = None
) -> dict[str, _Row]:
    """Return the users *ids* of *app* (None: all), locked against changes."""
    query = (
        sa.select(*(users.c[name] for name in _COLUMNS))
        .where(users.c.app == app)
        .order_by(users.c.id)  # as whoever records events of theirs locks them
        .with_for_update()
    )
    if ids is not None:
        query = query.where(users.c.id.in_(ids))
    return {row["id"]: dict(row) for row in connection.execute(query).mappings()}


def _merge(app: str, user: UserModel, old: _Row | None, now: datetime) -> _Row:
    """Return the row of *user*: what the document says, over what was known."""
    given = {
        name: getattr(user, name) for name in user.model_fields_set if name in _COLUMNS
    }
    if old is None:
        # The id of a user is often the mail address.
        email = user.id if "@" in user.id else ""
        old = dict.fromkeys(_COLUMNS) | {
            "app": app,
            "email": email,
            "disabled": False,
            "created_at": now,
        }
    if given.get("email", "") is None:
        given["email"] = ""
    return {**old, **given}


def _find_news(
    app: str, rows: dict[str, _Row], stored: dict[str, _Row]
) -> Iterator[NewEvent]:
    """Yield an event for each time that is later than the one known before."""
    for user_id, row in rows.items():
        old = stored.get(user_id)
        for column, name in _EVENT_OF_COLUMN.items():
            at, before = row[column], None if old is None else old[column]
            if old is not None and column == "created_at":
                continue
            if at is not None and (before is None or before < at):
                yield NewEvent(app=app, name=name, user_id=user_id, at=at)


def _write(connection: sa.Connection, rows: Sequence[_Row]) -> None:
    source = json_rows(connection.dialect.name, _COLUMNS)
    statement = insert(users).from_select(
        list(_COLUMNS),
        # SQLite reads ON CONFLICT after SELECT as a join unless a WHERE is in between.
        sa.select(*source.c).where(sa.true()),
    )
    kept = [name for name in _COLUMNS if name not in {"app", "id"}]
    upsert = statement.on_conflict_do_update(
        index_elements=["app", "id"],
        set_={name: statement.excluded[name] for name in kept},
    )
    for some in _split(rows):
        connection.execute(upsert, {"rows": make_rows_json(some)})


def remove_users(connection: sa.Connection, app: str, ids: Collection[str]) -> int:
    """Remove users of *app*, and their memberships; return how many there were."""
    gone = json_rows(connection.dialect.name, {"id": sa.Text()}, "gone")
    statement = sa.delete(users).where(
        users.c.app == app, users.c.id.in_(sa.select(gone.c.id))
    )
    removed = 0
    for some in _split(sorted(ids)):
        rows = make_rows_json([{"id": user_id} for user_id in some])
        removed += connection.execute(statement, {"gone": rows}).rowcount
    return removed


def _apply_groups(
    connection: sa.Connection, app: str, wanted: Sequence[UserModel]
) -> set[str]:
    """Make the groups of users what the list says; return whose groups changed."""
    listed = {each.id: each.groups for each in wanted if each.groups is not None}
    query = sa.select(memberships.c.group_name, memberships.c.user_id).where(
        memberships.c.app == app
    )
    if len(listed) == 1:
        query = query.where(memberships.c.user_id.in_(listed))
    stored = {
        (row.group_name, row.user_id)
        for row in connection.execute(query)
        if row.user_id in listed
    }
    asked = {(group, user_id) for user_id, groups in listed.items() for group in groups}
    _write_memberships(connection, app, sorted(asked - stored))
    _remove_memberships(connection, app, sorted(stored - asked))
    return {user_id for _group, user_id in asked ^ stored}


def _write_memberships(
    connection: sa.Connection, app: str, pairs: Sequence[tuple[str, str]]
) -> None:
    source = json_rows(connection.dialect.name, _MEMBERSHIP)
    statement = (
        insert(memberships)
        .from_select(list(_MEMBERSHIP), sa.select(*source.c).where(sa.true()))
        .on_conflict_do_nothing()
    )
    for some in _split(pairs):
        rows = [{"app": app, "group_name": g, "user_id": u} for g, u in some]
        connection.execute(statement, {"rows": make_rows_json(rows)})


def _remove_memberships(
    connection: sa.Connection, app: str, pairs: Sequence[tuple[str, str]]
) -> None:
    gone = json_rows(connection.dialect.name, _MEMBERSHIP, "gone")
    key = sa.tuple_(memberships.c.group_name, memberships.c.user_id)
    statement = sa.delete(memberships).where(
        memberships.c.app == app,
        key.in_(sa.select(gone.c.group_name, gone.c.user_id)),
    )
    for some in _split(pairs):
        rows = [{"group_name": g, "user_id": u} for g, u in some]
        connection.execute(statement, {"gone": make_rows_json(rows)})


def _split(rows: Sequence[_T]) -> Iterator[Sequence[_T]]:
    return (rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK))
