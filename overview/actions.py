"""Scheduled actions as faces show them: their document, state and next occurrences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from actions.list_actions import (
    LastRun,
    RevisionNote,
    fetch_actions,
    fetch_last_runs,
    fetch_revisions,
    find_next_due,
    find_problem,
    get_action_state,
)
from actions.lookup import fetch_app, find_action
from actions.occurrences import Due
from actions.pausing.pause_state import Pause, get_pause
from actions.previews.sentences import describe
from models.errors import MinutehandError
from models.scheduled_action import ScheduledActionModel


@dataclass(frozen=True, slots=True)
class ShownAction:
    """
    A scheduled action; times are aware UTC.

    Args:
        state: ``active``, or why it does not run: ``inactive``, ``paused``,
            ``quarantined`` or ``deleted``.

        event: The event that it waits for. None: it is time-driven.

        delay: ISO 8601, counted from the event.

        following: The next occurrences, as many as were asked for; none if it waits for
            events, does not run, or cannot be read.

        effective_from: Occurrences before this never run.

        pause: Its own pause, or that of its small app or the installation.

        problem: Why its stored rule cannot be read. None: it can be read.

        document: As it was posted.
    """

    uid: str
    app: str
    name: str
    revision: int
    state: str
    active: bool
    queue: str
    overlap: str
    event: str | None
    delay: str | None
    following: tuple[Due, ...]
    effective_from: datetime
    pause: Pause | None
    quarantined_at: datetime | None
    quarantine_reason: str | None
    problem: str | None
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    document: Mapping[str, Any]

    @property
    def sentence(self) -> str:
        """When it runs, in words; or that its rule cannot be read, and why."""
        if self.problem is not None:
            return f"cannot be read: {self.problem}"
        try:
            return describe(ScheduledActionModel.model_validate(self.document))
        except (ValidationError, MinutehandError):
            # A quarantined action is listed although it cannot be read.
            return "cannot be read"

    @property
    def waits_for_event(self) -> bool:
        """Whether it is active and waits for an event."""
        return self.event is not None and self.state == "active"

    def as_json(self) -> dict[str, object]:
        """Return the documented object; keys are only added."""
        return {
            "uid": self.uid,
            "app": self.app,
            "name": self.name,
            "revision": self.revision,
            "state": self.state,
            "active": self.active,
            "queue": self.queue,
            "overlap": self.overlap,
            "event": self.event,
            "delay": self.delay,
            "next": [each.occurrence for each in self.following],
            "effective_from": self.effective_from,
            "paused_at": None if self.pause is None else self.pause.at,
            "pause": None if self.pause is None else self.pause.as_json(),
            "quarantined_at": self.quarantined_at,
            "quarantine_reason": self.quarantine_reason,
            "problem": self.problem,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "deleted_at": self.deleted_at,
        }


@dataclass(frozen=True, slots=True)
class ListedAction:
    """An action with the outcome of its latest operation, if there is one."""

    action: ShownAction
    last: LastRun | None

    def as_json(self) -> dict[str, object]:
        """Return the documented object; keys are only added."""
        last = self.last
        return {
            **self.action.as_json(),
            "last": None if last is None else last.as_json(),
            "last_succeeded_at": None if last is None else last.succeeded_at,
        }


@dataclass(frozen=True, slots=True)
class DetailedAction:
    """An action with its last run and its latest revisions, newest first."""

    action: ShownAction
    last: LastRun | None
    revisions: tuple[RevisionNote, ...]

    def as_json(self) -> dict[str, object]:
        """Return the documented object; keys are only added."""
        return {
            **ListedAction(self.action, self.last).as_json(),
            "revisions": [each.as_json() for each in self.revisions],
            "document": self.action.document,
        }


def fetch_shown_action(
    connection: sa.Connection, given: str, *, app: str | None = None, count: int = 1
) -> ShownAction:
    """
    Return the action whose uid or name is *given*, with its next *count* occurrences.

    Raises:
        NotFoundError, ConflictError: As ``find_action``.
    """
    return _make_shown(find_action(connection, given, app=app), count)


def fetch_listed_actions(
    connection: sa.Connection,
    *,
    app: str | None = None,
    deleted: bool = False,
    count: int = 1,
) -> list[ListedAction]:
    """
    Return scheduled actions, the next due first.

    Args:
        connection: Any.

        app: Uid of a small app. None: those of all.

        deleted: Whether to include deleted actions.

        count: The most occurrences to return for each.

    Raises:
        NotFoundError: No such small app.
    """
    if app is not None:
        fetch_app(connection, app)
    rows = fetch_actions(connection, app=app, deleted=deleted)
    last = fetch_last_runs(connection, [row.uid for row in rows])
    return [ListedAction(_make_shown(row, count), last.get(row.uid)) for row in rows]


def fetch_detailed_action(
    connection: sa.Connection,
    given: str,
    *,
    app: str | None = None,
    count: int,
    revisions: int,
) -> DetailedAction:
    """
    Return the action whose uid or name is *given*, with its last run and revisions.

    Args:
        connection: Any.

        given: Uid (a deleted action's, too) or name.

        app: Uid of a small app, to search only there. None: in all apps.

        count: The most occurrences to return.

        revisions: The most revisions to return.

    Raises:
        NotFoundError, ConflictError: As ``find_action``.
    """
    row = find_action(connection, given, app=app)
    return DetailedAction(
        _make_shown(row, count),
        fetch_last_runs(connection, [row.uid]).get(row.uid),
        tuple(fetch_revisions(connection, row.uid, limit=revisions)),
    )


def _make_shown(row: sa.Row[Any], count: int) -> ShownAction:
    return ShownAction(
        uid=row.uid,
        app=row.app,
        name=row.name,
        revision=row.revision,
        state=get_action_state(row),
        active=row.active,
        queue=row.queue,
        overlap=row.overlap,
        event=row.event,
        delay=row.delay,
        following=tuple(find_next_due(row, count=count)),
        effective_from=row.effective_from,
        pause=get_pause(row),
        quarantined_at=row.quarantined_at,
        quarantine_reason=row.quarantine_reason,
        problem=find_problem(row),
        created_at=row.created_at,
        updated_at=row.updated_at,
        deleted_at=row.deleted_at,
        document=row.document,
    )
