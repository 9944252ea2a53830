"""Scheduled actions as faces show them: their document, state and next occurrences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from pydantic import JsonValue, ValidationError
from typing_extensions import TypedDict

from actions.list_actions import (
    WHEN_KEYS,
    ActionFilter,
    Order,
    fetch_schedules,
    select_part,
)
from actions.lookup import fetch_app, find_action, get_action
from actions.occurrences import Due
from actions.pausing.pause_state import Pause, get_pause
from actions.posting.revisions import fetch_document_revisions
from actions.previews.sentences import describe
from actions.read_actions import (
    ActionState,
    LastRun,
    LastRunJson,
    RevisionJson,
    RevisionNote,
    fetch_actions,
    fetch_last_runs,
    fetch_revisions,
    get_action_state,
)
from actions.read_rules import find_next_due, find_problem
from models.errors import MinutehandError
from models.fields.delay import split_delay
from models.paging import Page, Part
from models.scheduled_action import ScheduledActionModel
from overview.actions.recent_runs import RecentRuns, RecentRunsJson, fetch_recent_runs


class ActionJson(TypedDict):
    """
    A scheduled action, without its document.

    ``revision`` counts every change; ``document_revision`` is the latest of them that
    changed the document, and the ETag of the action.
    """

    uid: str
    app: str
    name: str
    revision: int
    document_revision: int
    state: ActionState
    active: bool
    queue: str
    overlap: str
    event: str | None
    delay: str | None
    at: str | None
    sentence: str
    next: list[datetime]
    effective_from: datetime
    paused_at: datetime | None
    pause: Pause | None
    quarantined_at: datetime | None
    quarantine_reason: str | None
    problem: str | None
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None


class ListedActionJson(ActionJson):
    """The same, with its latest operation, and when it last succeeded."""

    last: LastRunJson | None
    last_succeeded_at: datetime | None


class ListedRunsJson(ListedActionJson):
    """The same, with its latest operations, if they were asked for."""

    recent: RecentRunsJson | None


class DetailedActionJson(ListedActionJson):
    """The same, with its latest revisions, newest first, and its document."""

    revisions: list[RevisionJson]
    document: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ShownAction:
    """
    A scheduled action; times are aware UTC.

    Args:
        document_revision: The latest revision that changed the document.
        state: Whether it runs.
        event: The event that it waits for. None: it is time-driven.
        delay: ISO 8601, counted from the event.
        at: The local time of day, HH:MM, that it then waits for.
        following: The next occurrences, as many as were asked for; none if it waits for
            events, does not run, or cannot be read.
        effective_from: Occurrences before this never run.
        pause: Its own pause, or that of its small app or the installation.
        problem: Why its stored rule cannot be read. None: it can be read.
        document: As it was posted; in a list, only the parts that say when.
    """

    uid: str
    app: str
    name: str
    revision: int
    document_revision: int
    state: ActionState
    active: bool
    queue: str
    overlap: str
    event: str | None
    delay: str | None
    at: str | None
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
        parts = {key: self.document[key] for key in WHEN_KEYS if key in self.document}
        return _describe(json.dumps(parts, sort_keys=True))

    @property
    def waits_for_event(self) -> bool:
        """Whether it is active and waits for an event."""
        return self.event is not None and self.state is ActionState.ACTIVE

    def as_json(self) -> ActionJson:
        """Return the documented object; keys are only added."""
        return {
            "uid": self.uid,
            "app": self.app,
            "name": self.name,
            "revision": self.revision,
            "document_revision": self.document_revision,
            "state": self.state,
            "active": self.active,
            "queue": self.queue,
            "overlap": self.overlap,
            "event": self.event,
            "delay": self.delay,
            "at": self.at,
            "sentence": self.sentence,
            "next": [each.occurrence for each in self.following],
            "effective_from": self.effective_from,
            "paused_at": None if self.pause is None else self.pause.at,
            "pause": self.pause,
            "quarantined_at": self.quarantined_at,
            "quarantine_reason": self.quarantine_reason,
            "problem": self.problem,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "deleted_at": self.deleted_at,
        }

    def seen_by(self, app: str | None) -> ShownAction:
        """Return it as somebody may see it who sees *app* alone; None: all apps."""
        return replace(self, pause=self.pause and self.pause.seen_by(app))


@dataclass(frozen=True, slots=True)
class ListedAction:
    """
    An action with the outcome of its latest operation, if there is one.

    Args:
        recent: Its latest operations. None: they were not asked for.
    """

    action: ShownAction
    last: LastRun | None
    recent: RecentRuns | None = None

    def seen_by(self, app: str | None) -> ListedAction:
        """Return it as somebody may see it who sees *app* alone; None: all apps."""
        return replace(self, action=self.action.seen_by(app))

    def as_json(self) -> ListedActionJson:
        """Return the documented object; keys are only added."""
        last = self.last
        return {
            **self.action.as_json(),
            "last": None if last is None else last.as_json(),
            "last_succeeded_at": None if last is None else last.succeeded_at,
        }

    def as_json_with_runs(self) -> ListedRunsJson:
        """Return the documented object with its latest operations."""
        recent = None if self.recent is None else self.recent.as_json()
        return {**self.as_json(), "recent": recent}


@dataclass(frozen=True, slots=True)
class DetailedAction:
    """An action with its last run and its latest revisions, newest first."""

    action: ShownAction
    last: LastRun | None
    revisions: tuple[RevisionNote, ...]

    def seen_by(self, app: str | None) -> DetailedAction:
        """Return it as somebody may see it who sees *app* alone; None: all apps."""
        return replace(self, action=self.action.seen_by(app))

    def as_json(self) -> DetailedActionJson:
        """Return the documented object; keys are only added."""
        return {
            **ListedAction(self.action, self.last).as_json(),
            "revisions": [each.as_json() for each in self.revisions],
            "document": self.action.document,
        }


def fetch_shown_action(
    connection: sa.Connection, uid: str, *, app: str | None = None, count: int = 1
) -> ShownAction:
    """
    Return the action *uid*, deleted or not, with its next *count* occurrences.

    Raises:
        NotFoundError: As ``get_action``.
    """
    row = get_action(connection, uid, app=app)
    (shown,) = _make_all(connection, [row], {row.uid: row.document}, count)
    return shown


def fetch_listed_actions(
    connection: sa.Connection,
    *,
    app: str | None = None,
    deleted: bool = False,
) -> list[ListedAction]:
    """
    Return scheduled actions, the next due first, each with its next occurrence.

    Args:
        app: Uid of a small app. None: those of all.
        deleted: Whether to include deleted actions.

    Raises:
        NotFoundError: No such small app.
    """
    if app is not None:
        fetch_app(connection, app)
    rows = fetch_actions(connection, app=app, deleted=deleted)
    return _list(connection, rows, {row.uid: row.document for row in rows}, count=1)


def fetch_action_part(
    connection: sa.Connection,
    wanted: ActionFilter,
    page: Page,
    *,
    order: Order = Order.NAME,
    count: int = 1,
    runs: int = 0,
) -> Part[ListedAction]:
    """
    Return a part of the scheduled actions.

    Args:
        page: Which part.
        order: How they are sorted.
        count: The most occurrences to return for each.
        runs: The most of their latest operations to return for each. 0: without them.

    Raises:
        NotFoundError: No such small app.
    """
    if wanted.app is not None:
        fetch_app(connection, wanted.app)
    part = select_part(connection, wanted, page, order=order)
    schedules = fetch_schedules(connection, [row.uid for row in part.entries])
    found = _list(connection, part.entries, schedules, count)
    if runs:
        uids = [each.action.uid for each in found]
        recent = fetch_recent_runs(connection, uids, limit=runs)
        found = [
            replace(each, recent=recent.get(each.action.uid, RecentRuns()))
            for each in found
        ]
    return Part(found, part.following)


def fetch_detailed_action(
    connection: sa.Connection,
    given: str,
    *,
    app: str | None = None,
    count: int,
    revisions: int,
    is_uid: bool = False,
) -> DetailedAction:
    """
    Return the action whose uid or name is *given*, with its last run and revisions.

    Args:
        given: Uid (a deleted action's, too) or name.
        app: Uid of a small app, to search only there. None: in all apps.
        count: The most occurrences to return.
        revisions: The most revisions to return.
        is_uid: Whether *given* is a uid, so that a name finds nothing.

    Raises:
        NotFoundError, ConflictError: As ``find_action``.
    """
    find = get_action if is_uid else find_action
    row = find(connection, given, app=app)
    (listed,) = _list(connection, [row], {row.uid: row.document}, count)
    return DetailedAction(
        listed.action,
        listed.last,
        tuple(fetch_revisions(connection, row.uid, limit=revisions)),
    )


def _list(
    connection: sa.Connection,
    rows: Sequence[sa.Row[Any]],
    documents: Mapping[str, Mapping[str, Any]],
    count: int,
) -> list[ListedAction]:
    """Return *rows* with their latest operations."""
    last = fetch_last_runs(connection, [row.uid for row in rows])
    return [
        ListedAction(action, last.get(action.uid))
        for action in _make_all(connection, rows, documents, count)
    ]


def _make_all(
    connection: sa.Connection,
    rows: Sequence[sa.Row[Any]],
    documents: Mapping[str, Mapping[str, Any]],
    count: int,
) -> list[ShownAction]:
    """Return *rows*, whose *documents* are by uid."""
    revisions = fetch_document_revisions(connection, [row.uid for row in rows])
    return [
        _make_shown(row, documents[row.uid], revisions.get(row.uid, 1), count)
        for row in rows
    ]


@lru_cache(maxsize=4096)
def _describe(text: str) -> str:
    """Say when an action runs; cached, since reading a rule takes most of a list."""
    stub = {"name": "action", "operations": {"send_execsum": True}}
    document = {**stub, **json.loads(text)}
    try:
        return describe(ScheduledActionModel.model_validate(document))
    except (ValidationError, MinutehandError):
        # A quarantined action is listed although it cannot be read.
        return "cannot be read"


def _make_shown(
    row: sa.Row[Any],
    document: Mapping[str, Any],
    document_revision: int,
    count: int,
) -> ShownAction:
    delay, at = split_delay(row.delay)
    return ShownAction(
        uid=row.uid,
        app=row.app,
        name=row.name,
        revision=row.revision,
        document_revision=document_revision,
        state=get_action_state(row),
        active=row.active,
        queue=row.queue,
        overlap=row.overlap,
        event=row.event,
        delay=delay,
        at=at,
        following=tuple(find_next_due(row, count=count)),
        effective_from=row.effective_from,
        pause=get_pause(row),
        quarantined_at=row.quarantined_at,
        quarantine_reason=row.quarantine_reason,
        problem=find_problem(row),
        created_at=row.created_at,
        updated_at=row.updated_at,
        deleted_at=row.deleted_at,
        document=document,
    )
