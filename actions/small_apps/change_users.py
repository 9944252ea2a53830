"""
Change one user of a small app.

Each change raises the revision of the app, since its users belong to its document: who
applies an older one is told. What events do to users does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from actions.lookup import refuse_app
from actions.small_apps.app_row import lock_app
from actions.small_apps.apply_users import put_users, remove_users
from actions.small_apps.known_users import KnownUser, fetch_known_user
from models.database.engine import read_clock
from models.database.journal import note_change
from models.database.tables import small_apps, users
from models.door.app_documents import read_user_object
from models.errors import (
    ConflictError,
    NotFoundError,
    StaleError,
)
from models.small_app import MOST_USERS, UserModel

#: What events write, too: a document that leaves them out does not clear them.
_OF_EVENTS = ("created_at", "activated_at", "last_seen_at")

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
    old = _find(connection, app, user.id)
    _refuse_stale(app, user.id, old, expected_tag)
    if old is None:
        _refuse_too_many(connection, app)
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
    _hold(connection, app)
    old = fetch_known_user(connection, app, user_id, lock=True)
    _refuse_stale(app, user_id, old, expected_tag)
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
    _hold(connection, app)
    old = fetch_known_user(connection, app, user_id, lock=True)
    _refuse_stale(app, user_id, old, expected_tag)
    remove_users(connection, app, [user_id])
    _end(connection, app, user_id, "deleted")


def _hold(connection: sa.Connection, app: str) -> None:
    """Lock *app* before its users, as who applies its document does."""
    row = lock_app(connection, app)
    if row is None or row.deleted_at is not None:
        refuse_app(connection, app)


def _find(connection: sa.Connection, app: str, user_id: str) -> KnownUser | None:
    try:
        return fetch_known_user(connection, app, user_id, lock=True)
    except NotFoundError:
        return None


def _refuse_stale(
    app: str, user_id: str, known: KnownUser | None, expected: str | None
) -> None:
    current = NO_TAG if known is None else known.tag
    if expected is None or expected == current:
        return
    if known is None:
        msg = f"small app {app!r} has no user {user_id!r} any more"
    elif expected == NO_TAG:
        msg = f"small app {app!r} has a user {user_id!r} already"
    else:
        msg = (
            f"user {user_id!r} of small app {app!r} has changed since. Read it again,"
            " and repeat the change."
        )
    raise StaleError(msg, current=current)


def _refuse_too_many(connection: sa.Connection, app: str) -> None:
    count = connection.execute(
        sa.select(sa.func.count()).select_from(users).where(users.c.app == app)
    ).scalar_one()
    if count >= MOST_USERS:
        msg = f"small app {app!r} has {count:,} users, and may not have more"
        raise ConflictError(msg)


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
    whole = UserModel.model_construct(
        _fields_set=set(given), **{**given, "groups": user.groups or ()}
    )
    if "email" not in user.model_fields_set and "@" in user.id:
        # The id of a user is often the mail address.
        whole = whole.model_copy(update={"email": user.id})
    _counts, events = put_users(
        connection, app, [whole], now=now, raise_events=raise_events, is_whole=False
    )
    stored = fetch_known_user(connection, app, user.id)
    before = {} if old is None else old.as_document()
    after = stored.as_document()
    changed = {
        name
        for name, value in after.items()
        if name not in _UNTOLD and before.get(name) != value
    }
    if changed:
        _end(
            connection,
            app,
            user.id,
            "created" if old is None else "changed",
            before={name: before[name] for name in changed if name in before},
            after={name: after[name] for name in changed},
        )
    return StoredUser(stored, old is None, events)


def _end(
    connection: sa.Connection,
    app: str,
    user_id: str,
    change: str,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Raise the revision of the app, and note the change."""
    connection.execute(
        sa.update(small_apps)
        .where(small_apps.c.uid == app)
        .values(revision=small_apps.c.revision + 1, updated_at=read_clock(connection))
    )
    note_change(
        connection, "user", user_id, change, app=app, before=before, after=after
    )
