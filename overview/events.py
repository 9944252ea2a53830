"""Events that were received, and what became of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.lookup import fetch_app
from actions.when.event import event_due_at, event_occurrence
from models.database.engine import Identifier, UtcDateTime, read_clock
from models.database.tables import events, operations, scheduled_actions
from models.errors import NotFoundError, RuleError
from models.fields.duration import Duration
from models.fields.zone import load_zone
from models.occurrence import make_operation_id
from models.operation_state import OperationState
from models.paging import Page, Part

#: The most actions of which is told what an event made of them.
MOST_MATCHED = 200


class EventJson(TypedDict):
    """Something that happened to a user, as it was received."""

    id: UUID
    app: str
    name: str
    user: str
    at: datetime
    recorded_at: datetime
    source: str | None
    source_id: str | None


class MatchedActionJson(TypedDict):
    """
    An action that waits for an event, and the occurrence that the event leads to.

    ``planned``: it is still to come. ``recorded``: *operation* is what became of it.
    ``none``: it was due, and there is no operation; ``/why`` of the action tells more.
    """

    action_uid: str
    action_name: str
    outcome: Literal["planned", "recorded", "none"]
    occurrence: datetime
    due_at: datetime
    operation: UUID | None
    state: OperationState | None
    reason: str | None


class DetailedEventJson(EventJson):
    """The same, with the actions that wait for it; *unlisted* are too many to tell."""

    matched: list[MatchedActionJson]
    unlisted: int


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """Something that happened to a user, as it was received; times are aware UTC."""

    id: UUID
    app: str
    name: str
    user_id: str
    at: datetime
    recorded_at: datetime
    source: str | None
    source_id: str | None

    def as_json(self) -> EventJson:
        """Return the documented object; keys are only added."""
        return {
            "id": self.id,
            "app": self.app,
            "name": self.name,
            "user": self.user_id,
            "at": self.at,
            "recorded_at": self.recorded_at,
            "source": self.source,
            "source_id": self.source_id,
        }


@dataclass(frozen=True, slots=True)
class MatchedAction:
    """
    An action that waits for an event.

    Args:
        occurrence: The instant of the event, and the delay of the action.

        due_at: When the run can be sent at the earliest.

        operation_id: What became of the occurrence. None: nothing yet, or ever.
    """

    uid: str
    name: str
    occurrence: datetime
    due_at: datetime
    now: datetime
    operation_id: UUID | None = None
    state: OperationState | None = None
    reason: str | None = None

    def as_json(self) -> MatchedActionJson:
        """Return the documented object; keys are only added."""
        outcome: Literal["planned", "recorded", "none"] = "none"
        if self.operation_id is not None:
            outcome = "recorded"
        elif self.due_at > self.now:
            outcome = "planned"
        return {
            "action_uid": self.uid,
            "action_name": self.name,
            "outcome": outcome,
            "occurrence": self.occurrence,
            "due_at": self.due_at,
            "operation": self.operation_id,
            "state": self.state,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class DetailedEvent:
    """An event, the actions that wait for it now, and how many more do."""

    event: ReceivedEvent
    matched: Sequence[MatchedAction]
    unlisted: int

    def as_json(self) -> DetailedEventJson:
        """Return the documented object; keys are only added."""
        return {
            **self.event.as_json(),
            "matched": [each.as_json() for each in self.matched],
            "unlisted": self.unlisted,
        }


@dataclass(frozen=True, slots=True)
class EventFilter:
    """
    Which events are wanted; all that is given must hold.

    Args:
        name: Such as ``instance.user.created``.

        user_id: Of the user.

        since: Recorded at or after this instant, aware.

        until: Recorded before this instant, aware.
    """

    name: str | None = None
    user_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def fetch_event_part(
    connection: sa.Connection, app: str, wanted: EventFilter, page: Page
) -> Part[ReceivedEvent]:
    """
    Return a part of the events of *app* that are *wanted*, the latest recorded first.

    Raises:
        NotFoundError: No such small app.
    """
    fetch_app(connection, app)
    kept = events.c
    query = sa.select(*_COLUMNS).where(kept.app == app)
    if wanted.name is not None:
        query = query.where(kept.name == wanted.name)
    if wanted.user_id is not None:
        query = query.where(kept.user_id == wanted.user_id)
    if wanted.since is not None:
        query = query.where(kept.recorded_at >= wanted.since)
    if wanted.until is not None:
        query = query.where(kept.recorded_at < wanted.until)
    after = page.read_after(datetime, UUID)
    if after is not None:
        recorded_at, event_id = after
        last = sa.tuple_(
            sa.literal(recorded_at, UtcDateTime), sa.literal(event_id, Identifier)
        )
        query = query.where(sa.tuple_(kept.recorded_at, kept.id) < last)
    rows = connection.execute(
        query.order_by(kept.recorded_at.desc(), kept.id.desc()).limit(page.limit + 1)
    ).all()
    found = [ReceivedEvent(*row) for row in rows[: page.limit]]
    more = len(rows) > page.limit
    return Part(found, (found[-1].recorded_at, found[-1].id) if more else None)


_COLUMNS = tuple(
    events.c[name]
    for name in (
        *("id", "app", "name", "user_id", "at", "recorded_at"),
        *("source", "source_id"),
    )
)


def fetch_detailed_event(
    connection: sa.Connection, app: str, event_id: UUID
) -> DetailedEvent:
    """
    Return an event of *app*, with what it led to.

    Raises:
        NotFoundError: No such small app or event: it was never recorded, was replaced
            by a newer ``last_seen``, or is too old to be kept.
    """
    fetch_app(connection, app)
    row = connection.execute(
        sa.select(*_COLUMNS).where(events.c.app == app, events.c.id == event_id)
    ).one_or_none()
    if row is None:
        msg = f"small app {app!r} has no event {event_id}"
        raise NotFoundError(msg)
    event = ReceivedEvent(*row)
    kept = scheduled_actions.c
    waits = (kept.app == app, kept.event == event.name, kept.deleted_at.is_(None))
    count = connection.execute(
        sa.select(sa.func.count()).select_from(scheduled_actions).where(*waits)
    ).scalar_one()
    query: sa.Select[Any] = (
        sa.select(kept.uid, kept.name, kept.delay, kept.zone)
        .where(*waits)
        .order_by(kept.name, kept.uid)
        .limit(MOST_MATCHED)
    )
    waiting = connection.execute(query).all()
    matched = _match(connection, event, waiting)
    return DetailedEvent(event, matched, count - len(waiting))


def _match(
    connection: sa.Connection, event: ReceivedEvent, waiting: Sequence[sa.Row[Any]]
) -> list[MatchedAction]:
    """Compute the occurrence of each action, and look up its operation by its id."""
    occurrences: dict[str, datetime] = {}
    for row in waiting:
        try:
            delay, zone = Duration.parse(row.delay or "PT0S"), load_zone(row.zone)
        except RuleError:
            continue  # in quarantine, with the reason
        occurrences[row.uid] = event_occurrence(event.at, delay, zone)
    ids = {
        make_operation_id(uid, occurrence, event.user_id): uid
        for uid, occurrence in occurrences.items()
    }
    recorded = {
        ids[found.id]: found
        for found in connection.execute(
            sa.select(operations.c.id, operations.c.state, operations.c.reason).where(
                operations.c.id.in_(ids)
            )
        )
    }
    now = read_clock(connection)
    matched = []
    for row in waiting:
        if row.uid not in occurrences:
            continue
        occurrence = occurrences[row.uid]
        found = recorded.get(row.uid)
        matched.append(
            MatchedAction(
                uid=row.uid,
                name=row.name,
                occurrence=occurrence,
                due_at=event_due_at(occurrence, event.recorded_at),
                now=now,
                operation_id=None if found is None else found.id,
                state=None if found is None else OperationState(found.state),
                reason=None if found is None else found.reason,
            )
        )
    return matched
