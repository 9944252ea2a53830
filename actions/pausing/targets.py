"""Pause or resume a small app, or all of them, and tell how it stands then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.lookup import fetch_app
from actions.pausing.pause_and_resume import (
    pause_app,
    pause_installation,
    resume_app,
    resume_installation,
)
from actions.pausing.pause_state import (
    APP,
    Pause,
    PauseJson,
    fetch_app_pauses,
    fetch_pauses,
    get_pause,
    tag_pause,
)
from models.database.leader_lock import keep_leader_out
from models.errors import StaleError


class TargetPauseJson(TypedDict):
    """The pause of a small app, or of the installation; null: there is none."""

    pause: PauseJson | None


class PausedTargetJson(TypedDict):
    """A small app, or with null all of them, paused now."""

    app: str | None
    actions: int
    pause: PauseJson


class ResumedTargetJson(TypedDict):
    """A small app, or with null all of them, resumed; and what is still paused."""

    app: str | None
    actions: int
    still_paused: int


@dataclass(frozen=True, slots=True)
class PausedTarget:
    """
    A small app, or all of them, paused now.

    Args:
        app: None: all of the installation.
        actions: How many are paused with it.
        pause: As it is kept.
    """

    app: str | None
    actions: int
    pause: Pause

    def as_json(self) -> PausedTargetJson:
        """Return the documented object; keys are only added."""
        return {
            "app": self.app,
            "actions": self.actions,
            "pause": self.pause.as_json(),
        }


@dataclass(frozen=True, slots=True)
class ResumedTarget:
    """
    A small app, or all of them, resumed, and what is paused all the same.

    Args:
        app: None: all of the installation.
        actions: How many were paused with it.
        whole: The pause of the installation, which the actions of a resumed app are in
            now; None: there is none.
        apps: The pauses of small apps, by uid.
        still_paused: How many actions are, of the app or of all, for whatever pause.
    """

    app: str | None
    actions: int
    whole: Pause | None
    apps: Mapping[str, Pause]
    still_paused: int

    def as_json(self) -> ResumedTargetJson:
        """Return the documented object; keys are only added."""
        return {
            "app": self.app,
            "actions": self.actions,
            "still_paused": self.still_paused,
        }


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
        return ResumedTarget(app, count, *fetch_pauses(connection))
    fetch_app(connection, app)
    count = resume_app(connection, app, by=by)
    whole, own, still_paused = fetch_app_pauses(connection, app)
    apps = {} if own is None else {app: own}
    return ResumedTarget(app, count, whole, apps, still_paused)


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
