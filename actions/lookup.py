"""
Find one small app, action or user by what somebody calls it.

A name that does not exist is refused with the one that was probably meant. That may be
the name of another small app: a face that knows tenants asks only for what it may show.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

import sqlalchemy as sa

from models.database.lists import belongs_to
from models.database.tables import scheduled_actions, small_apps, users
from models.errors import ConflictError, NotFoundError
from models.fields.strict_model import find_near

#: The small app whose actions are the scheduler's own; they go to the default queue.
SYSTEM_APP = "minutehand"

#: Names that a mistyped one is compared with: some 30 ms, and only of a refusal.
_COMPARED = 1000

#: What is offered to complete a word; more would not fit on a screen.
_SUGGESTED = 100

#: Beside letters and digits, what no shell takes apart. Names are tenants' texts, and
#: what completes a word is evaluated by some shells.
_PLAIN = frozenset("-_.,@+=/")

_action = scheduled_actions.c


def fetch_app(connection: sa.Connection, uid: str) -> sa.Row[Any]:
    """
    Return a small app that is not deleted: every column of its row.

    Raises:
        NotFoundError: No such small app, or it is deleted.
    """
    row = connection.execute(
        sa.select(small_apps).where(
            small_apps.c.uid == uid, small_apps.c.deleted_at.is_(None)
        )
    ).one_or_none()
    if row is None:
        refuse_app(connection, uid)
    return row


def refuse_app(connection: sa.Connection, uid: str) -> NoReturn:
    """
    Say that there is no small app *uid*, and which was probably meant.

    Raises:
        NotFoundError: Always.
    """
    known = connection.execute(
        sa.select(small_apps.c.uid)
        .where(small_apps.c.deleted_at.is_(None))
        .order_by(small_apps.c.uid)
        .limit(_COMPARED)
    ).scalars()
    raise NotFoundError(
        f"there is no small app {uid!r}.{_suggest(uid, known)}"
        " List them with: minutehand apps list"
    )


def find_action(
    connection: sa.Connection, given: str, *, app: str | None = None
) -> sa.Row[Any]:
    """
    Return the action whose uid is *given*, or else whose name it is.

    A deleted action is found by its uid while no action that is left has this name.

    Args:
        given: Uid or name.
        app: Uid of a small app; only its actions count. None: those of all.

    Raises:
        NotFoundError: No action has this uid or name.
        ConflictError: Several small apps have an action of that name.
    """
    query = sa.select(scheduled_actions).where(*belongs_to(app, _action.app))
    by_uid = connection.execute(query.where(_action.uid == given)).one_or_none()
    if by_uid is not None and by_uid.deleted_at is None:
        return by_uid
    is_named = _action.name == given, _action.deleted_at.is_(None)
    named = connection.execute(query.where(*is_named)).all()
    if len(named) > 1:
        uids = ", ".join(sorted(f"{row.uid} ({row.app})" for row in named))
        msg = f"several actions are named {given!r}: {uids}. Give the uid."
        raise ConflictError(msg)
    found = named[0] if named else by_uid
    if found is None:
        raise NotFoundError(_describe_missing(connection, given, app))
    return found


def get_action(
    connection: sa.Connection, uid: str, *, app: str | None = None
) -> sa.Row[Any]:
    """
    Return the action whose uid is *uid*, deleted or not; a name finds nothing.

    Args:
        uid: Of an action.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.

    Raises:
        NotFoundError: There has never been such an action.
    """
    query = sa.select(scheduled_actions).where(
        _action.uid == uid, *belongs_to(app, _action.app)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        raise NotFoundError(_describe_missing(connection, uid, app))
    return row


def _describe_missing(connection: sa.Connection, given: str, app: str | None) -> str:
    """Say that there is no action *given*, and which was probably meant."""
    # Most typos are in the middle, so what begins alike is compared first.
    called = _action.uid, _action.name
    alike = (each.istartswith(given[:1], autoescape=True) for each in called)
    query = (
        sa.select(_action.name, _action.uid)
        .where(_action.deleted_at.is_(None), *belongs_to(app, _action.app))
        .order_by(sa.case((sa.or_(*alike), 0), else_=1), _action.uid)
        .limit(_COMPARED)
    )
    known = [each for row in connection.execute(query) for each in row]
    return (
        f"there is no scheduled action {given!r}.{_suggest(given, known)}"
        " List them with: minutehand actions list"
    )


def _suggest(given: str, known: Iterable[str]) -> str:
    near = find_near(given, known)
    return "" if near is None else f" Did you mean {near!r}?"


def find_filtered(
    connection: sa.Connection, *, app: str | None, action: str | None
) -> str | None:
    """
    Return the uid of the action that a filter names, by uid or name.

    Args:
        app: Uid of a small app to filter by, too. None: any.
        action: Uid or name of an action. None: the filter names none.

    Raises:
        NotFoundError: No such small app, or no such action in it.
        ConflictError: Several small apps have an action of that name.
    """
    if app is not None:
        fetch_app(connection, app)
    return None if action is None else find_action(connection, action, app=app).uid


class Suggestion(NamedTuple):
    """What may complete the beginning of a word, and what it is."""

    word: str
    about: str


def suggest_apps(connection: sa.Connection, start: str) -> list[Suggestion]:
    """Return the uids of small apps that begin with *start*, with their names."""
    uid, name = small_apps.c.uid, small_apps.c.name
    query = sa.select(uid, name).where(
        small_apps.c.deleted_at.is_(None), uid.startswith(start, autoescape=True)
    )
    rows = connection.execute(query.order_by(uid).limit(_SUGGESTED))
    return [make_plain(*row) for row in rows if _is_plain(row.uid)]


def suggest_actions(
    connection: sa.Connection, start: str, *, app: str | None
) -> list[Suggestion]:
    """
    Return what begins with *start*: uids of actions with their names, and names.

    Names with spaces or quotes are left out: not every shell quotes what it offers.
    """
    found: list[Suggestion] = []
    for word, about in ((_action.uid, _action.name), (_action.name, _action.uid)):
        query = sa.select(word.label("word"), about.label("about")).where(
            _action.deleted_at.is_(None),
            word.startswith(start, autoescape=True),
            *belongs_to(app, _action.app),
        )
        rows = connection.execute(query.order_by(word).limit(_SUGGESTED))
        found += [make_plain(*row) for row in rows if _is_plain(row.word)]
    return list({each.word: each for each in reversed(found)}.values())[::-1]


def _is_plain(text: str) -> bool:
    return all(each.isalnum() or each in _PLAIN for each in text)


def make_plain(word: str, about: str) -> Suggestion:
    """
    Return a suggestion whose *about* has nothing that a shell may evaluate.

    Args:
        word: Has nothing of that kind.
        about: Any text.
    """
    return Suggestion(word, "".join(c if _is_plain(c) else " " for c in about).strip())


def refuse_unknown_user(connection: sa.Connection, app: str, user_id: str) -> None:
    """
    Refuse a user that *app* does not have.

    Raises:
        NotFoundError: The app has no such user.
    """
    found = sa.exists().where(users.c.app == app, users.c.id == user_id)
    if not connection.execute(sa.select(found)).scalar():
        raise NotFoundError(f"small app {app!r} has no user {user_id!r}")
