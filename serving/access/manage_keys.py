"""
Manage API keys: make, list, rotate and revoke them; and invite colleagues.

Who manages keys with a key of a small app manages those of that app alone, and none
whose role is above their own.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.lookup import fetch_app
from actions.small_apps.app_row import lock_app
from models.database.engine import get_author, read_clock
from models.database.journal import note_change
from models.database.lists import belongs_to, fetch_latest
from models.database.tables import api_keys
from models.errors import ConflictError, NotFoundError, UsageError
from models.fields.duration import Duration
from models.fields.field_types import LONGEST_NAME
from models.json_form import get_members
from models.paging import Page, Part
from models.role import Role
from serving.access.callers import Caller
from serving.access.key_documents import (
    DEFAULT_OVERLAP,
    LONGEST_INVITED,
    Invitation,
    InvitationModel,
    KeyState,
    NewKey,
    ShownKey,
    make_prefix,
    parse_lifetime,
)
from serving.access.keys import (
    HAS_EXPIRED,
    ID_LENGTH,
    make_digest,
    make_letters,
    make_secret,
)
from serving.access.sign_ins import fetch_invitations, make_invitation

#: The most keys of a small app that are taken at a time. Each key may ask as often as
#: any other, so whoever makes keys without bound has no limit; no app needs so many.
MOST_KEYS = 100

#: The most invitations of a small app, for the same reason.
MOST_INVITED = 100

_UTC = ZoneInfo("UTC")

_SHOWN = (
    *(each for each in api_keys.c if each is not api_keys.c.digest),
    HAS_EXPIRED.label("has_expired"),
)


def create_key(
    connection: sa.Connection,
    *,
    app: str | None,
    role: Role,
    name: str | None = None,
    lifetime: Duration | None = None,
    maker: Caller | None = None,
) -> NewKey:
    """
    Make a key.

    Args:
        connection: Of ``writing``, whose author is recorded as its maker.
        app: Uid of the small app that it is for. None: the installation.
        role: What it may do.
        name: What it is for, a line of text. None: nobody said.
        lifetime: Its end from now. None: it does not expire.
        maker: Who makes it. None: whoever runs the command line, who may make any.

    Raises:
        NotFoundError: No such small app, or not the maker's.
        ForbiddenError: The maker may not make such a key.
        ConflictError: The small app has MOST_KEYS keys that have not ended.
    """
    if maker is not None:
        maker.demand_key(app, role)
    if app is not None:
        lock_app(connection, app)
        fetch_app(connection, app)
        _refuse_too_many(connection, app)
    now = read_clock(connection)
    new = _insert_key(
        connection,
        app=app,
        role=role,
        name=name,
        created_at=now,
        created_by=_get_maker_name(connection, maker),
        expires_at=None if lifetime is None else lifetime.added_to(now, _UTC),
    )
    _note(connection, new, "created", after=_tell(new))
    return new


def invite(
    connection: sa.Connection, wanted: InvitationModel, maker: Caller | None = None
) -> Invitation:
    """
    Make a link that signs a colleague in once; their session ends when it does.

    What they change is recorded under their name and the maker's. If the maker signed
    in with a key, its end is that of the invitation, too.

    Args:
        connection: Of ``writing``, whose author is recorded as its maker.
        maker: Who makes it. None: whoever runs the command line.

    Raises:
        NotFoundError: No such small app, or not the maker's.
        ForbiddenError: Its role is above that of the maker.
        UsageError: It would live too long.
        ConflictError: The small app has MOST_INVITED that have not ended.
    """
    if maker is not None:
        maker.demand_key(wanted.app, wanted.role)
    lock_app(connection, wanted.app)
    fetch_app(connection, wanted.app)
    if len(fetch_invitations(connection, wanted.app)) >= MOST_INVITED:
        raise ConflictError(
            f"small app {wanted.app!r} has {MOST_INVITED} invitations that have not"
            " ended, and no more are allowed. Revoke some, or make keys."
        )
    now = read_clock(connection)
    until = parse_lifetime(wanted.expires).added_to(now, _UTC)
    if until - now > LONGEST_INVITED:
        msg = f"an invitation ends within {LONGEST_INVITED.days} days. Write P30D."
        raise UsageError(msg)
    # Bounded, for who was invited may invite.
    by = _get_maker_name(connection, maker)[:LONGEST_NAME]
    key_id = None if maker is None else maker.key_id
    name = f"{wanted.name} (invited by {by})"
    caller = Caller(key_id, name, wanted.role, wanted.app)
    text = make_invitation(connection, caller, until)
    told = {"role": wanted.role.value, "expires_at": until}
    note_change(connection, "invitation", name, "created", app=wanted.app, after=told)
    return Invitation(wanted.app, wanted.role, wanted.name, until, text)


def fetch_keys(
    connection: sa.Connection, *, app: str | None, page: Page
) -> Part[ShownKey]:
    """
    Return keys, also those that have ended, the latest first.

    Args:
        app: Uid of a small app; only its keys. None: all.
        page: Which part; positions are (created_at, id).
    """
    query = sa.select(*_SHOWN).where(*belongs_to(app, api_keys.c.app))
    key = (api_keys.c.created_at, api_keys.c.id)
    part = fetch_latest(connection, query, page, key)
    return Part([_make_shown(row) for row in part.entries], part.following)


def fetch_key(
    connection: sa.Connection, key_id: str, *, app: str | None = None
) -> ShownKey:
    """
    Return a key.

    Args:
        key_id: The part of it that may be shown.
        app: Uid of a small app; keys of others are unknown. None: any.

    Raises:
        NotFoundError: No such key.
    """
    return _fetch(connection, sa.select(*_SHOWN), key_id, app)


def revoke_key(
    connection: sa.Connection, key_id: str, *, maker: Caller | None = None
) -> ShownKey:
    """
    End a key now, and the sessions of those who signed in with it.

    A key that was revoked stays as it is.

    Args:
        key_id: Its id.
        maker: Who revokes it. None: whoever runs the command line.

    Raises:
        NotFoundError: No such key, or not one of the maker's app.
        ForbiddenError: Its role is above that of the maker.
    """
    found = _lock(connection, key_id, maker)
    if found.revoked_at is not None:
        return found
    by = _get_maker_name(connection, maker)
    row = connection.execute(
        sa.update(api_keys)
        .where(api_keys.c.id == key_id)
        .values(revoked_at=read_clock(connection), revoked_by=by)
        .returning(*_SHOWN)
    ).one()
    _note(connection, found, "revoked", before=_tell(found))
    return _make_shown(row)


def rotate_key(
    connection: sa.Connection,
    key_id: str,
    *,
    overlap: Duration = DEFAULT_OVERLAP,
    maker: Caller | None = None,
) -> NewKey:
    """
    Make a successor of a key, which itself ends after *overlap*, or earlier if it must.

    The successor has the same app, role and name, and lives as long as the key was
    meant to.

    Args:
        key_id: The key to replace.
        overlap: How long both are taken. Zero: the old one ends now.
        maker: Who rotates it. None: whoever runs the command line.

    Raises:
        NotFoundError: No such key, or not one of the maker's app.
        ForbiddenError: Its role is above that of the maker.
        ConflictError: It has ended, or has a successor that was not revoked; or the
            small app has MOST_KEYS keys that have not ended.
    """
    scope = None if maker is None else maker.app
    found = fetch_key(connection, key_id, app=scope)
    if found.app is not None:
        # Before its keys, as whoever deletes it.
        lock_app(connection, found.app)
    old = _lock(connection, key_id, maker)
    _refuse_rotation(connection, old)
    now = read_clock(connection)
    ends_at = overlap.added_to(now, _UTC)
    if old.expires_at is not None:
        ends_at = min(ends_at, old.expires_at)
    connection.execute(
        sa.update(api_keys).where(api_keys.c.id == old.id).values(expires_at=ends_at)
    )
    if old.app is not None:
        _refuse_too_many(connection, old.app)
    new = _insert_key(
        connection,
        app=old.app,
        role=old.role,
        name=old.name,
        created_at=now,
        created_by=_get_maker_name(connection, maker),
        expires_at=old.expires_at and now + (old.expires_at - old.created_at),
        replaces=old.id,
    )
    after = {"expires_at": ends_at, "replaced_by": new.id}
    before = {"expires_at": old.expires_at}
    _note(connection, old, "rotated", before=before, after=after)
    _note(connection, new, "created", after=_tell(new))
    return new


def _refuse_rotation(connection: sa.Connection, old: ShownKey) -> None:
    if old.state != "active":
        raise ConflictError(f"API key {old.id} is {old.state}. Create a new one.")
    successor = connection.execute(
        sa.select(api_keys.c.id).where(
            api_keys.c.replaces == old.id, api_keys.c.revoked_at.is_(None)
        )
    ).scalar()
    if successor is not None:
        raise ConflictError(
            f"API key {old.id} was rotated already. Rotate its successor, {successor}."
        )


def _refuse_too_many(connection: sa.Connection, app: str) -> None:
    """Refuse one more key of a small app, which is locked: one counts at a time."""
    count = connection.execute(
        sa.select(sa.func.count()).where(
            api_keys.c.app == app, api_keys.c.revoked_at.is_(None), ~HAS_EXPIRED
        )
    ).scalar_one()
    if count >= MOST_KEYS:
        raise ConflictError(
            f"small app {app!r} has {count} API keys that have not ended, and at most"
            f" {MOST_KEYS} are allowed. Revoke those that nobody uses."
        )


def _insert_key(connection: sa.Connection, **values: Any) -> NewKey:
    key_id = make_letters(ID_LENGTH)
    text = make_secret(make_prefix(key_id))
    row = connection.execute(
        sa.insert(api_keys)
        .values(id=key_id, digest=make_digest(text), **values)
        .returning(*_SHOWN)
    ).one()
    return NewKey(**get_members(_make_shown(row)), text=text)


def _lock(connection: sa.Connection, key_id: str, maker: Caller | None) -> ShownKey:
    """Return a key that *maker* may manage, locked until the end of the transaction."""
    scope = None if maker is None else maker.app
    query = sa.select(*_SHOWN).with_for_update()
    found = _fetch(connection, query, key_id, scope)
    if maker is not None:
        maker.demand_key(found.app, found.role)
    return found


def _fetch(
    connection: sa.Connection, query: sa.Select[Any], key_id: str, app: str | None
) -> ShownKey:
    query = query.where(api_keys.c.id == key_id, *belongs_to(app, api_keys.c.app))
    row = connection.execute(query).one_or_none()
    if row is None:
        msg = f"there is no API key {key_id!r}. List them with: minutehand keys list"
        raise NotFoundError(msg)
    return _make_shown(row)


def _make_shown(row: sa.Row[Any]) -> ShownKey:
    values = row._asdict()
    state: KeyState = "expired" if values.pop("has_expired") else "active"
    if row.revoked_at is not None:
        state = "revoked"
    derived = {"prefix": make_prefix(row.id), "role": Role(row.role), "state": state}
    return ShownKey(**{**values, **derived})


def _get_maker_name(connection: sa.Connection, maker: Caller | None) -> str:
    author = get_author(connection)
    if author is not None:
        return author.name
    return "minutehand" if maker is None else maker.name


def _tell(key: ShownKey) -> dict[str, datetime | str | None]:
    """Return what the record says of a key; never anything of its secret."""
    return {"role": key.role.value, "name": key.name, "expires_at": key.expires_at}


def _note(
    connection: sa.Connection,
    key: ShownKey,
    change: str,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    note_change(
        connection, "key", key.id, change, app=key.app, before=before, after=after
    )
