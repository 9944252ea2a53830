"""Pause or resume a small app, or all of them, and tell how it stands then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
from actions.pausing.pause_state import Pause, PauseJson, fetch_pauses
from models.database.journal import note_change


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

        still_paused: How many actions of the installation are, for whatever pause.
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
) -> PausedTarget:
    """
    Pause *app*, or with None all of the installation, as ``pause_app`` does.

    Raises:
        NotFoundError: No such small app.

        UsageError: *until* is not to come.
    """
    if app is None:
        count = pause_installation(connection, until=until, note=note, by=by)
    else:
        count = pause_app(connection, app, until=until, note=note, by=by)
    whole, apps, _actions = fetch_pauses(connection)
    pause = whole if app is None else apps[app]
    assert pause is not None  # it has just been written
    note_change(
        connection,
        *_name(app),
        "paused",
        app=app,
        after={"until": pause.until, "actions": count},
        note=pause.note,
    )
    return PausedTarget(app, count, pause)


def resume_target(
    connection: sa.Connection, app: str | None, *, by: str | None
) -> ResumedTarget:
    """
    Resume *app*, or with None all of the installation, from now on.

    Raises:
        NotFoundError: No such small app.

        ConflictError: It is not paused, or with the installation.
    """
    if app is None:
        count = resume_installation(connection, by=by)
    else:
        fetch_app(connection, app)
        count = resume_app(connection, app, by=by)
    note_change(connection, *_name(app), "resumed", app=app, after={"actions": count})
    return ResumedTarget(app, count, *fetch_pauses(connection))


def _name(app: str | None) -> tuple[str, str]:
    """Return what the record of changes calls *app*: its kind and its subject."""
    return ("installation", "all") if app is None else ("app", app)
