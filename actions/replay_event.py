"""
Replay an event: record a new one that says what it replays.

To record the same event again changes nothing: its instant is what identifies the runs
it led to. So a replay is an event of its own, that happens now. It has an id of its
own, and so has each run it leads to: what the first one led to stays what it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn
from uuid import UUID

import sqlalchemy as sa

from actions.lookup import fetch_app
from actions.user_events import EventOutcome, NewEvent, record_each
from models.database.journal import note_change
from models.database.tables import events
from models.errors import ConflictError, NotFoundError
from models.event import APP_EVENT_PREFIX, REPLAY_SOURCE


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
    ((new_id, outcome),) = record_each(connection, [new], correct=False)
    if outcome is EventOutcome.RECORDED:
        note_change(
            connection,
            "event",
            str(event_id),
            "replayed",
            app=app,
            after={"event": str(new_id), "name": row.name, "user": row.user_id},
        )
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
    msg = f"small app {app!r} has no event {event_id}"
    raise NotFoundError(msg)
