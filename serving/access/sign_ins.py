"""
People at the pages: links that sign in once, and the sessions that follow.

A session lasts until its end, until its owner signs out, or until the key ends that it
was begun with. As of keys, only digests are kept; of a sign-in at the company's
provider, that it is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from models.database.engine import db_now
from models.database.journal import note_change
from models.database.lists import belongs_to
from models.database.tables import api_keys, sign_ins
from models.errors import NotFoundError
from models.role import Role
from serving.access.callers import Caller
from serving.access.key_documents import ShownInvitation
from serving.access.keys import is_secret, make_caller_name, make_digest, make_secret

#: Long enough to copy it into a browser, and too short to be found in a log.
LINK_FOR = timedelta(minutes=15)

#: A working day, and somewhat more.
SESSION_FOR = timedelta(hours=12)

#: What prints a link, as it can be pasted.
LINK_COMMAND = "minutehand keys link --all --role admin"

#: How each begins.
LINK_PREFIX, SESSION_PREFIX = "mhl_", "mhs_"

#: Begins what a browser keeps while its owner is at the company's provider, which is
#: taken for as long, and remembered longer than any provider takes the same code.
PENDING_PREFIX = "mhp_"
PENDING_FOR = timedelta(minutes=15)
_USED_FOR = timedelta(days=1)

#: The session of an invitation ends with it, and so does that of a choice, which
#: somebody has who may come in to several small apps.
_LINK, _INVITATION, _CHOICE = "link", "invitation", "choice"
_SESSION, _USED = "session", "used"

_sign_in = sign_ins.c

#: Digits of a digest that tell apart whose it is: a quarter of it. Nobody comes in by
#: them, nor by the whole.
_SHOWN_DIGITS = 16

#: The key that it was made with, if any, has not ended.
_KEY_IS_ACTIVE = sa.or_(
    _sign_in.key_id.is_(None),
    sa.exists().where(
        api_keys.c.id == _sign_in.key_id,
        api_keys.c.revoked_at.is_(None),
        sa.or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > db_now()),
    ),
)


def _is_of(*kinds: str) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions for the one that ``digest`` names, if it is still good."""
    return (
        _sign_in.digest == sa.bindparam("given"),
        sa.or_(*(_sign_in.kind == kind for kind in kinds)),
        _sign_in.expires_at > db_now(),
        _KEY_IS_ACTIVE,
    )


_FOLLOW = (
    sa.update(sign_ins)
    .where(*_is_of(_LINK, _INVITATION, _CHOICE), _sign_in.used_at.is_(None))
    .values(used_at=db_now())
    .returning(
        *(_sign_in.key_id, _sign_in.name, _sign_in.role, _sign_in.app),
        *(_sign_in.kind, _sign_in.expires_at),
    )
)

_SELECT_SESSION = sa.select(
    _sign_in.key_id, _sign_in.name, _sign_in.role, _sign_in.app
).where(*_is_of(_SESSION))


@dataclass(frozen=True, slots=True)
class Session:
    """
    A session that begins now.

    Args:
        text: What the cookie holds; kept nowhere.
        caller: Whose it is.
        begins_at: Now, aware UTC.
        expires_at: When it ends by itself.
    """

    text: str
    caller: Caller
    begins_at: datetime
    expires_at: datetime


def make_link(connection: sa.Connection, caller: Caller) -> str:
    """
    Return the secret of a link that signs in once, within LINK_FOR.

    Args:
        caller: Whom it signs in: with the same role, and the same small app.
    """
    return _insert(connection, _LINK, caller, LINK_FOR).text


def make_invitation(connection: sa.Connection, caller: Caller, until: datetime) -> str:
    """
    Return the secret of a link that signs in once; it and its session end at *until*.

    Args:
        caller: Whom it signs in.
        until: Aware.
    """
    return _insert(connection, _INVITATION, caller, until).text


def make_choice(connection: sa.Connection, caller: Caller, until: datetime) -> str:
    """Return the secret of such a link, of which its owner has several."""
    return _insert(connection, _CHOICE, caller, until).text


def make_address(url: str, secret: str) -> str:
    """
    Return the link with *secret* to the pages at *url*.

    It stands behind the #: browsers send that nowhere, not as a Referer either, so that
    no log of a proxy has it.
    """
    return f"{url}/sign-in#{secret}"


def fetch_invitations(
    connection: sa.Connection, app: str | None, invitation_id: str | None = None
) -> list[ShownInvitation]:
    """
    Return invitations that have not ended, used or not, the latest first.

    Args:
        app: Uid of a small app; only those to it. None: all.
        invitation_id: Of the only one that is wanted. None: all.
    """
    shown_id = sa.func.substr(_sign_in.digest, 1, _SHOWN_DIGITS)
    query = sa.select(shown_id.label("id"), sign_ins).where(
        *(_sign_in.kind == _INVITATION, _sign_in.expires_at > db_now(), _KEY_IS_ACTIVE),
        *(*belongs_to(app, _sign_in.app), *belongs_to(invitation_id, shown_id)),
    )
    rows = connection.execute(query.order_by(_sign_in.created_at.desc(), shown_id))
    return [
        ShownInvitation(e.id, e.app, Role(e.role), e.name, e.expires_at, e.used_at)
        for e in rows
    ]


