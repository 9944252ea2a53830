"""Record events of users, and wake the actions that wait for them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from actions.when.event import earliest_occurrence
from models.database.engine import UtcDateTime, json_rows, make_rows_json, read_clock
from models.database.lists import select_given
from models.database.tables import events, scheduled_actions, users
from models.errors import NotFoundError, RuleError
from models.event import EventName
from models.fields.delay import Delay
from models.fields.zone import load_zone
from models.occurrence import str_to_uuid

#: Rows in one statement; well below the parameters that either database accepts.
_CHUNK = 1000

#: The column of ``users`` with the time of the last such event.
USER_COLUMNS = {
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
    """

    app: str
    name: str
    user_id: str
    at: datetime | None = None
    key: str | None = None
    source: str | None = None
    source_id: str | None = None


class EventOutcome(StrEnum):
    """What became of an event that was sent."""

    RECORDED = "recorded"
    # it was recorded before
    KNOWN = "known"
    # the user was seen later than it says
    OUTDATED = "outdated"


def record_events(connection: sa.Connection, new: Sequence[NewEvent]) -> int:
    """
    Record events; ignore known ones, and a ``last_seen`` older than the known one.

    A newer ``last_seen`` replaces the older one, so delays after it begin anew.

    Args:
        new: In any order.

    Returns:
        How many were new.

    Raises:
        NotFoundError: If the small app lacks one of the users; nothing is recorded.
    """
    return count_recorded(record_each(connection, new))


def record_each(
    connection: sa.Connection, new: Sequence[NewEvent]
) -> list[tuple[UUID, EventOutcome]]:
    """
    Record events; return the id of each, and what became of it.

    Users, events and actions are locked in this order, and each kind in its own, so
    that two of these transactions never wait for each other.
    """
    now = read_clock(connection)
    _lock_users(connection, new)
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
    given, inserted = [rows[event_id] for event_id in sorted(rows)], set[UUID]()
    for start in range(0, len(given), _CHUNK):
        found = connection.execute(
            insert(events)
            .values(given[start : start + _CHUNK])
            .on_conflict_do_nothing(index_elements=["id"])
            .returning(events.c.id)
        )
        inserted.update(found.scalars())
    fresh = [row for row in given if row["id"] in inserted]
    stale = _update_users(connection, fresh)
    kept = [row for row in fresh if row["id"] not in stale]
    _wake(connection, kept, now)
    became: dict[object, EventOutcome] = dict.fromkeys(stale, EventOutcome.OUTDATED)
    became |= dict.fromkeys((row["id"] for row in kept), EventOutcome.RECORDED)
    return [(each, became.get(each, EventOutcome.KNOWN)) for each in ids]


def count_recorded(outcomes: Iterable[tuple[UUID, EventOutcome]]) -> int:
    """Return how many events were new; what was sent twice at once is one."""
    return len({id_ for id_, became in outcomes if became is EventOutcome.RECORDED})


def _make_event_id(event: NewEvent, at: datetime) -> UUID:
    """Return the id of an event, made from its source, its key or its instant."""
    if event.source is not None:
        # As JSON, so that no other pair of texts reads the same.
        pair = json.dumps([event.source, event.source_id])
        return str_to_uuid(f"{event.app} | cloudevent | {pair}")
    parts = [event.app, event.name, event.user_id]
    parts += [at.isoformat()] if event.key is None else ["key", event.key]
    return str_to_uuid(" | ".join(parts))


def _lock_users(connection: sa.Connection, new: Sequence[NewEvent]) -> None:
    wanted = {(event.app, event.user_id) for event in new}
    columns = {"app": sa.Text(), "id": sa.Text()}
    rows = [{"app": app, "id": id_} for app, id_ in wanted]
    given = sa.select(json_rows(connection.dialect.name, columns, given=rows))
    found = connection.execute(
        sa.select(users.c.app, users.c.id)
        .where(sa.tuple_(users.c.app, users.c.id).in_(given))
        .order_by(users.c.app, users.c.id)
        .with_for_update(key_share=True)
    )
    if missing := sorted(wanted - {(app, user_id) for app, user_id in found}):
        app = missing[0][0]
        names = ", ".join([repr(id_) for of, id_ in missing if of == app][:5])
        raise NotFoundError(f"small app {app!r} has no user {names}")


