"""
Take in events that people and programs send, and replay them.

To record the same event again changes nothing: its instant is what identifies the runs
it led to. So a replay is an event of its own, that happens now. It has an id of its
own, and so has each run it leads to: what the first one led to stays what it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NoReturn
from uuid import UUID

import sqlalchemy as sa

from actions.lookup import fetch_app
from actions.user_events import (
    EventOutcome,
    NewEvent,
    count_recorded,
    find_missing_users,
    record_each,
)
from models.database.engine import read_clock
from models.database.journal import note_change
from models.database.tables import events
from models.errors import ConflictError, InvalidDocumentError, NotFoundError, Problem
from models.event import (
    APP_EVENT_PREFIX,
    REPLAY_SOURCE,
    CloudEventModel,
    UserEventModel,
)
from models.fields.instants import format_instant
from models.fields.strict_model import MOST_PROBLEMS, show

#: How much later than the database's clock an event may be, since clocks differ.
TOLERATED = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An event that was sent: its id, and what became of it."""

    id: UUID
    outcome: EventOutcome


@dataclass(frozen=True, slots=True)
class ReceivedEvents:
    """
    How many events were sent, and how many of them were new.

    ``events`` says what became of each, in the order of sending.
    """

    received: int
    recorded: int
    events: tuple[SentEvent, ...]


def receive_events(
    connection: sa.Connection,
    app: str,
    sent: Sequence[UserEventModel | CloudEventModel],
    *,
    is_list: bool,
    places_users: bool = True,
) -> ReceivedEvents:
    """
    Record what happened to users of *app*: all of it, or none.

    Args:
        sent: As the door read them.
        is_list: Whether pointers begin with the number of the event, from 0.
        places_users: Whether users that the app does not have are told at their places.

    Raises:
        NotFoundError: No such small app; or users that it does not have, unless they
            are told at their places.
        InvalidDocumentError: An event is of a user that the app does not have, or is
            yet to come: when a user was last seen would be wrong until then.
    """
    fetch_app(connection, app)
    new = [_make_new(app, each) for each in sent]
    missing: set[str] = set()
    if places_users:
        missing = find_missing_users(connection, app, {each.user_id for each in new})
    _refuse_odd(app, sent, new, missing, now=read_clock(connection), is_list=is_list)
    outcomes = record_each(connection, new)
    recorded = count_recorded(outcomes)
    if recorded:
        after = {"received": len(new), "recorded": recorded}
        note_change(connection, "event", app, "sent", app=app, after=after)
    events = tuple(SentEvent(*each) for each in outcomes)
    return ReceivedEvents(len(new), recorded, events)


def _refuse_odd(
    app: str,
    sent: Sequence[UserEventModel | CloudEventModel],
    new: Sequence[NewEvent],
    missing: Collection[str],
    *,
    now: datetime,
    is_list: bool,
) -> None:
    problems: list[Problem] = []
    for place, (event, each) in enumerate(zip(sent, new, strict=True)):
        is_cloud = isinstance(event, CloudEventModel)
        where = f"/{place}" if is_list else ""
        if each.user_id in missing:
            message = f"Small app {app!r} has no user {show(each.user_id)}."
            hint = "Add the user first, or send the id of one that it has."
            member = "subject" if is_cloud else "user"
            problems.append(Problem(f"{where}/{member}", message, hint))
        if each.at is not None and each.at > now + TOLERATED:
            message = f"{format_instant(each.at)} is yet to come."
            hint = "Send events that have happened, with the instant at which they did."
            member = "time" if is_cloud else "at"
            problems.append(Problem(f"{where}/{member}", message, hint))
        if len(problems) >= MOST_PROBLEMS:
            break
    if problems:
        raise InvalidDocumentError(tuple(problems))


def _make_new(app: str, sent: UserEventModel | CloudEventModel) -> NewEvent:
    if isinstance(sent, CloudEventModel):
        known = {"source": sent.source, "source_id": sent.id}
        return NewEvent(app, sent.type, sent.subject, sent.time, **known)
    return NewEvent(app, sent.event, sent.user, sent.at, sent.key)


@dataclass(frozen=True, slots=True)
class ReplayedEvent:
    """
    A new event, what became of it, and the event that it replays.

    ``outcome`` is ``known`` if the same replay was asked for before.
    """

    id: UUID
    outcome: EventOutcome
    replays: UUID


def replay_event(
    connection: sa.Connection, app: str, event_id: UUID, *, key: str
) -> ReplayedEvent:
    """
    Record that what an event says happened again, now.

    Two replays of one event within a second lead to the same runs, as any two events of
    a user do: occurrences are whole seconds.

    Args:
        event_id: Of an event of it, which may itself be a replay.
        key: What makes it the same replay when it is asked for again.

    Raises:
        NotFoundError: No such small app or event, or its user is gone.
        ConflictError: The event is not one of the app's own: it says when a user was
            created, activated or last seen, and that it was now would be untrue.
    """
    fetch_app(connection, app)
    kept = events.c
    row = connection.execute(
        sa.select(kept.name, kept.user_id).where(kept.app == app, kept.id == event_id)
    ).one_or_none()
    if row is None:
        refuse_event(app, event_id)
    reason = find_refusal(row.name)
    if reason is not None:
        raise ConflictError(reason)
    source = f"{REPLAY_SOURCE}{event_id}"
    new = NewEvent(app, row.name, row.user_id, source=source, source_id=key)
    ((new_id, outcome),) = record_each(connection, [new])
    if outcome is EventOutcome.RECORDED:
        after = {"event": str(new_id), "name": row.name, "user": row.user_id}
        of = "event", str(event_id), "replayed"
        note_change(connection, *of, app=app, after=after)
    return ReplayedEvent(new_id, outcome, event_id)


def find_refusal(name: str) -> str | None:
    """Return why events called *name* cannot be replayed; None: they can."""
    if name.startswith(APP_EVENT_PREFIX):
        return None
    return (
        f"an event {name} says when something happened to the user, and a replay would"
        " say that it was now. Run the action for the user instead"
    )


def refuse_event(app: str, event_id: UUID) -> NoReturn:
    """
    Say that *app* has no event *event_id*.

    Raises:
        NotFoundError: Always.
    """
    raise NotFoundError(f"small app {app!r} has no event {event_id}")
