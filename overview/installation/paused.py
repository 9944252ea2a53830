"""What is paused, in the installation or in one small app."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.pausing.pause_state import (
    Pause,
    PauseJson,
    fetch_app_pauses,
    fetch_pauses,
)
from actions.pausing.queues import fetch_queue_pauses
from models.operation_state import Queue


class _AnyPausedJson(TypedDict):
    all: PauseJson | None
    actions: int
    queues: dict[str, PauseJson]


class PausedJson(_AnyPausedJson):
    """What is paused: the installation, apps by uid, queues, and how many actions."""

    apps: dict[str, PauseJson]


class AppPausedJson(_AnyPausedJson):
    """What is paused: the installation, the app, its actions (a count), queues."""

    app: PauseJson | None


@dataclass(frozen=True, slots=True)
class Paused:
    """
    What is paused.

    Args:
        all: The pause of the whole installation. None: it is not paused.
        apps: The pauses of small apps, by uid.
        actions: How many actions are paused, on their own or with others.
        queues: The pauses of queues, of which nothing is sent.
    """

    all: Pause | None
    apps: Mapping[str, Pause]
    actions: int
    queues: Mapping[Queue, Pause]

    def as_json(self) -> PausedJson:
        """Return the documented object; keys are only added."""
        apps = {uid: each.as_json() for uid, each in self.apps.items()}
        return {**self._as_any_json(), "apps": apps}

    def as_app_json(self, app: str) -> AppPausedJson:
        """Return the documented object of *app*; keys are only added."""
        own = self.apps.get(app)
        return {**self._as_any_json(), "app": None if own is None else own.as_json()}

    def _as_any_json(self) -> _AnyPausedJson:
        return {
            "all": None if self.all is None else self.all.as_json(),
            "actions": self.actions,
            "queues": {each.value: p.as_json() for each, p in self.queues.items()},
        }


def fetch_paused(connection: sa.Connection, app: str | None = None) -> Paused:
    """Return what is paused, as somebody may see it who sees *app* alone; None: all."""
    queues = {
        queue: each.seen_by(app)
        for queue, each in fetch_queue_pauses(connection).items()
    }
    if app is None:
        return Paused(*fetch_pauses(connection), queues)
    whole, own, actions = fetch_app_pauses(connection, app)
    apps = {} if own is None else {app: own}
    return Paused(whole and whole.seen_by(app), apps, actions, queues)
