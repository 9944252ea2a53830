"""
People at the pages: links that sign in once, and the sessions that follow.

A session lasts until its end, until its owner signs out, or until the key ends that it
was begun with. As of keys, only digests are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from models.database.engine import db_now
from models.database.tables import api_keys, sign_ins
from serving.access.callers import Caller, Role
from serving.access.keys import is_secret, make_caller_name, make_digest, make_secret

#: Long enough to copy it into a browser, and too short to be found in a log.
LINK_FOR = timedelta(minutes=15)

#: A working day, and somewhat more.
SESSION_FOR = timedelta(hours=12)

#: What prints a link, as it can be pasted.
LINK_COMMAND = "minutehand keys link --all --role admin"

#: How each begins.
LINK_PREFIX, SESSION_PREFIX = "mhl_", "mhs_"

_LINK, _SESSION = "link", "session"

_kept = sign_ins.c

#: The key that it was made with, if any, has not ended.
_KEY_IS_ACTIVE = sa.or_(
    _kept.key_id.is_(None),
    sa.exists().where(
        api_keys.c.id == _kept.key_id,
        api_keys.c.revoked_at.is_(None),
        sa.or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > db_now()),
    ),
)


def _is_of(kind: str) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions for the one that ``digest`` names, if it is still good."""
    return (
        _kept.digest == sa.bindparam("given"),
        _kept.kind == kind,
        _kept.expires_at > db_now(),
        _KEY_IS_ACTIVE,
    )


_FOLLOW = (
    sa.update(sign_ins)
    .where(*_is_of(_LINK), _kept.used_at.is_(None))
    .values(used_at=db_now())
    .returning(_kept.key_id, _kept.name, _kept.role, _kept.app)
)

_SELECT_SESSION = sa.select(_kept.key_id, _kept.name, _kept.role, _kept.app).where(
    *_is_of(_SESSION)
)


@dataclass(frozen=True, slots=True)
class Session:
    """
    A session that begins now.

    Args:
        text: What the cookie holds; kept nowhere.
        caller: Whose it is.
        expires_at: When it ends by itself.
    """

    text: str
    caller: Caller
    expires_at: datetime


def make_link(connection: sa.Connection, caller: Caller) -> str:
    """
    Return the secret of a link that signs in once, within LINK_FOR.

    Args:
        caller: Whom it signs in: with the same role, and the same small app.
    """
    text, _ = _insert(connection, _LINK, caller, LINK_FOR)
    return text


def follow_link(connection: sa.Connection, text: str) -> Session | None:
    """
    Begin a session by a link, or return None if it is unknown, used or too old.

    Of several who follow a link at once, one gets in.
    """
    if not is_secret(text, LINK_PREFIX):
        return None
    row = connection.execute(_FOLLOW, {"given": make_digest(text)}).one_or_none()
    return None if row is None else begin_session(connection, _make_caller(row))


def begin_session(connection: sa.Connection, caller: Caller) -> Session:
    """Begin a session of somebody who has shown a key, or followed a link."""
    text, expires_at = _insert(connection, _SESSION, caller, SESSION_FOR)
    return Session(text, caller, expires_at)


def recognize_session(connection: sa.Connection, text: str) -> Caller | None:
    """
    Return whose session it is, or None if there is none, or none any more.

    One query; none if *text* is no session's.
    """
    if not is_secret(text, SESSION_PREFIX):
        return None
    digest = make_digest(text)
    row = connection.execute(_SELECT_SESSION, {"given": digest}).one_or_none()
    return None if row is None else _make_caller(row, session=digest[:16])


def sign_out(connection: sa.Connection, text: str) -> bool:
    """End a session, and return whether there was one."""
    if not is_secret(text, SESSION_PREFIX):
        return False
    return (
        connection.execute(
            sa.delete(sign_ins).where(
                _kept.digest == make_digest(text), _kept.kind == _SESSION
            )
        ).rowcount
        == 1
    )


def _insert(
    connection: sa.Connection, kind: str, caller: Caller, lasts: timedelta
) -> tuple[str, datetime]:
    """Return the secret of a new link or session, and when it ends."""
    text = make_secret(LINK_PREFIX if kind == _LINK else SESSION_PREFIX)
    expires_at = connection.execute(
        sa.insert(sign_ins)
        .values(
            digest=make_digest(text),
            kind=kind,
            key_id=caller.key_id,
            app=caller.app,
            role=caller.role.value,
            name=caller.name,
            created_at=db_now(),
            expires_at=db_now(lasts),
        )
        .returning(_kept.expires_at)
    ).scalar_one()
    return text, expires_at


def _make_caller(row: sa.Row[*tuple[Any, ...]], session: str | None = None) -> Caller:
    name = make_caller_name(row.name, row.key_id)
    return Caller(row.key_id, name, Role(row.role), row.app, session=session)
