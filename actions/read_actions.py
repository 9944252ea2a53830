"""
Read which scheduled actions there are, for people and programs.

Nothing here writes, and the tick uses nothing of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from pydantic import JsonValue

from actions.lookup import get_action
from models.database.engine import json_rows, make_rows_json
from models.database.lists import belongs_to, cut_part, select_given
from models.database.tables import (
    operations,
    scheduled_action_revisions,
    scheduled_actions,
)
from models.door.differences import ValueDifference, find_differences
from models.errors import NotFoundError
from models.json_form import ASIDE
from models.operation_state import OperationState
from models.paging import Page, Part
from models.revision import ActionState

#: How many of an action's latest operations are searched for its last success.
LOOKED_BACK = 1000

_action = scheduled_actions.c

#: What lists show of an action; its document may be long.
WITHOUT_DOCUMENT = tuple(each for each in _action if each.name != "document")


def is_one_of(
    connection: sa.Connection, uids: Collection[str]
) -> sa.ColumnElement[bool]:
    """Match the actions with these uids."""
    return _action.uid.in_(select_given(connection, sorted(uids), sa.Text()))


def fetch_actions(
    connection: sa.Connection, *, app: str | None, deleted: bool = False
) -> list[sa.Row[Any]]:
    """Return the actions of *app* (None: of all apps), the next due first."""
    query = sa.select(scheduled_actions).where(*belongs_to(app, _action.app))
    if not deleted:
        query = query.where(_action.deleted_at.is_(None))
    order = _action.next_due_at.nulls_last(), _action.app, _action.name
    return list(connection.execute(query.order_by(*order)))


def fetch_rows(
    connection: sa.Connection, uids: Sequence[str]
) -> dict[str, sa.Row[Any]]:
    """Return the rows of *uids*, by uid, without their documents."""
    query = sa.select(*WITHOUT_DOCUMENT).where(is_one_of(connection, uids))
    rows = connection.execute(query)
    return {row.uid: row for row in rows}


def fetch_names(
    connection: sa.Connection, app: str, *, but: str | None = None, limit: int
) -> list[str]:
    """Return what the actions of *app* are called, *but* one of them, in order."""
    query = (
        sa.select(_action.name)
        .where(_action.app == app, _action.deleted_at.is_(None))
        .order_by(_action.name)
        .limit(limit)
    )
    if but is not None:
        query = query.where(_action.uid != but)
    return list(connection.execute(query).scalars())


@dataclass(frozen=True, slots=True)
class FollowingAction:
    """An action that starts after another, how that has to end, and how much later."""

    uid: str
    name: str
    on: str
    delay: str


def fetch_followers(
    connection: sa.Connection, *uids: str
) -> tuple[FollowingAction, ...]:
    """Return what starts after one of the actions *uids*, by name."""
    rows = connection.execute(
        sa.select(_action.uid, _action.name, _action.follows_on, _action.delay)
        .where(_action.follows.in_(uids), _action.deleted_at.is_(None))
        .order_by(_action.name)
    )
    return tuple(FollowingAction(*row) for row in rows)


def fetch_left_behind(
    connection: sa.Connection, *, app: str | None, limit: int
) -> list[tuple[str, str, str]]:
    """Return app and name of what starts after a deleted action, and its name."""
    former = scheduled_actions.alias("former")
    rows = connection.execute(
        sa.select(_action.app, _action.name, former.c.name)
        .join(former, former.c.uid == _action.follows)
        .where(_action.follows.is_not(None), former.c.deleted_at.is_not(None))
        .where(_action.deleted_at.is_(None), _action.active)
        .where(*belongs_to(app, _action.app))
        .order_by(_action.app, _action.name)
        .limit(limit)
    )
    return [(of, name, deleted) for of, name, deleted in rows]


@dataclass(frozen=True, slots=True)
class LastRun:
    """The latest operation of an action, and when one last succeeded; aware UTC."""

    operation: UUID
    state: OperationState
    reason: str | None
    occurrence: datetime | None
    finished_at: datetime | None
    succeeded_at: datetime | None = field(metadata=ASIDE)


def fetch_last_runs(
    connection: sa.Connection, uids: Collection[str]
) -> dict[str, LastRun]:
    """Return the latest operation of each of *uids* that has one, in one query."""
    given = json_rows(connection.dialect.name, {"uid": sa.Text()}, "given")
    latest = (
        sa.select(operations.c.id)
        .where(operations.c.action_uid == given.c.uid)
        .order_by(operations.c.occurrence.desc())
    )
    # Bounded: an action that has failed each minute for a year has half a million rows.
    recent = (
        sa.select(operations.c.state, operations.c.finished_at, operations.c.occurrence)
        .where(operations.c.action_uid == given.c.uid)
        .order_by(operations.c.occurrence.desc())
        .limit(LOOKED_BACK)
        .correlate(given)
        .subquery()
    )
    succeeded = (
        sa.select(recent.c.finished_at)
        .where(recent.c.state == OperationState.SUCCEEDED)
        .order_by(recent.c.occurrence.desc())
        .limit(1)
    )
    asked = sa.select(
        given.c.uid,
        latest.limit(1).scalar_subquery().label("latest_id"),
        succeeded.scalar_subquery().label("succeeded_at"),
    ).subquery()
    kept = operations.c
    rows = connection.execute(
        sa.select(
            *(asked.c.uid, kept.id, kept.state, kept.reason),
            *(kept.occurrence, kept.finished_at, asked.c.succeeded_at),
        ).join_from(asked, operations, kept.id == asked.c.latest_id),
        {"given": make_rows_json([{"uid": uid} for uid in uids])},
    )
    return {
        uid: LastRun(operation, OperationState(state), *rest)
        for uid, operation, state, *rest in rows
    }


@dataclass(frozen=True, slots=True)
class RevisionNote:
    """What was changed of an action, when (aware UTC), by whom, and what they said."""

    revision: int
    change: str
    recorded_at: datetime
    changed_by: str | None
    note: str | None


def fetch_revisions(
    connection: sa.Connection, uid: str, *, limit: int, before: int | None = None
) -> list[RevisionNote]:
    """Return the latest *limit* revisions of an action, before *before* if given."""
    kept = scheduled_action_revisions.c
    query = (
        sa.select(*(kept[each.name] for each in fields(RevisionNote)))
        .where(kept.uid == uid)
        .order_by(kept.revision.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(kept.revision < before)
    return [RevisionNote(*row) for row in connection.execute(query)]


def get_action_state(row: sa.Row[Any]) -> ActionState:
    """Return why *row* (an action) does not run; ACTIVE if it does."""
    if row.deleted_at is not None:
        return ActionState.DELETED
    if row.quarantined_at is not None:
        return ActionState.QUARANTINED
    if row.paused_at is not None:
        return ActionState.PAUSED
    return ActionState.ACTIVE if row.active else ActionState.INACTIVE


@dataclass(frozen=True, slots=True)
class Quarantined:
    """An action that the tick leaves out: since when (aware UTC), and why."""

    uid: str
    app: str
    name: str
    quarantined_at: datetime
    quarantine_reason: str | None


def fetch_quarantined(
    connection: sa.Connection, *, app: str | None
) -> list[Quarantined]:
    """Return the actions (of *app*) that the tick leaves out as unreadable."""
    rows = connection.execute(
        sa.select(*(_action[each.name] for each in fields(Quarantined)))
        .where(_action.quarantined_at.is_not(None), _action.deleted_at.is_(None))
        .where(*belongs_to(app, _action.app))
        .order_by(_action.quarantined_at)
    )
    return [Quarantined(*row) for row in rows]


def fetch_document(
    connection: sa.Connection, uid: str, revision: int
) -> dict[str, JsonValue]:
    """
    Return the document of one revision of an action, deleted or not.

    Raises:
        NotFoundError: There is no such revision, or it was pruned.
    """
    kept = scheduled_action_revisions.c
    found: dict[str, JsonValue] | None = connection.execute(
        sa.select(kept.document).where(kept.uid == uid, kept.revision == revision)
    ).scalar_one_or_none()
    if found is None:
        raise NotFoundError(
            f"action {uid!r} has no revision {revision}. Old ones are pruned; see its"
            f" revisions (minutehand actions show {uid})"
        )
    return found


@dataclass(frozen=True, slots=True)
class ShownRevision(RevisionNote):
    """A revision with the document that it had; the action is in effect with it."""

    document: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ComparedRevisions:
    """How the document differs between two revisions; not at all before a pause."""

    uid: str
    old: int
    new: int
    differences: tuple[ValueDifference, ...]


def fetch_revision_part(
    connection: sa.Connection, uid: str, page: Page, *, app: str | None = None
) -> Part[RevisionNote]:
    """
    Return a part of the revisions of an action, newest first, without documents.

    Args:
        uid: Of an action, deleted or not.
        page: Its position is the number of the last revision that was shown.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.

    Raises:
        NotFoundError: There has never been such an action.
    """
    get_action(connection, uid, app=app)
    after = page.read_after(int)
    before = None if after is None else after[0]
    found = fetch_revisions(connection, uid, limit=page.limit + 1, before=before)
    return cut_part(found, page, [scheduled_action_revisions.c.revision])


def fetch_shown_revision(
    connection: sa.Connection, uid: str, revision: int, *, app: str | None = None
) -> ShownRevision:
    """
    Return one revision of an action with its document.

    Raises:
        NotFoundError: There is no such action or revision, or it was pruned.
    """
    get_action(connection, uid, app=app)
    document = fetch_document(connection, uid, revision)
    notes = fetch_revisions(connection, uid, limit=1, before=revision + 1)
    return ShownRevision(**asdict(notes[0]), document=document)


def compare_revisions(
    connection: sa.Connection,
    uid: str,
    old: int,
    new: int | None = None,
    *,
    app: str | None = None,
) -> ComparedRevisions:
    """
    Return how the document of revision *new* differs from that of *old*.

    Args:
        uid: Of an action, deleted or not.
        old: A revision.
        new: Another one, later or earlier. None: the latest.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.

    Raises:
        NotFoundError: There is no such action, or one of the revisions is not there.
    """
    row = get_action(connection, uid, app=app)
    new = row.revision if new is None else new
    differences = find_differences(
        fetch_document(connection, uid, old), fetch_document(connection, uid, new)
    )
    return ComparedRevisions(uid, old, new, differences)


@dataclass(frozen=True, slots=True)
class TaskQueue:
    """
    A queue that active actions send tasks to.

    Args:
        connection: Name of its broker. None: our own.
        queue: None: that of the settings, for actions that were stored without one.
        actions: How many actions.
        example: Name of one of them.
        senders: The tasks that are sent there, each with the name of an action.
    """

    connection: str | None
    queue: str | None
    actions: int
    example: str
    senders: Mapping[str, str] = field(default_factory=dict)


def fetch_task_queues(connection: sa.Connection) -> list[TaskQueue]:
    """
    Return each queue that actions send to, now or once a pause above them ends.

    Reads all of them.
    """
    kept = scheduled_actions.c
    task = kept.document["operations"]["run_task"]
    place = task["connection"].as_string(), task["queue"].as_string()
    name = task["name"].as_string()
    rows = connection.execute(
        sa.select(
            *(place[0].label("connection"), place[1].label("queue")),
            *(name.label("name"), sa.func.count().label("actions")),
            sa.func.min(kept.name).label("example"),
        )
        .where(kept.active, kept.deleted_at.is_(None))
        # An app that comes over is paused until then, and must be known before.
        .where(kept.paused_at.is_(None) | kept.pause_scope.is_not(None))
        # which queues an exchange leads to, its broker knows
        .where(name.is_not(None), task["exchange"].as_string().is_(None))
        .group_by(*place, name)
        .order_by(name)
    )
    found: defaultdict[tuple[str, str], list[sa.Row[Any]]] = defaultdict(list)
    for row in rows:
        found[row.connection or "", row.queue or ""].append(row)
    return [_gather(found[place]) for place in sorted(found)]


def _gather(rows: list[sa.Row[Any]]) -> TaskQueue:
    """Return the queue that all *rows* are of, each with another task."""
    return TaskQueue(
        connection=rows[0].connection,
        queue=rows[0].queue,
        actions=sum(row.actions for row in rows),
        example=min(row.example for row in rows),
        senders={row.name: row.example for row in rows},
    )
