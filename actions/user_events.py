"""Record events of users, and wake the actions that wait for them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from actions.when.event import earliest_occurrence
from models.database.engine import UtcDateTime, read_clock
from models.database.tables import events, scheduled_actions, users
from models.errors import NotFoundError, RuleError
from models.event import EventName
from models.fields.delay import Delay
from models.fields.zone import load_zone
from models.occurrence import str_to_uuid

#: Rows in one statement; well below the parameters that either database accepts.
_CHUNK = 1000

#: The column of ``users`` with the time of the last such event.
_USER_COLUMNS = {
    EventName.USER_CREATED: "created_at",
    EventName.USER_ACTIVATED: "activated_at",
    EventName.USER_LAST_SEEN: "last_seen_at",
}


@dataclass(frozen=True, slots=True)
class NewEvent:
    """
    Something that happened to a user of a small app.

    Args:
        name: An EventName, or ``app.`` plus a name of the app's own.

        at: Aware UTC. None: now, by the database's clock.

        key: Idempotency key: the same app, name, user and key are the same event,
            whatever its instant. None: the instant takes the place of the key.

        source: What *source_id* is unique in, such as the address of a program: the
            same app, source and id are the same event, whatever else it says. None: it
            has neither.

        source_id: See *source*.
    """

    app: str
    name: str
    user_id: str
    at: datetime | None = None
    key: str | None = None
    source: str | None = None
    source_id: str | None = None


class Outcome(StrEnum):
    """What became of an event that was sent."""

    RECORDED = "recorded"
    # it was recorded before
    KNOWN = "known"
    # the user was seen later than it says
    OUTDATED = "outdated"


def record_events(
    connection: sa.Connection, new: Sequence[NewEvent], *, correct: bool = False
) -> int:
    """
    Record events; ignore known ones, and a ``last_seen`` older than the known one.

    A newer ``last_seen`` replaces the older one, so delays after it begin anew.

    Args:
        connection: In a transaction of its own.

        new: In any order.

        correct: Whether a ``last_seen`` also replaces a newer one, which was wrong.

    Returns:
        How many were new.

    Raises:
        NotFoundError: If the small app lacks one of the users; nothing is recorded.
    """
    outcomes = record_each(connection, new, correct=correct)
    return len(
        {event_id for event_id, became in outcomes if became is Outcome.RECORDED}
    )


def record_each(
    connection: sa.Connection, new: Sequence[NewEvent], *, correct: bool
) -> list[tuple[UUID, Outcome]]:
    """Record events; return the id of each, and what became of it."""
    now = read_clock(connection)
    _check_users(connection, new)
    rows = {}
    ids = []
    for event in new:
        at = now if event.at is None else event.at.astimezone(UTC)
        event_id = _make_event_id(event, at)
        ids.append(event_id)
        rows[event_id] = {
            "id": event_id,
            "app": event.app,
            "name": event.name,
            "user_id": event.user_id,
            "at": at,
            "recorded_at": now,
            "source": event.source,
            "source_id": event.source_id,
        }
    given, inserted = list(rows.values()), set[UUID]()
    if correct:
        _forget_seen(connection, given)
    for start in range(0, len(given), _CHUNK):
        found = connection.execute(
            insert(events)
            .values(given[start : start + _CHUNK])
            .on_conflict_do_nothing(index_elements=["id"])
            .returning(events.c.id)
        )
        inserted.update(found.scalars())
    fresh = [row for event_id, row in rows.items() if event_id in inserted]
    stale = _update_users(connection, fresh)
    kept = [row for row in fresh if row["id"] not in stale]
    _wake(connection, kept, now)
    recorded = {row["id"] for row in kept}
    return [(each, _tell_outcome(each, recorded, stale)) for each in ids]


def _tell_outcome(
    event_id: UUID, recorded: Collection[object], stale: Collection[object]
) -> Outcome:
    if event_id in recorded:
        return Outcome.RECORDED
    return Outcome.OUTDATED if event_id in stale else Outcome.KNOWN


def _make_event_id(event: NewEvent, at: datetime) -> UUID:
    """Return the id of an event, made from its source, its key or its instant."""
    if event.source is not None:
        # As JSON, so that no other pair of texts reads the same.
        pair = json.dumps([event.source, event.source_id])
        return str_to_uuid(f"{event.app} | cloudevent | {pair}")
    parts = [event.app, event.name, event.user_id]
    parts += [at.isoformat()] if event.key is None else ["key", event.key]
    return str_to_uuid(" | ".join(parts))


def _check_users(connection: sa.Connection, new: Sequence[NewEvent]) -> None:
    wanted: dict[str, set[str]] = defaultdict(set)
    for event in new:
        wanted[event.app].add(event.user_id)
    for app, ids in wanted.items():
        missing = find_missing_users(connection, app, ids)
        if missing:
            names = ", ".join(repr(each) for each in sorted(missing)[:5])
            msg = f"small app {app!r} has no user {names}"
            raise NotFoundError(msg)


def find_missing_users(
    connection: sa.Connection, app: str, ids: Collection[str]
) -> set[str]:
    """Return those of *ids* that are not users of *app*."""
    asked = sorted(ids)
    missing = set(asked)
    for start in range(0, len(asked), _CHUNK):
        some = asked[start : start + _CHUNK]
        found = connection.execute(
            sa.select(users.c.id).where(users.c.app == app, users.c.id.in_(some))
        ).scalars()
        missing.difference_update(found)
    return missing


def _forget_seen(connection: sa.Connection, rows: Sequence[dict[str, object]]) -> None:
    """Forget when users were last seen, except for what *rows* say."""
    for row in rows:
        if row["name"] != EventName.USER_LAST_SEEN:
            continue
        connection.execute(
            sa.delete(events).where(
                events.c.app == row["app"],
                events.c.user_id == row["user_id"],
                events.c.name == row["name"],
                sa.or_(events.c.id != row["id"], events.c.at != row["at"]),
            )
        )
        connection.execute(
            sa.update(users)
            .where(
                users.c.app == row["app"],
                users.c.id == row["user_id"],
                users.c.last_seen_at != row["at"],
            )
            .values(last_seen_at=None)
        )


def _update_users(
    connection: sa.Connection, rows: Sequence[dict[str, object]]
) -> set[object]:
    """
    Update the columns of users, and delete each ``last_seen`` that is replaced.

    Args:
        connection: In the transaction that inserted *rows*.

        rows: Events that were just inserted.

    Returns:
        The ids of new ``last_seen`` events that were deleted for a newer one.
    """
    stale: set[object] = set()
    # The newest first, so that older events of the same batch are found to be stale.
    for row in sorted(rows, key=lambda each: str(each["at"]), reverse=True):
        column = _USER_COLUMNS.get(row["name"])  # type: ignore[call-overload]  # any name may be asked
        if column is None:
            continue
        moved = connection.execute(
            sa.update(users)
            .where(
                users.c.app == row["app"],
                users.c.id == row["user_id"],
                sa.or_(users.c[column].is_(None), users.c[column] < row["at"]),
            )
            .values({column: row["at"]})
        )
        if row["name"] != EventName.USER_LAST_SEEN:
            continue
        if moved.rowcount == 0:
            stale.add(row["id"])
            connection.execute(sa.delete(events).where(events.c.id == row["id"]))
        else:
            connection.execute(
                sa.delete(events).where(
                    events.c.app == row["app"],
                    events.c.user_id == row["user_id"],
                    events.c.name == row["name"],
                    events.c.at < row["at"],
                )
            )
    return stale


def _wake(
    connection: sa.Connection, rows: Sequence[dict[str, object]], now: datetime
) -> None:
    """
    Lower ``next_due_at`` of the waiting actions to when the first may be due.

    All of them count as woken, even those that are due anyway: a tick that is deciding
    one of them at this moment has not seen these events.
    """
    first: dict[tuple[object, object], datetime] = {}
    for row in rows:
        key, at = (row["app"], row["name"]), row["at"]
        assert isinstance(at, datetime)  # as record_events made it
        first[key] = min(at, first.get(key, at))
    kept = scheduled_actions.c
    for (app, name), at in first.items():
        waits = (kept.app == app, kept.event == name, kept.deleted_at.is_(None))
        delays = connection.execute(
            sa.select(kept.delay, kept.zone).where(*waits).distinct()
        )
        for delay, zone in delays.all():
            bound = max(_find_earliest(at, delay, zone), now)
            same = kept.delay.is_(None) if delay is None else kept.delay == delay
            connection.execute(
                sa.update(scheduled_actions)
                .where(*waits, same, kept.zone == zone)
                .values(
                    next_due_at=_lower(kept.next_due_at, bound),
                    woken_for=_lower(kept.woken_for, bound),
                    wakes=kept.wakes + 1,
                )
            )


def _find_earliest(at: datetime, delay: str | None, zone: str) -> datetime:
    """Return when events from *at* on are due at the earliest; *at* if unreadable."""
    try:
        return earliest_occurrence(at, Delay.parse(delay), load_zone(zone))
    except RuleError:
        return at  # the tick will quarantine the action, with the reason


def _lower(
    column: sa.ColumnElement[datetime], bound: datetime
) -> sa.ColumnElement[datetime]:
    value = sa.literal(bound, UtcDateTime)
    return sa.case((column <= value, column), else_=value)