def fetch_invitation(
    connection: sa.Connection, invitation_id: str, app: str | None
) -> ShownInvitation:
    """
    Return an invitation that has not ended.

    Args:
        app: Uid of a small app; those to others are unknown. None: any.

    Raises:
        NotFoundError: No such invitation.
    """
    for found in fetch_invitations(connection, app, invitation_id):
        return found
    raise NotFoundError(f"there is no invitation {invitation_id!r} that has not ended")


def revoke_invitation(
    connection: sa.Connection, invitation_id: str, app: str | None = None
) -> ShownInvitation:
    """
    End an invitation now, and the session of whoever came in by it.

    Args:
        connection: Of ``writing``.
        app: As of ``fetch_invitation``.

    Raises:
        NotFoundError: No such invitation.
    """
    found = fetch_invitation(connection, invitation_id, app)
    told: dict[str, Any] = {"role": found.role.value, "expires_at": found.expires_at}
    # To the microsecond, its session ends when it does, and no other of that name. The
    # invitation goes first: whoever follows it meanwhile has a session after that.
    for kind in (_INVITATION, _SESSION):
        is_it = {**told, "kind": kind, "app": found.app, "name": found.name}
        connection.execute(sa.delete(sign_ins).filter_by(**is_it))
    told |= {"used_at": found.used_at}
    note_change(
        connection, "invitation", found.name, "revoked", app=found.app, before=told
    )
    return found


def follow_link(connection: sa.Connection, text: str) -> Session | None:
    """
    Begin a session by a link, or return None if it is unknown, used or too old.

    Of several who follow a link at once, one gets in.
    """
    if not is_secret(text, LINK_PREFIX):
        return None
    row = connection.execute(_FOLLOW, {"given": make_digest(text)}).one_or_none()
    if row is None:
        return None
    until = None if row.kind == _LINK else row.expires_at
    return begin_session(connection, _make_caller(row), until)


def begin_session(
    connection: sa.Connection, caller: Caller, until: datetime | None = None
) -> Session:
    """
    Begin a session of somebody who has shown who they are.

    Args:
        until: Aware. None: for SESSION_FOR.
    """
    return _insert(connection, _SESSION, caller, until or SESSION_FOR)


def use_up(connection: sa.Connection, text: str, caller: Caller) -> bool:
    """
    Note that the sign-in *text* at the provider is over, as *caller*.

    Returns:
        Whether it was not before.
    """
    values = _make_values(text, _USED, caller, db_now(_USED_FOR))
    added = insert(sign_ins).values(values).on_conflict_do_nothing()
    return connection.execute(added.returning(_sign_in.digest)).first() is not None


def recognize_session(connection: sa.Connection, text: str) -> Caller | None:
    """
    Return whose session it is, or None if there is none, or none any more.

    One query; none if *text* is no session's.
    """
    if not is_secret(text, SESSION_PREFIX):
        return None
    digest = make_digest(text)
    row = connection.execute(_SELECT_SESSION, {"given": digest}).one_or_none()
    return None if row is None else _make_caller(row, session=digest[:_SHOWN_DIGITS])


def sign_out(connection: sa.Connection, text: str) -> bool:
    """End a session, and return whether there was one."""
    if not is_secret(text, SESSION_PREFIX):
        return False
    is_it = _sign_in.digest == make_digest(text), _sign_in.kind == _SESSION
    return connection.execute(sa.delete(sign_ins).where(*is_it)).rowcount == 1


def _insert(
    connection: sa.Connection, kind: str, caller: Caller, end: timedelta | datetime
) -> Session:
    """Return a new link or session, which ends at *end* or so much later than now."""
    text = make_secret(SESSION_PREFIX if kind == _SESSION else LINK_PREFIX)
    expires_at = db_now(end) if isinstance(end, timedelta) else end
    row = connection.execute(
        sa.insert(sign_ins)
        .values(_make_values(text, kind, caller, expires_at))
        .returning(_sign_in.created_at, _sign_in.expires_at)
    ).one()
    return Session(text, caller, row.created_at, row.expires_at)


def _make_values(
    text: str, kind: str, caller: Caller, expires_at: object
) -> dict[str, object]:
    return {
        "digest": make_digest(text),
        "kind": kind,
        "key_id": caller.key_id,
        "app": caller.app,
        "role": caller.role.value,
        "name": caller.name,
        "created_at": db_now(),
        "expires_at": expires_at,
    }


def _make_caller(row: sa.Row[*tuple[Any, ...]], session: str | None = None) -> Caller:
    name = make_caller_name(row.name, row.key_id)
    return Caller(row.key_id, name, Role(row.role), row.app, session=session)
