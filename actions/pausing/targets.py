"""
Pause or resume a small app, or all of them, and tell how it stands then.

Such a pause is written into each action, with its scope. An action that is paused on
its own stays paused when its app is resumed.

Thousands of actions are written in parts. The first is part of the transaction of
whoever pauses or resumes; then the row of the app says how far it is, and the leader
does the others between ticks. The pause holds from the first part on, because a tick
passes over what is not written yet; what is resumed begins from that instant, too.
A change that follows before all is written waits in the row until it is, so that each
action has a revision of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NoReturn

import sqlalchemy as sa
from pydantic import TypeAdapter

from actions.lookup import fetch_app
from actions.pausing.pause_and_resume import let_go_on, write_pause
from actions.pausing.pause_state import (
    APP,
    INSTALLATION,
    OPERATOR,
    UNPAUSED,
    Pause,
    PauseScope,
    PauseSubject,
    begin_pause,
    fetch_pause,
    fetch_pauses,
    find_name,
    get_pause,
    note_pause,
    refuse_other_pause,
    select_target,
    write_target,
)
from actions.posting.revisions import lock_actions
from models.database.engine import read_clock
from models.database.sql_time import was_there
from models.database.tables import installation, scheduled_actions, small_apps
from models.database.transaction import keep_leader_out
from models.errors import ConflictError
from models.json_form import ASIDE
from models.operation_state import Queue
from models.requests.notes import UNTIL_RESUMED, PauseModel

#: Actions that are written in one transaction, within some tenth of a second.
WRITTEN_AT_ONCE = 1_000

#: A pause as JSON, in which it is kept until it is written into all actions.
_AS_JSON = TypeAdapter(Pause)

_action = scheduled_actions.c


def begin_spread(
    connection: sa.Connection, app: str | None, pause: Pause | None
) -> int:
    """
    Begin to write that *app* (None: the installation) is paused, or resumed, from now.

    Args:
        connection: In the transaction that has changed its row.
        pause: None: it is resumed.

    Returns:
        How many actions there are to write.
    """
    changes = _lock_changes(connection, app)
    if pause is None and changes and changes[-1]["pause"] is None:
        return 0  # all of it is being resumed
    # What a pause is still to be written into is resumed, too.
    is_paused = pause is not None or any(each["pause"] for each in changes)
    count = connection.execute(
        sa.select(sa.func.count())
        .select_from(scheduled_actions)
        .where(_action.deleted_at.is_(None), *_select(app, is_paused=is_paused))
    ).scalar_one()
    change = {
        "at": read_clock(connection).isoformat(),
        "by": OPERATOR if app is None else find_name(connection),
        "pause": pause and _AS_JSON.dump_python(pause, mode="json", exclude={"scope"}),
        "until": "",
    }
    _write(connection, app, [*changes, change])
    if not changes:
        _spread(connection, app)
    return count


def is_spreading() -> sa.ColumnElement[bool]:
    """Tell whether ``spread_part`` has anything to do."""
    return sa.or_(
        sa.exists().where(small_apps.c.spread.is_not(None)),
        sa.exists().where(installation.c.spread.is_not(None)),
    )


def spread_part(connection: sa.Connection) -> bool:
    """
    Write a part of what somebody paused or resumed.

    Args:
        connection: In a transaction of the leader that has checked the lease.

    Returns:
        Whether there was any.
    """
    whole = connection.execute(
        sa.select(installation.c.id).where(installation.c.spread.is_not(None))
    ).first()
    app = connection.execute(
        sa.select(small_apps.c.uid)
        .where(small_apps.c.spread.is_not(None))
        .order_by(small_apps.c.uid)
    ).scalars()
    first = app.first()
    if whole is None and first is None:
        return False
    _spread(connection, None if whole is not None else first)
    return True


def _spread(connection: sa.Connection, app: str | None) -> None:
    """Write a part."""
    changes = _lock_changes(connection, app)
    if not changes:
        return
    change, *later = changes
    at, by = datetime.fromisoformat(change["at"]), change["by"]
    # In this order, as everybody who pauses.
    above = None if app is None else fetch_pause(connection, None, lock=False)
    scope = {"scope": INSTALLATION if app is None else APP}
    pause = change["pause"] and _AS_JSON.validate_python({**change["pause"], **scope})
    rows = lock_actions(
        connection,
        *_select(app, is_paused=pause is not None),
        _action.uid > change["until"],
        # What was posted since then is paused, or not, as it was posted.
        was_there(_action.created_at, at),
        at_most=WRITTEN_AT_ONCE,
    )
    if pause is not None:
        others = [row for row in rows if get_pause(row) != pause]
        write_pause(connection, others, pause, by=by, at=at)
    elif above is not None:
        write_pause(connection, rows, above, by=by, at=at)
    else:
        let_go_on(connection, rows, at=at, by=by)
    if len(rows) == WRITTEN_AT_ONCE:
        later = [{**change, "until": rows[-1].uid}, *later]
    _write(connection, app, later)


def _select(app: str | None, *, is_paused: bool) -> tuple[sa.ColumnElement[bool], ...]:
    """Say which actions follow *app* when it is paused, or resumed."""
    unpaused = _action.paused_at.is_(None)
    if app is None:
        where = _action.pause_scope == INSTALLATION
        return _action.queue != Queue.DEFAULT, unpaused | where if is_paused else where
    if is_paused:
        return _action.app == app, unpaused | _action.pause_scope.is_not(None)
    return _action.app == app, _action.pause_scope == APP


def _lock_changes(connection: sa.Connection, app: str | None) -> list[dict[str, Any]]:
    """Return what is still to be written, the earliest first."""
    query = select_target(app, "spread").with_for_update()
    spread = connection.execute(query).scalar_one()
    return [] if spread is None else list(spread["changes"])


def _write(
    connection: sa.Connection, app: str | None, changes: Sequence[Mapping[str, Any]]
) -> None:
    # Ticks read whether there is a pause among them; see actions/due_rows.py.
    holds = any(each["pause"] for each in changes)
    spread = {"holds": holds, "changes": changes} if changes else None
    write_target(connection, app, {"spread": spread})


@dataclass(frozen=True, slots=True)
class PausedTarget:
    """A small app, or with None all of them, paused now with so many actions."""

    app: str | None
    actions: int
    pause: Pause


@dataclass(frozen=True, slots=True)
class ResumedTarget:
    """
    A small app, or with None all of them, resumed, and what is paused all the same.

    Args:
        actions: How many were paused with it.
        still_paused: How many actions are, of the app or of all, for whatever pause.
        whole: The pause of the installation, which the actions of a resumed app are in
            now; None: there is none.
        apps: The pauses of small apps, by uid.
    """

    app: str | None
    actions: int
    still_paused: int
    whole: Pause | None = field(metadata=ASIDE)
    apps: Mapping[str, Pause] = field(metadata=ASIDE)


def pause_target(
    connection: sa.Connection,
    app: str | None,
    asked: PauseModel = UNTIL_RESUMED,
    *,
    expected: str | None = None,
) -> PausedTarget:
    """
    Pause *app*, or with None all of them but maintenance, and what is posted meanwhile.

    Actions that are paused on their own (or, with None, with their app) stay so.

    Args:
        connection: Of ``writing``, which knows who asks.
        expected: The tag of the pause that the author has seen; None: any.

    Raises:
        NotFoundError: No such small app.
        UsageError: Its end is not to come.
        StaleError: Its pause is not the *expected* one.
    """
    keep_leader_out(connection)
    known = _hold(connection, app, expected)
    scope: PauseScope = INSTALLATION if app is None else APP
    pause = begin_pause(connection, asked, scope, known)
    write_target(connection, app, pause.as_columns())
    actions = begin_spread(connection, app, pause)
    note_pause(connection, _name(app), known, pause, asked.note, actions=actions)
    return PausedTarget(app, actions, pause)


def resume_target(
    connection: sa.Connection, app: str | None, *, expected: str | None = None
) -> ResumedTarget:
    """
    Resume *app*, or with None all of the installation, from now on.

    Raises:
        NotFoundError: No such small app.
        ConflictError: It is not paused, or with the installation.
        StaleError: Its pause is not the *expected* one; see ``pause_target``.
    """
    keep_leader_out(connection)
    known = _hold(connection, app, expected)
    above = None if app is None else fetch_pause(connection, None, lock=False)
    write_target(connection, app, UNPAUSED)
    actions = begin_spread(connection, app, None)
    if known is None and not actions:
        _refuse_unpaused(app, above)
    note_pause(connection, _name(app), known, None, None, actions=actions)
    whole, apps, still_paused = fetch_pauses(connection, app)
    return ResumedTarget(app, actions, still_paused, whole, apps)


def _hold(
    connection: sa.Connection, app: str | None, expected: str | None
) -> Pause | None:
    if app is not None:
        fetch_app(connection, app)
    known = fetch_pause(connection, app, lock=True)
    what = "the installation" if app is None else f"small app {app!r}"
    refuse_other_pause(what, known, expected)
    return known


def _refuse_unpaused(app: str | None, above: Pause | None) -> NoReturn:
    msg = "the installation is not paused; single apps and actions may still be"
    if app is not None:
        msg = f"small app {app!r} is not paused"
    if above is not None:
        msg = (
            f"small app {app!r} is paused together with the whole installation."
            " To resume both, resume the installation (minutehand apps resume --all)"
        )
    raise ConflictError(msg)


def _name(app: str | None) -> PauseSubject:
    if app is None:
        return PauseSubject(INSTALLATION, INSTALLATION, None)
    return PauseSubject(APP, app, app)
