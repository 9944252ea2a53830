"""Pause or resume a small app, or all of them, and tell how it stands then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import sqlalchemy as sa

from actions.lookup import fetch_app, get_action
from actions.pausing.pause_and_resume import (
    pause_app,
    pause_installation,
    resume_app,
    resume_installation,
)
from actions.pausing.pause_state import (
    APP,
    Pause,
    fetch_app_pauses,
    fetch_pauses,
    get_pause,
    tag_pause,
)
from actions.posting.revisions import refuse_action
from actions.read_actions import ActionState, get_action_state
from models.database.leader_lock import keep_leader_out
from models.errors import StaleError
from models.json_form import ASIDE


@dataclass(frozen=True, slots=True)
class ActionPause:
    """Whether an action is paused; *tag* tells its pause from any other."""

    uid: str
    state: ActionState
    pause: Pause | None
    tag: str = field(metadata=ASIDE)


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


def fetch_action_pause(
    connection: sa.Connection, uid: str, *, app: str | None = None
) -> ActionPause:
    """
    Return whether an action is paused, as whoever may see only *app* is told.

    Raises:
        NotFoundError: There is no such action, or it is deleted.
    """
    row = get_action(connection, uid, app=app)
    if row.deleted_at is not None:
        refuse_action(uid)
    pause = get_pause(row)
    told = pause and pause.seen_by(app)
    return ActionPause(uid, get_action_state(row), told, tag_pause(pause))


def pause_target(
    connection: sa.Connection,
    app: str | None,
    *,
    until: datetime | None,
    note: str | None,
    by: str | None,
    expected: str | None = None,
) -> PausedTarget:
    """
    Pause *app*, or with None all of the installation, as ``pause_app`` does.

    *expected* is the tag of the pause that the author has seen; None: whatever it is.

    Raises:
        NotFoundError: No such small app.
        UsageError: *until* is not to come.
        StaleError: Its pause is not the *expected* one.
    """
    _refuse_other(connection, app, expected)
    if app is None:
        count = pause_installation(connection, until=until, note=note, by=by)
    else:
        count = pause_app(connection, app, until=until, note=note, by=by)
    whole, apps, _actions = fetch_pauses(connection)
    pause = whole if app is None else apps[app]
    assert pause is not None  # it has just been written
    return PausedTarget(app, count, pause)


def resume_target(
    connection: sa.Connection,
    app: str | None,
    *,
    by: str | None,
    expected: str | None = None,
) -> ResumedTarget:
    """
    Resume *app*, or with None all of the installation, from now on.

    Raises:
        NotFoundError: No such small app.
        ConflictError: It is not paused, or with the installation.
        StaleError: Its pause is not the *expected* one; see ``pause_target``.
    """
    _refuse_other(connection, app, expected)
    if app is None:
        count = resume_installation(connection, by=by)
        whole, apps, still_paused = fetch_pauses(connection)
        return ResumedTarget(app, count, still_paused, whole, apps)
    fetch_app(connection, app)
    count = resume_app(connection, app, by=by)
    whole, own, still_paused = fetch_app_pauses(connection, app)
    apps = {} if own is None else {app: own}
    return ResumedTarget(app, count, still_paused, whole, apps)


def fetch_target_pause(connection: sa.Connection, app: str | None) -> Pause | None:
    """
    Return the pause of *app*, or with None that of the installation.

    Raises:
        NotFoundError: No such small app.
    """
    if app is not None:
        pause = get_pause(fetch_app(connection, app))
        return None if pause is None else replace(pause, scope=APP)
    whole, _apps, _actions = fetch_pauses(connection)
    return whole


def _refuse_other(
    connection: sa.Connection, app: str | None, expected: str | None
) -> None:
    if expected is None:
        return
    keep_leader_out(connection)  # nobody else pauses or resumes until the commit
    current = tag_pause(fetch_target_pause(connection, app))
    if expected != current:
        what = "the installation" if app is None else f"small app {app!r}"
        msg = (
            f"the pause of {what} was changed meanwhile. Read it again, and decide on"
            " what it is now"
        )
        raise StaleError(msg, current=current)
