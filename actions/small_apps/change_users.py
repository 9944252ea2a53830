"""
Change the users of a small app: those that its document names, or one.

Each change raises the revision of the app, since its users belong to its document: who
applies an older one is told. What events do to users does not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from actions.lookup import refuse_app
from actions.small_apps.app_row import PartChange, lock_app
from actions.small_apps.export import KnownUser, count_users, fetch_known_user
from actions.user_events import USER_COLUMNS, NewEvent, record_events
from models.database.engine import json_rows, make_rows_json, read_clock
from models.database.journal import note_change
from models.database.lists import select_given
from models.database.tables import memberships, small_apps, users
from models.door.app_documents import read_user_object
from models.errors import ConflictError, NotFoundError, StaleError
from models.small_app import MOST_USERS, UserModel

#: Rows in one parameter.
_CHUNK = 2000

_COLUMNS = {each.name: each.type for each in users.c}
_MEMBERSHIP = {each.name: each.type for each in memberships.c}

#: The event that each field of a user stands for. A document that leaves such a field
#: out does not clear it.
_OF_EVENTS = {column: name for name, column in USER_COLUMNS.items()}

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
    _remove(connection, app, removed)
    return PartChange(len(added), len(changed), len(removed)), events


def _fetch_stored(
    connection: sa.Connection, app: str, ids: Collection[str] | None = None
) -> dict[str, _Row]:
    """Return the users *ids* of *app* (None: all), locked against changes."""
    query = (
        sa.select(users)
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
        known = {"app": app, "email": email, "disabled": False, "created_at": now}
        old = dict.fromkeys(_COLUMNS) | known
    if given.get("email", "") is None:
        given["email"] = ""
    return {**old, **given}


def _find_news(
    app: str, rows: dict[str, _Row], stored: dict[str, _Row]
) -> Iterator[NewEvent]:
    """Yield an event for each time that is later than the one known before."""
    for user_id, row in rows.items():
        old = stored.get(user_id)
        for column, name in _OF_EVENTS.items():
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


def _remove(connection: sa.Connection, app: str, ids: Collection[str]) -> None:
    """Remove users of *app*, and their memberships."""
    for some in _split(sorted(ids)):
        gone = users.c.id.in_(select_given(connection, some, sa.Text()))
        connection.execute(sa.delete(users).where(users.c.app == app, gone))


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
    given = json_rows(connection.dialect.name, _MEMBERSHIP)
    new = insert(memberships).from_select(
        list(_MEMBERSHIP), sa.select(*given.c).where(sa.true())
    )
    key = sa.tuple_(memberships.c.group_name, memberships.c.user_id)
    gone = sa.delete(memberships).where(
        memberships.c.app == app,
        key.in_(sa.select(given.c.group_name, given.c.user_id)),
    )
    for statement, pairs in (
        (new.on_conflict_do_nothing(), asked - stored),
        (gone, stored - asked),
    ):
        for some in _split(sorted(pairs)):
            rows = [{"app": app, "group_name": g, "user_id": u} for g, u in some]
            connection.execute(statement, {"rows": make_rows_json(rows)})
    return {user_id for _group, user_id in asked ^ stored}


def _split(rows: Sequence[_T]) -> Iterator[Sequence[_T]]:
    return (rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK))


#: The tag that a user has who does not exist.
NO_TAG = ""

#: Members of a user that the record of changes does not repeat.
_UNTOLD = frozenset({"id"})


@dataclass(frozen=True, slots=True)
class StoredUser:
    """
    A user that was stored.

    Args:
        user: As they are now.
        created: Whether they are new.
        events: How many events were recorded.
    """

    user: KnownUser
    created: bool
    events: int


def replace_user(
    connection: sa.Connection,
    app: str,
    user: UserModel,
    *,
    expected_tag: str | None = None,
    raise_events: bool = False,
) -> StoredUser:
    """
    Make a user of *app* what *user* says; create them if there is none.

    Fields that are absent are cleared, but for what events write (``created_at``,
    ``activated_at``, ``last_seen_at``): those stay, unless they are null.

    Args:
        user: As the door read it.
        expected_tag: What the author has read; NO_TAG: there was no such user. None:
            whatever it is.
        raise_events: Whether what is new about the user is recorded as events.

    Raises:
        NotFoundError: No such small app.
        StaleError: The user is another than the author has read.
        ConflictError: The app has too many users.
    """
    _hold(connection, app)
    old = None
    with suppress(NotFoundError):
        old = fetch_known_user(connection, app, user.id, lock=True)
    _refuse_stale(app, user.id, old, expected_tag)
    if old is None and (count := count_users(connection, app)) >= MOST_USERS:
        msg = f"small app {app!r} has {count:,} users, and may not have more"
        raise ConflictError(msg)
    return _store(connection, app, user, old, raise_events=raise_events)


def patch_user(
    connection: sa.Connection,
    app: str,
    user_id: str,
    patch: object,
    *,
    expected_tag: str | None = None,
    raise_events: bool = False,
) -> StoredUser:
    """
    Change what *patch* has of a user of *app*; null clears a field.

    Args:
        user_id: Of the user.
        patch: A decoded JSON Merge Patch (RFC 7396).
        expected_tag: As for ``replace_user``.
        raise_events: As for ``replace_user``.

    Raises:
        NotFoundError: No such small app or user.
        StaleError: As for ``replace_user``.
        InvalidDocumentError: The patched user is refused.
    """
    old = _hold_user(connection, app, user_id, expected_tag)
    if isinstance(patch, Mapping):
        # A user has no members that have members, so this is all of RFC 7396.
        merged = {**old.as_document(), **patch}
        cleared = {name for name, value in patch.items() if value is None}
        patch = {
            name: value
            for name, value in merged.items()
            if name not in cleared or name in _OF_EVENTS
        }
    user = read_user_object(patch, user_id=user_id)
    return _store(connection, app, user, old, raise_events=raise_events)


def delete_user(
    connection: sa.Connection,
    app: str,
    user_id: str,
    *,
    expected_tag: str | None = None,
) -> None:
    """
    Remove a user from *app*, and from its groups; what happened stays known.

    Raises:
        NotFoundError: No such small app or user.
        StaleError: As for ``replace_user``.
    """
    _hold_user(connection, app, user_id, expected_tag)
    _remove(connection, app, [user_id])
    _end(connection, app, user_id, "deleted")


def _hold(connection: sa.Connection, app: str) -> None:
    """Lock *app* before its users, as who applies its document does."""
    row = lock_app(connection, app)
    if row is None or row.deleted_at is not None:
        refuse_app(connection, app)


def _hold_user(
    connection: sa.Connection, app: str, user_id: str, expected: str | None
) -> KnownUser:
    _hold(connection, app)
    old = fetch_known_user(connection, app, user_id, lock=True)
    _refuse_stale(app, user_id, old, expected)
    return old


def _refuse_stale(
    app: str, user_id: str, known: KnownUser | None, expected: str | None
) -> None:
    current = NO_TAG if known is None else known.tag
    if expected is None or expected == current:
        return
    if known is None:
        msg = f"small app {app!r} has no user {user_id!r} any more"
    elif expected == NO_TAG:
        msg = (
            f"small app {app!r} has a user {user_id!r} already."
            " Change that one, or choose another id."
        )
    else:
        msg = (
            f"user {user_id!r} of small app {app!r} has changed since. Read it again,"
            " and repeat the change."
        )
    raise StaleError(msg, current=current)


def _store(
    connection: sa.Connection,
    app: str,
    user: UserModel,
    old: KnownUser | None,
    *,
    raise_events: bool,
) -> StoredUser:
    now = read_clock(connection)
    # What is absent stays as it is there; so say all that is to be cleared.
    kept = set(_OF_EVENTS) - user.model_fields_set
    given = {
        name: getattr(user, name) for name in UserModel.model_fields if name not in kept
    }
    given["groups"] = user.groups or ()
    if "email" not in user.model_fields_set and "@" in user.id:
        # The id of a user is often the mail address.
        given["email"] = user.id
    whole = UserModel.model_construct(_fields_set=set(given), **given)
    _counts, events = put_users(
        connection, app, [whole], now=now, raise_events=raise_events, is_whole=False
    )
    stored = fetch_known_user(connection, app, user.id)
    before = {} if old is None else old.as_document()
    after = {
        name: value
        for name, value in stored.as_document().items()
        if name not in _UNTOLD and before.get(name) != value
    }
    if after:
        change = "created" if old is None else "changed"
        told = {name: before[name] for name in after if name in before}
        _end(connection, app, user.id, change, before=told, after=after)
    return StoredUser(stored, old is None, events)


def _end(
    connection: sa.Connection, app: str, user_id: str, change: str, **told: Any
) -> None:
    """Raise the revision of the app, and note the change."""
    connection.execute(
        sa.update(small_apps)
        .where(small_apps.c.uid == app)
        .values(revision=small_apps.c.revision + 1, updated_at=read_clock(connection))
    )
    note_change(connection, "user", user_id, change, app=app, **told)
