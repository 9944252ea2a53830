"""
What a pause is, and what it writes into actions.

The tick looks only at an action itself to see whether it is paused. So a pause of a
small app, or of the whole installation, is written into each of its actions, with its
scope.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

import sqlalchemy as sa

from models.database.engine import get_author, read_clock
from models.database.journal import note_change
from models.database.lists import belongs_to
from models.database.tables import installation, scheduled_actions, small_apps
from models.errors import StaleError, UsageError
from models.fields.instants import format_instant
from models.operation_state import Queue
from models.requests.notes import UNTIL_RESUMED, PauseModel
from models.revision import Change

PauseScope = Literal["action", "app", "installation", "queue"]

#: The scopes of pauses: of one action on its own, or with others.
ACTION: Final = "action"
APP: Final = "app"
INSTALLATION: Final = "installation"

#: The scope of a pause of a queue, which no action has: it holds operations back.
QUEUE: Final = "queue"

#: The author of revisions by which actions are paused or resumed with the installation,
#: for tenants read them; the record of changes names the operator.
OPERATOR: Final = "operator"

_action = scheduled_actions.c
UNPAUSED: dict[str, object] = dict.fromkeys(
    ("paused_at", "paused_until", "paused_by", "pause_note")
)


@dataclass(frozen=True, slots=True)
class Pause:
    """
    Since when, until when, by whom and why something is paused; times are aware UTC.

    Args:
        until: When it ends by itself, exclusive. None: when somebody resumes it.
        scope: What was paused: the action itself, or what it belongs to.
    """

    at: datetime
    until: datetime | None
    by: str | None
    note: str | None
    scope: PauseScope

    @property
    def is_own(self) -> bool:
        """Whether the action was paused on its own."""
        return self.scope == ACTION

    @property
    def told(self) -> str | None:
        """The note of the revision that begins the pause."""
        return say_pause(self.scope, self.until, self.note)

    def seen_by(self, app: str | None) -> Pause:
        """
        Return it as somebody may see it who sees the small app *app* alone.

        Who paused the whole installation, or a queue, is an operator, whose name and
        host are nothing to tell a tenant. None: somebody who sees all apps.
        """
        if app is None or self.scope not in {INSTALLATION, QUEUE}:
            return self
        return replace(self, by=None)

    def as_columns(self) -> dict[str, object]:
        """Return the columns of a small app, or of the installation."""
        values = (self.at, self.until, self.by, self.note)
        return dict(zip(UNPAUSED, values, strict=True))

    def as_action_columns(self) -> dict[str, object]:
        """Return the columns of an action."""
        return {**self.as_columns(), "pause_scope": None if self.is_own else self.scope}


def say_pause(
    scope: str | None, until: datetime | None, note: str | None
) -> str | None:
    """
    Return in a few words what was paused, until when, and why; None if unknown.

    >>> say_pause("app", None, "deploy")
    'with its app; deploy'
    """
    parts = (
        {APP: "with its app", INSTALLATION: "with the installation"}.get(scope or ""),
        None if until is None else f"until {format_instant(until)}",
        note,
    )
    return "; ".join(part for part in parts if part) or None


def get_pause(row: sa.Row[Any], scope: PauseScope | None = None) -> Pause | None:
    """
    Return the pause of an action, or of what *scope* says, if it has one.

    Args:
        scope: Of what *row* is. None: an action, which may be paused with others.
    """
    if row.paused_at is None:
        return None
    scope = scope or getattr(row, "pause_scope", None) or ACTION
    since, until = row.paused_at, row.paused_until
    return Pause(since, until, row.paused_by, row.pause_note, scope)


def tag_pause(pause: Pause | None) -> str:
    """Return what tells one pause from another, and from none: an entity tag."""
    if pause is None:
        return "none"
    values = json.dumps(asdict(pause), default=datetime.isoformat)
    return hashlib.sha256(values.encode()).hexdigest()[:16]


def refuse_other_pause(what: str, known: Pause | None, expected: str | None) -> None:
    """
    Refuse a change if the pause of *what* is not the *expected* one.

    Args:
        what: As people read it: "queue quick".
        expected: The ``tag_pause`` of the pause that the author has seen. None: any.

    Raises:
        StaleError: It is another one.
    """
    current = tag_pause(known)
    if expected is not None and expected != current:
        msg = (
            f"the pause of {what} was changed meanwhile. Read it again, and decide on"
            " what it is now"
        )
        raise StaleError(msg, current=current)


class PauseSubject(NamedTuple):
    """What is paused or resumed, as the record of changes names it."""

    kind: str
    uid: str
    app: str | None


def note_pause(
    connection: sa.Connection,
    of: PauseSubject,
    before: Pause | None,
    after: Pause | None,
    note: str | None,
    **counts: int,
) -> None:
    """Record a pause, or with no *after* its end, and how many things it reaches."""
    change = Change.RESUMED if after is None else Change.PAUSED
    was = None if before is None else {"pause": asdict(before)}
    is_now = {**counts, **({} if after is None else {"pause": asdict(after)})} or None
    told: dict[str, Any] = {"before": was, "after": is_now, "note": note}
    note_change(connection, of.kind, of.uid, change, app=of.app, **told)


def hold_pause(connection: sa.Connection, app: str) -> Pause | None:
    """
    Return the pause that *app* gives its actions, and lock it against changes.

    Call this before locking an action: a pause locks its app first, then its actions.

    Returns:
        The pause of the app, or else of the installation; None if neither is paused, or
        there is no such app.
    """
    found = fetch_pause(connection, app, lock=False)
    if found is not None:
        return found
    found = fetch_pause(connection, None, lock=False)
    if found is None:
        return None
    is_own = sa.exists().where(_action.app == app, _action.queue == Queue.DEFAULT)
    if connection.execute(sa.select(is_own)).scalar():
        return None  # the scheduler's own maintenance goes on
    return found


def select_target(app: str | None, *names: str) -> sa.Select[Any]:
    """Select columns of the row of *app*, or with None of the installation."""
    if app is None:
        return sa.select(*(installation.c[name] for name in names))
    columns = (small_apps.c[name] for name in names)
    return sa.select(*columns).where(small_apps.c.uid == app)


def write_target(
    connection: sa.Connection, app: str | None, columns: Mapping[str, object]
) -> None:
    """Write *columns* into the row of *app*, or with None of the installation."""
    update = sa.update(installation)
    if app is not None:
        update = sa.update(small_apps).where(small_apps.c.uid == app)
    connection.execute(update.values(**columns))


def fetch_pause(
    connection: sa.Connection, app: str | None, *, lock: bool | None = None
) -> Pause | None:
    """
    Return the pause of *app*, or with None that of the installation.

    Args:
        lock: Against others: True to change it, False to rely on it. None: not at all.
    """
    query = select_target(app, *UNPAUSED)
    if lock is not None:
        query = query.with_for_update(read=not lock)
    row = connection.execute(query).first()
    if row is None:
        return None
    return get_pause(row, INSTALLATION if app is None else APP)


def fetch_pauses(
    connection: sa.Connection, app: str | None = None
) -> tuple[Pause | None, dict[str, Pause], int]:
    """Return the pauses of the installation and of apps, and the count of actions."""
    of_app = sa.true() if app is None else _action.app == app
    # but for what goes on as soon as the end of its pause is written into it
    of_whole = sa.exists().where(installation.c.paused_at.is_not(None))
    paused_apps = sa.select(small_apps.c.uid).where(small_apps.c.paused_at.is_not(None))
    lasts = sa.case(
        (_action.pause_scope == APP, _action.app.in_(paused_apps)),
        (_action.pause_scope == INSTALLATION, of_whole),
        else_=sa.true(),
    )
    where = (of_app, _action.paused_at.is_not(None), _action.deleted_at.is_(None))
    actions = connection.execute(sa.select(sa.func.count()).where(*where, lasts))
    apps = fetch_paused_apps(connection, app)
    return fetch_pause(connection, None), apps, actions.scalar_one()


def fetch_paused_apps(
    connection: sa.Connection, app: str | None = None
) -> dict[str, Pause]:
    """Return the pause of each small app that has one, by the uid of the app."""
    query = (
        sa.select(small_apps.c.uid, *(small_apps.c[name] for name in UNPAUSED))
        .where(small_apps.c.paused_at.is_not(None), *belongs_to(app, small_apps.c.uid))
        .order_by(small_apps.c.uid)
    )
    rows = connection.execute(query)
    return {row.uid: pause for row in rows if (pause := get_pause(row, APP))}


def begin_pause(
    connection: sa.Connection,
    asked: PauseModel,
    scope: PauseScope,
    known: Pause | None = None,
) -> Pause:
    """
    Return the pause that is *asked* for; nothing is written.

    Args:
        connection: Of ``writing``, which knows who asks.
        scope: Of what it is.
        known: That of the same scope that it replaces, as of the same instant. Asked
            for neither an end nor a note, it is this one.

    Raises:
        UsageError: If it would end before now.
    """
    now = read_clock(connection)
    if asked.until is not None and asked.until <= now:
        raise UsageError(
            f"--until: {format_instant(asked.until)} has passed. Write a time in the"
            " future."
        )
    if known is not None and asked == UNTIL_RESUMED:
        return known
    at = now if known is None else known.at
    return Pause(at, asked.until, find_name(connection), asked.note, scope)


def find_name(connection: sa.Connection) -> str | None:
    """Return the name of whoever pauses or resumes in this transaction."""
    author = get_author(connection)
    return None if author is None else author.name
