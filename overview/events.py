"""Events that were received, and what became of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.lease import get_last_tick_at
from actions.lookup import fetch_app
from actions.receive_events import refuse_event
from actions.when.event import event_due_at, event_occurrence
from models.database.engine import read_clock
from models.database.lists import fetch_latest
from models.database.tables import events, operations, scheduled_actions
from models.errors import RuleError
from models.event import find_replayed
from models.fields.delay import Delay
from models.fields.instants import format_instant
from models.fields.zone import load_zone
from models.json_form import ASIDE
from models.occurrence import make_operation_id
from models.operation_state import OperationState
from models.paging import Page, Part

#: The most actions of which is told what an event made of them: of one event, and of
#: each in a list.
MOST_MATCHED = 200
MOST_LISTED = 3


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """
    Something that happened to a user, as it was received.

    ``replays`` is the id of the event that this one replays.
    """

    id: UUID
    app: str
    name: str
    user_id: str = field(metadata={"serialization_alias": "user"})
    at: datetime
    recorded_at: datetime
    source: str | None
    source_id: str | None
    replays: UUID | None


@dataclass(frozen=True, slots=True)
class MatchedAction:
    """
    An action that waits for an event, and the occurrence that the event leads to.

    ``planned``: it is still to come. ``recorded``: *operation* is what became of it.
    ``none``: it was due, and there is no operation; ``/why`` of the action tells more.
    ``due_at`` is when the run can be sent at the earliest; ``note`` what of the action,
    as it is now, keeps it from running for this event.
    """

    uid: str = field(metadata={"serialization_alias": "action_uid"})
    name: str = field(metadata={"serialization_alias": "action_name"})
    outcome: Literal["planned", "recorded", "none"]
    occurrence: datetime
    due_at: datetime
    operation_id: UUID | None = field(metadata={"serialization_alias": "operation"})
    state: OperationState | None
    reason: str | None
    note: str | None
    #: In which the action counts.
    zone: ZoneInfo = field(metadata=ASIDE)


@dataclass(frozen=True, slots=True)
class ListedEvent(ReceivedEvent):
    """The same, with the first of the actions that wait for it; there may be more."""

    matched: Sequence[MatchedAction]
    has_more: bool


@dataclass(frozen=True, slots=True)
class DetailedEvent(ReceivedEvent):
    """The same, with the actions that wait for it; *unlisted* are too many to tell."""

    matched: Sequence[MatchedAction]
    unlisted: int


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
    connection: sa.Connection, app: str | None, wanted: EventFilter, page: Page
) -> Part[ListedEvent]:
    """
    Return a part of the events of *app* that are *wanted*, the latest recorded first.

    Args:
        app: Uid of a small app. None: those of all.
        wanted: Which events.
        page: Its position is (recorded_at, id).

    Raises:
        NotFoundError: No such small app.
    """
    kept = events.c
    if app is not None:
        fetch_app(connection, app)
    equal = (kept.app, app), (kept.name, wanted.name), (kept.user_id, wanted.user_id)
    query = sa.select(*_COLUMNS).where(
        *(column == value for column, value in equal if value is not None)
    )
    if wanted.since is not None:
        query = query.where(kept.recorded_at >= wanted.since)
    if wanted.until is not None:
        query = query.where(kept.recorded_at < wanted.until)
    part = fetch_latest(connection, query, page, (kept.recorded_at, kept.id))
    found = [_make_event(row) for row in part.entries]
    return Part(_list(connection, found), part.following)


def _make_event(row: sa.Row[Any]) -> ReceivedEvent:
    return ReceivedEvent(**row._asdict(), replays=find_replayed(row.source))


def _list(
    connection: sa.Connection, found: Sequence[ReceivedEvent]
) -> list[ListedEvent]:
    """Add the first actions that wait for each event, for all of them at once."""
    names = {(each.app, each.name) for each in found}
    waiting: defaultdict[tuple[str, str], list[sa.Row[Any]]] = defaultdict(list)
    if names:
        firsts = [
            sa.select(
                _waiting(app, name)
                .order_by(_action.name, _action.uid)
                .limit(MOST_LISTED + 1)
                .subquery()
            )
            for app, name in sorted(names)
        ]
        for row in connection.execute(sa.union_all(*firsts)):
            waiting[row.app, row.event].append(row)
    shown = [
        (event, row)
        for event in found
        for row in waiting[event.app, event.name][:MOST_LISTED]
    ]
    matched: defaultdict[UUID, list[MatchedAction]] = defaultdict(list)
    for event, match in _match(connection, shown):
        matched[event.id].append(match)
    return [
        ListedEvent(
            **asdict(each),
            matched=matched[each.id],
            has_more=len(waiting[each.app, each.name]) > MOST_LISTED,
        )
        for each in found
    ]


_action = scheduled_actions.c

#: What has to be known of an action to tell what an event makes of it.
_RULE = tuple(
    _action[name]
    for name in (
        *("uid", "name", "app", "event", "delay", "zone", "active", "effective_from"),
        *("starts_at", "ends_at", "paused_at", "quarantined_at", "quarantine_reason"),
    )
)


def _waiting(app: str, name: str) -> sa.Select[Any]:
    """Return the query for the actions of *app* that wait for the event *name*."""
    return sa.select(*_RULE).where(
        _action.app == app, _action.event == name, _action.deleted_at.is_(None)
    )


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
        refuse_event(app, event_id)
    event = _make_event(row)
    query = _waiting(app, event.name)
    counted = sa.select(sa.func.count()).select_from(query.subquery())
    count = connection.execute(counted).scalar_one()
    first = query.order_by(_action.name, _action.uid).limit(MOST_MATCHED)
    waiting = connection.execute(first).all()
    matched = _match(connection, [(event, each) for each in waiting])
    return DetailedEvent(
        **asdict(event),
        matched=[each for _, each in matched],
        unlisted=count - len(waiting),
    )


def _match(
    connection: sa.Connection, pairs: Sequence[tuple[ReceivedEvent, sa.Row[Any]]]
) -> list[tuple[ReceivedEvent, MatchedAction]]:
    """Compute each occurrence, and look up the operations by their ids, all at once."""
    if not pairs:
        return []
    ids: list[tuple[ReceivedEvent, sa.Row[Any], ZoneInfo, datetime, UUID]] = []
    for event, row in pairs:
        try:
            delay, zone = Delay.parse(row.delay), load_zone(row.zone)
        except RuleError:
            continue  # in quarantine, with the reason
        occurrence = event_occurrence(event.at, delay, zone)
        operation_id = make_operation_id(row.uid, occurrence, event.user_id)
        ids.append((event, row, zone, occurrence, operation_id))
    kept = operations.c
    among = kept.id.in_([each[-1] for each in ids])
    rows = connection.execute(sa.select(kept.id, kept.state, kept.reason).where(among))
    recorded = {
        id_: (id_, OperationState(state), reason) for id_, state, reason in rows
    }
    now = read_clock(connection)
    decided_until = get_last_tick_at(connection) or now
    matched = []
    for event, row, zone, occurrence, operation_id in ids:
        found = recorded.get(operation_id)
        due_at = event_due_at(occurrence, event.recorded_at)
        note = None if found is not None else _find_obstacle(row, occurrence, due_at)
        if found is None and note is None and decided_until < due_at <= now:
            note = "The next tick decides it."
        outcome: Literal["planned", "recorded", "none"] = "recorded"
        if found is None:
            outcome = "planned" if due_at > decided_until else "none"
        what = row.uid, row.name, outcome, occurrence, due_at
        run_id, state, reason = found or (None, None, None)
        match = MatchedAction(*what, run_id, state, reason, note, zone)
        matched.append((event, match))
    return matched


def _find_obstacle(
    row: sa.Row[Any], occurrence: datetime, due_at: datetime
) -> str | None:
    """Return what of an action keeps it from running at *occurrence*, if anything."""
    if row.quarantined_at is not None:
        return f"The action is in quarantine: {row.quarantine_reason}"
    if not row.active:
        return "The action is not active."
    if due_at < row.effective_from:
        since = format_instant(row.effective_from)
        return f"The action runs nothing from before {since}, when it was made so."
    if row.starts_at is not None and occurrence < row.starts_at:
        return f"The action only starts at {format_instant(row.starts_at)}."
    if row.ends_at is not None and occurrence >= row.ends_at:
        return f"The action ended at {format_instant(row.ends_at)}."
    return None if row.paused_at is None else "The action is paused."
