"""Scheduled actions as faces show them: their document, state and next occurrences."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Self
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from pydantic import JsonValue, ValidationError

from actions import read_actions
from actions.list_actions import WHEN_KEYS, Order, fetch_schedules, select_part
from actions.lookup import fetch_app, find_action, get_action
from actions.occurrences import Due
from actions.pausing.pause_state import Pause, get_pause
from actions.posting.revisions import fetch_document_revisions
from actions.previews.sentences import describe
from actions.read_rules import find_next_due, find_problem, find_zone
from models.database.tables import scheduled_actions
from models.errors import MinutehandError
from models.fields.delay import split_delay
from models.json_form import ASIDE
from models.paging import Page, Part
from models.requests.actions import ActionFilterModel
from models.revision import ActionState
from models.scheduled_action import ScheduledActionModel
from models.when import AFTER_ACTION
from overview.recent_runs import RecentRuns, fetch_recent_runs, make_recent


@dataclass(frozen=True, slots=True)
class ShownAction:
    """
    A scheduled action; times are aware UTC.

    Args:
        document_revision: The latest revision that changed the document.
        event: The event that it waits for. None: it waits for none.
        follows: Uid of the action that it starts after. None: it starts after none.
        follows_on: How the run of that has to end: success, failure or end.
        delay: ISO 8601, counted from the event, or the end of that run.
        at: The local time of day, HH:MM, that it then waits for.
        sentence: When it runs, in words.
        next: The next occurrences.
        paused_at: As *pause* has it.
        problem: Why its rule cannot be read. None: it can.
        following: The next occurrences, with when jitter sends each.
        zone: In which its rule is read.
        written: Its document; in lists, only the parts that say when.
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
    follows: str | None
    follows_on: str | None
    delay: str | None
    at: str | None
    sentence: str
    next: tuple[datetime, ...]
    effective_from: datetime
    paused_at: datetime | None
    pause: Pause | None
    quarantined_at: datetime | None
    quarantine_reason: str | None
    problem: str | None
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    following: tuple[Due, ...] = field(metadata=ASIDE)
    zone: ZoneInfo = field(metadata=ASIDE)
    written: Mapping[str, Any] = field(metadata=ASIDE)

    @property
    def waits_for_event(self) -> bool:
        """Whether its next run is due after an event, at a time nobody knows yet."""
        return self.event is not None and self.state is ActionState.ACTIVE

    def seen_by(self, app: str | None) -> Self:
        """Return it without who paused what is not of *app* alone (None: of all)."""
        return replace(self, pause=self.pause and self.pause.seen_by(app))


@dataclass(frozen=True, slots=True)
class ListedAction(ShownAction):
    """The same, with its latest operation, and when it last succeeded."""

    last: read_actions.LastRun | None
    last_succeeded_at: datetime | None


@dataclass(frozen=True, slots=True)
class ActionWithRuns(ListedAction):
    """The same, with its latest operations, if they were asked for."""

    recent: RecentRuns | None


@dataclass(frozen=True, slots=True)
class DetailedAction(ListedAction):
    """
    The same, with its latest revisions, newest first, and its document.

    Args:
        followers: What starts after it.
    """

    followers: tuple[read_actions.FollowingAction, ...]
    revisions: list[read_actions.RevisionNote]
    document: Mapping[str, JsonValue]


def fetch_shown_action(
    connection: sa.Connection, uid: str, *, app: str | None = None, count: int = 1
) -> ShownAction:
    """
    Return the action *uid*, deleted or not, with its next *count* occurrences.

    Raises:
        NotFoundError: As ``get_action``.
    """
    row = get_action(connection, uid, app=app)
    (members,) = _describe_all(connection, [row], {row.uid: row.document}, count)
    return ShownAction(**members)


def fetch_listed_actions(
    connection: sa.Connection, *, app: str | None, deleted: bool = False
) -> Iterator[ListedAction]:
    """
    Return scheduled actions, the next due first, each with its next occurrence.

    All is read now, and what it says worked out as it is asked for: of 100,000 actions
    that takes longer than a transaction may be idle.

    Args:
        app: Uid of a small app. None: those of all.
        deleted: Whether to include deleted actions.

    Raises:
        NotFoundError: No such small app.
    """
    if app is not None:
        fetch_app(connection, app)
    rows = read_actions.fetch_actions(connection, app=app, deleted=deleted)
    documents = {row.uid: row.document for row in rows}
    return (ListedAction(**each) for each in _list(connection, rows, documents, 1))