def find_missing_users(
    connection: sa.Connection, app: str, ids: Collection[str]
) -> set[str]:
    """Return those of *ids* that are not users of *app*."""
    named = users.c.app == app, users.c.id.in_(select_given(connection, ids, sa.Text()))
    return set(ids) - set(connection.scalars(sa.select(users.c.id).where(*named)))


def _update_users(
    connection: sa.Connection, rows: Sequence[dict[str, Any]]
) -> set[object]:
    """
    Update the columns of users, and delete each ``last_seen`` that is replaced.

    Args:
        connection: In the transaction that inserted *rows*.
        rows: Events that were just inserted.

    Returns:
        The ids of new ``last_seen`` events that were deleted for a newer one.
    """
    latest: dict[str, _Latest] = {}
    for row in rows:
        if row["name"] in USER_COLUMNS:
            of_users = latest.setdefault(row["name"], {})
            key = row["app"], row["user_id"]
            if key not in of_users or of_users[key]["at"] < row["at"]:
                of_users[key] = row
    moved = {name: _move(connection, name, found) for name, found in latest.items()}
    seen = moved.get(EventName.USER_LAST_SEEN, {})
    stale = {row["id"] for row in rows if row["name"] == EventName.USER_LAST_SEEN}
    stale -= {row["id"] for row in seen.values()}
    if stale:
        gone = events.c.id.in_(select_given(connection, stale))
        connection.execute(sa.delete(events).where(gone))
    if seen:
        given = json_rows(connection.dialect.name, _LATEST, "given")
        is_replaced = sa.and_(
            events.c.app == given.c.app,
            events.c.user_id == given.c.user_id,
            events.c.name == EventName.USER_LAST_SEEN,
            events.c.at < given.c.at,
        )
        # Not EXISTS, for which SQLite would walk all events.
        replaced = sa.select(events.c.id).join(given, is_replaced)
        delete = sa.delete(events).where(events.c.id.in_(replaced))
        connection.execute(delete, {"given": _make_json(seen)})
    return stale


#: The latest event of each app and user, and its columns that are looked at.
_Latest = dict[tuple[str, str], dict[str, Any]]
_LATEST: dict[str, sa.types.TypeEngine[Any]] = {
    "app": sa.Text(),
    "user_id": sa.Text(),
    "at": UtcDateTime,
}


def _make_json(latest: _Latest) -> str:
    return make_rows_json([{n: row[n] for n in _LATEST} for row in latest.values()])


def _move(connection: sa.Connection, name: str, latest: _Latest) -> _Latest:
    """Write when it happened to users; return those of *latest* that are newer."""
    given = json_rows(connection.dialect.name, _LATEST, "given")
    column = users.c[USER_COLUMNS[EventName(name)]]
    moved = connection.execute(
        sa.update(users)
        .where(
            users.c.app == given.c.app,
            users.c.id == given.c.user_id,
            sa.or_(column.is_(None), column < given.c.at),
        )
        .values({column: given.c.at})
        .returning(users.c.app, users.c.id),
        {"given": _make_json(latest)},
    )
    return {(app, user_id): latest[app, user_id] for app, user_id in moved}


def _wake(
    connection: sa.Connection, rows: Sequence[dict[str, Any]], now: datetime
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
    connection.execute(
        sa.select(kept.uid)
        .where(
            kept.event.is_not(None),
            kept.deleted_at.is_(None),
            sa.tuple_(kept.app, kept.event).in_(list(first)),
        )
        .order_by(kept.uid)
        .with_for_update(key_share=True)
    )
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
