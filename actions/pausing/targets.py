"""
Pause or resume a small app, or all of them, and tell how it stands then.

Such a pause is written into each action, with its scope; see spread.py. An action that
is paused on its own stays paused when its app is resumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

import sqlalchemy as sa

from actions.lookup import fetch_app
from actions.pausing.pause_state import (
    APP,
    INSTALLATION,
    UNPAUSED,
    Pause,
    PauseScope,
    PauseSubject,
    begin_pause,
    fetch_pause,
    fetch_pauses,
    note_pause,
    refuse_other_pause,
    write_target,
)
from actions.pausing.spread import begin_spread
from models.database.transaction import keep_leader_out
from models.errors import ConflictError
from models.json_form import ASIDE
from models.requests.notes import UNTIL_RESUMED, PauseModel


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
            " To resume both: minutehand apps resume --all"
        )
    raise ConflictError(msg)


def _name(app: str | None) -> PauseSubject:
    if app is None:
        return PauseSubject(INSTALLATION, INSTALLATION, None)
    return PauseSubject(APP, app, app)