def fetch_action_part(
    connection: sa.Connection,
    wanted: ActionFilterModel,
    page: Page,
    *,
    order: Order = Order.NAME,
    count: int = 1,
    runs: int = 0,
) -> Part[ActionWithRuns]:
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
    recent: Mapping[str, RecentRuns] = {}
    if runs:
        recent = fetch_recent_runs(connection, list(schedules), limit=runs)
    none = make_recent(()) if runs else None
    found = [
        ActionWithRuns(**each, recent=recent.get(each["uid"], none))
        for each in _list(connection, part.entries, schedules, count)
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
    notes = read_actions.fetch_revisions(connection, row.uid, limit=revisions)
    followers = read_actions.fetch_followers(connection, row.uid)
    return DetailedAction(
        **listed, followers=followers, revisions=notes, document=row.document
    )


def _list(
    connection: sa.Connection,
    rows: Sequence[sa.Row[Any]],
    documents: Mapping[str, Mapping[str, Any]],
    count: int,
) -> Iterator[dict[str, Any]]:
    """Return the members of ``ListedAction`` of each row."""
    last = read_actions.fetch_last_runs(connection, [row.uid for row in rows])
    found = _describe_all(connection, rows, documents, count)
    return (
        {
            **each,
            "last": (run := last.get(each["uid"])),
            "last_succeeded_at": None if run is None else run.succeeded_at,
        }
        for each in found
    )


def _describe_all(
    connection: sa.Connection,
    rows: Sequence[sa.Row[Any]],
    documents: Mapping[str, Mapping[str, Any]],
    count: int,
) -> Iterator[dict[str, Any]]:
    """Return the members of ``ShownAction`` of each row."""
    revisions = fetch_document_revisions(connection, [row.uid for row in rows])
    formers = _fetch_formers(connection, {row.follows for row in rows} - {None})
    return (
        {
            **_describe_row(row, documents[row.uid], count, formers.get(row.follows)),
            "document_revision": revisions.get(row.uid, 1),
        }
        for row in rows
    )


def _fetch_formers(
    connection: sa.Connection, uids: Collection[str]
) -> dict[str, tuple[str, bool]]:
    """Return what the actions *uids* are called now, and whether they are deleted."""
    if not uids:
        return {}
    kept = scheduled_actions.c
    query = sa.select(kept.uid, kept.name, kept.deleted_at).where(kept.uid.in_(uids))
    rows = connection.execute(query)
    return {uid: (name, deleted_at is not None) for uid, name, deleted_at in rows}


#: The members of an action that are its columns.
_COLUMNS = (
    *("uid", "app", "name", "revision", "active", "queue", "overlap", "event"),
    *("follows", "follows_on"),
    *("effective_from", "paused_at", "quarantined_at", "quarantine_reason"),
    *("created_at", "updated_at", "deleted_at"),
)


def _describe_row(
    row: sa.Row[Any],
    document: Mapping[str, Any],
    count: int,
    former: tuple[str, bool] | None,
) -> dict[str, Any]:
    delay, at = split_delay(row.delay)
    following = tuple(find_next_due(row, count=count))
    problem = find_problem(row)
    sentence = f"cannot be read: {problem}"
    if problem is None:
        parts = {key: document[key] for key in WHEN_KEYS if key in document}
        if former is not None:
            parts["when"] = {**parts["when"], AFTER_ACTION: former[0]}
        sentence = _tell_when(json.dumps(parts, sort_keys=True))
        if former is not None and former[1]:
            sentence += "; that is deleted, so it never starts"
    return {
        **{name: getattr(row, name) for name in _COLUMNS},
        "state": read_actions.get_action_state(row),
        "delay": delay,
        "at": at,
        "sentence": sentence,
        "next": tuple(each.occurrence for each in following),
        "pause": get_pause(row),
        "problem": problem,
        "following": following,
        "zone": find_zone(row),
        "written": document,
    }


@lru_cache(maxsize=4096)
def _tell_when(text: str) -> str:
    """Say when an action runs; cached, since reading a rule takes most of a list."""
    # Alone it may be due as often as any rule says.
    stub = {"name": "action", "operations": {"run_task": {"name": "task"}}}
    document = {**stub, **json.loads(text)}
    try:
        return describe(ScheduledActionModel.model_validate(document))
    except (ValidationError, MinutehandError):
        # A quarantined action is listed although it cannot be read.
        return "cannot be read"


#: Names that a question lists.
_NAMED = 5


def describe_deletion(connection: sa.Connection, found: Sequence[ShownAction]) -> str:
    """Return what is asked before actions are deleted, without the question mark."""
    uids = [each.uid for each in found]
    left = [
        each
        for each in read_actions.fetch_followers(connection, *uids)
        if each.uid not in uids
    ]
    stops = f", and after which {_name(left)} will never start" if left else ""
    if len(found) == 1:
        return (
            f"Delete {found[0].name!r} of {found[0].app!r}, whose uid"
            f" {found[0].uid!r} can never be used again{stops}"
        )
    return (
        f"Delete {len(found):,} actions ({_name(found)}), whose uids can never be used"
        f" again{stops}"
    )


def _name(found: Sequence[ShownAction] | Sequence[read_actions.FollowingAction]) -> str:
    names = ", ".join(repr(each.name) for each in found[:_NAMED])
    return f"{names}, ..." if len(found) > _NAMED else names
