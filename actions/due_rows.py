"""
Fetch the actions that are due, and advance them once they are decided.

The cost of a tick depends on what is due, not on how many actions exist: the queries
that look for due actions are served by an index over ``next_due_at``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from actions.decide import ActionRevision, DueAction, EventCandidate
from actions.posting.revisions import SCHEDULER, change_action
from actions.when.event import event_window
from models.database.engine import (
    UtcDateTime,
    db_now,
    json_rows,
    make_rows_json,
    reading,
    stream_kept,
)
from models.database.tables import (
    DUE_ACTIONS,
    events,
    installation,
    scheduled_actions,
    small_apps,
)
from models.database.transaction import AtOnce, Transaction
from models.decision import Decision
from models.fields.delay import Delay
from models.fields.zone import load_zone
from models.operation_state import Overlap, Queue
from models.revision import Change

#: Of how many the turns are found at once: a tick with less due needs one query.
FIRST_TURNS = 2_000

_action = scheduled_actions.c
_IS_DUE = DUE_ACTIONS.of(scheduled_actions.name)


#: What a look between two ticks decides: tasks that need no worker, at their second.
#: They are found by when they are due, so that actions which are due on whole minutes
#: only, at the ticks, cost a look nothing.
_IS_LOOKED_AT = sa.and_(
    _action.next_due_at > sa.bindparam("since", type_=UtcDateTime),
    _action.queue == Queue.TASKS,
    _action.timing.is_not(None),
)


@cache
def _turns_statement(
    *, among: int | None = None, is_look: bool = False
) -> sa.Select[str]:
    # Materialized, or SQLite would scan all actions to have them sorted by app.
    due = (
        sa.select(_action.uid, _action.app, _action.next_due_at)
        .where(
            _IS_DUE,
            _action.next_due_at <= sa.bindparam("now", type_=UtcDateTime),
            *([_IS_LOOKED_AT] if is_look else []),
        )
        .order_by(None if among is None else _action.next_due_at)
        .limit(among)
        .cte("due")
        .prefix_with("MATERIALIZED")
    )
    turn = sa.func.row_number().over(partition_by=due.c.app, order_by=due.c.next_due_at)
    turns = sa.select(due.c.uid, due.c.next_due_at, turn.label("turn")).subquery()
    return sa.select(turns.c.uid).order_by(turns.c.turn, turns.c.next_due_at)


def fetch_first_turns(connection: sa.Connection, *, now: datetime) -> Sequence[str]:
    """
    Return the uids of the FIRST_TURNS actions that have been due for longest.

    They are in turn order, as ``fetch_turns`` says; fewer are all that is due.
    """
    return connection.scalars(_turns_statement(among=FIRST_TURNS), {"now": now}).all()


def fetch_look(
    connection: sa.Connection, *, since: datetime, now: datetime, limit: int
) -> Sequence[str]:
    """
    Return the uids of what a look between two ticks decides, in turn order.

    They are those that have been due for longest.

    Args:
        since: When the last tick was; aware UTC. What it left is for the next one.
        now: Aware UTC.
    """
    statement = _turns_statement(among=limit, is_look=True)
    return connection.scalars(statement, {"since": since, "now": now}).all()


def fetch_next_look(
    connection: sa.Connection, *, since: datetime, until: datetime
) -> datetime | None:
    """
    Return when something is due that a look decides, between *since* and *until*.

    Args:
        since: When the last tick was; aware UTC.
        until: When the next one is; aware UTC.
    """
    return connection.scalar(_NEXT_LOOK, {"since": since, "until": until})


_NEXT_LOOK: sa.Select[datetime | None] = sa.select(
    sa.func.min(_action.next_due_at)
).where(
    *(_IS_DUE, _IS_LOOKED_AT),
    _action.next_due_at < sa.bindparam("until", type_=UtcDateTime),
)


def fetch_turns(connection: sa.Connection, *, now: datetime) -> Sequence[str]:
    """
    Return the uids of all actions that are due by *now*; small apps take turns.

    So an app with 50,000 due actions does not delay another app's ten. Within an app
    the longest due come first.
    """
    return connection.scalars(_turns_statement(), {"now": now}).all()


def stream_turns(engine: sa.Engine, *, now: datetime) -> Generator[str]:
    """
    Yield what ``fetch_turns`` returns.

    Close it if it is not driven to its end: it holds a connection to PostgreSQL.
    """
    if engine.dialect.name == "postgresql":
        # Sorted once, and kept by the server.
        with closing(stream_kept(engine, _turns_statement(), {"now": now})) as rows:
            for (uid,) in rows:
                yield uid
        return
    with reading(engine) as connection:
        uids = fetch_turns(connection, now=now)
    yield from uids


#: Fields of DueAction, in the order of the selected columns.
_DUE_FIELDS = DueAction._fields
_QUEUE_AT, _OVERLAP_AT = map(_DUE_FIELDS.index, ("queue", "overlap"))

#: Enum members by stored value: a look-up costs a tenth of calling the enum.
_QUEUES = {queue.value: queue for queue in Queue}
_OVERLAPS = {overlap.value: overlap for overlap in Overlap}


def _is_paused_above(asked: sa.FromClause) -> sa.ColumnElement[bool]:
    """Match what an app's or everybody's pause holds, though it does not say so yet."""
    apps = sa.select(small_apps.c.uid).where(
        small_apps.c.spread.is_not(None), small_apps.c.spread["holds"].as_boolean()
    )
    whole = sa.exists().where(
        installation.c.spread.is_not(None), installation.c.spread["holds"].as_boolean()
    )
    return asked.c.app.in_(apps) | (whole & (asked.c.queue != Queue.DEFAULT))


@cache
def _due_statement(dialect: str) -> sa.Executable:
    uids = json_rows(dialect, {"uid": sa.Text()}, "uids")
    # Materialized, so that rows are found by their keys. With old statistics PostgreSQL
    # believes that little is due, and would read all due rows again for each chunk.
    asked = (
        sa.select(scheduled_actions)
        .where(_action.uid.in_(sa.select(uids.c.uid)))
        .cte("asked")
        .prefix_with("MATERIALIZED")
    )
    return sa.select(*(asked.c[name] for name in _DUE_FIELDS)).where(
        DUE_ACTIONS.of(asked.name),
        ~_is_paused_above(asked),
        asked.c.next_due_at <= sa.bindparam("now", type_=UtcDateTime),
    )


def fetch_due(
    connection: sa.Connection, uids: Sequence[str], *, now: datetime
) -> list[DueAction]:
    """Return those of *uids* that are still due, in the order of *uids*."""
    rows = connection.execute(
        _due_statement(connection.dialect.name),
        {"uids": make_rows_json([{"uid": uid} for uid in uids]), "now": now},
    )
    found = []
    for row in rows.all():
        # By position, which is fast: this runs for each due action.
        values: list[Any] = list(row)
        values[_QUEUE_AT] = _QUEUES[values[_QUEUE_AT]]
        values[_OVERLAP_AT] = _OVERLAPS[values[_OVERLAP_AT]]
        found.append(DueAction(*values))
    turn = {uid: number for number, uid in enumerate(uids)}
    found.sort(key=lambda action: turn[action.uid])
    return found


@cache
def _advance_statement(dialect: str) -> sa.Executable:
    columns: dict[str, sa.types.TypeEngine[Any]] = {
        "uid": sa.Text(),
        "revision": sa.Integer(),
        "next_due_at": UtcDateTime,
        "wakes": sa.Integer(),
    }
    moved = json_rows(dialect, columns, "moved")
    next_due_at = moved.c.next_due_at
    # Events were recorded after the tick had read the events: look at those next time.
    missed_some = sa.and_(
        _action.wakes != moved.c.wakes,
        sa.or_(next_due_at.is_(None), next_due_at > _action.woken_for),
    )
    return (
        sa.update(scheduled_actions)
        .where(_action.uid == moved.c.uid, _action.revision == moved.c.revision)
        .values(
            next_due_at=sa.case((missed_some, _action.woken_for), else_=next_due_at),
            woken_for=None,
        )
        .returning(_action.uid)
    )


@cache
def _lock_statement(dialect: str) -> sa.Executable:
    uids = json_rows(dialect, {"uid": sa.Text()}, "uids")
    return (
        sa.select(_action.uid)
        .where(_action.uid.in_(sa.select(uids.c.uid)))
        .order_by(_action.uid)
        .with_for_update(key_share=True)
    )


def advance(connection: sa.Connection, decisions: Sequence[Decision]) -> set[str]:
    """
    Set the next due instant of the decided actions, and lock their rows.

    Returns:
        The uids of the actions whose revision is still the one that was read. The
        others have changed, so the decisions about them are void.
    """
    return ask_advance(AtOnce(connection), decisions)()


def ask_advance(
    transaction: Transaction, decisions: Sequence[Decision]
) -> Callable[[], set[str]]:
    """Do as ``advance``; call what it returns when *transaction* was waited for."""
    rows = [
        {
            "uid": d.action_uid,
            "revision": d.revision,
            "next_due_at": d.next_due_at,
            "wakes": d.wakes,
        }
        for d in decisions
    ]
    dialect = transaction.connection.dialect.name
    if woken := [{"uid": d.action_uid} for d in decisions if d.wakes]:
        # In the order of whoever records events, or the two might deadlock.
        transaction.ask(_lock_statement(dialect), {"uids": make_rows_json(woken)})
    statement = _advance_statement(dialect)
    moved = transaction.ask(statement, {"moved": make_rows_json(rows)})
    return lambda: {uid for (uid,) in moved.rows}


def fetch_due_revisions(
    connection: sa.Connection, uids: Sequence[str], *, now: datetime
) -> list[ActionRevision]:
    """Return those of *uids* that are still due, even if they cannot be parsed."""
    found = connection.execute(
        sa.select(_action.uid, _action.revision)
        .where(_action.uid.in_(uids), _IS_DUE, _action.next_due_at <= now)
        .order_by(_action.uid)
    )
    return [ActionRevision(*row) for row in found]


def quarantine(
    connection: sa.Connection, action: ActionRevision, reason: str, *, now: datetime
) -> bool:
    """
    Put an action into quarantine: ticks skip it until its admin posts it again.

    Args:
        action: As it was read.
        reason: For its admin.
        now: Aware UTC.

    Returns:
        False if the action has changed since it was read, or somebody else has locked
        it; nothing is written then.
    """
    locked = connection.execute(
        sa.select(_action.uid)
        .where(_action.uid == action.uid, _action.revision == action.revision)
        .with_for_update(skip_locked=True)
    ).one_or_none()
    if locked is None:
        return False
    why: dict[str, Any] = {"quarantined_at": now, "quarantine_reason": reason}
    change_action(connection, action.uid, Change.QUARANTINED, by=SCHEDULER, **why)
    return True


#: Columns of what one or more actions wait for: which events, between which instants.
_WANTED: dict[str, sa.types.TypeEngine[Any]] = {
    "number": sa.Integer(),
    "app": sa.Text(),
    "event": sa.Text(),
    "at_from": UtcDateTime,
    "at_until": UtcDateTime,
    "recorded_from": UtcDateTime,
}


@cache
def _candidates_statement(dialect: str) -> sa.Executable:
    """Find candidates by two indexes: by the event's instant, and by when recorded."""
    wanted = json_rows(dialect, _WANTED, "wanted")
    asked = (events.c.app == wanted.c.app, events.c.name == wanted.c.event)

    def find(*bounds: sa.ColumnElement[bool]) -> sa.Select[Any]:
        found: Any = events
        joined = sa.and_(*asked, *bounds)
        if dialect == "postgresql":
            # PostgreSQL would scan all events and compare each with every row of
            # "wanted". OFFSET 0 makes it use the index once for each row instead.
            found = sa.select(events).where(joined).offset(0).lateral()
            joined = sa.true()
        return (
            sa.select(wanted.c.number, found.c.user_id, found.c.at, found.c.recorded_at)
            .join_from(wanted, found, joined)
            .where(found.c.at <= wanted.c.at_until)
        )

    recorded_at = events.c.recorded_at
    return find(
        events.c.at >= wanted.c.at_from, events.c.at <= wanted.c.at_until
    ).union(
        # The upper bound excludes nothing, but gives PostgreSQL a better estimate.
        find(recorded_at >= wanted.c.recorded_from, recorded_at <= db_now())
    )


@cache
def _next_event_statement(dialect: str) -> sa.Executable:
    wanted = json_rows(dialect, _WANTED, "wanted")
    asked = events.c.app == wanted.c.app, events.c.name == wanted.c.event
    later = sa.select(sa.func.min(events.c.at)).where(*asked)
    first = later.where(events.c.at > wanted.c.at_until).scalar_subquery()
    return sa.select(wanted.c.number, sa.type_coerce(first, UtcDateTime))


def fetch_events(
    connection: sa.Connection, actions: Sequence[DueAction], *, now: datetime
) -> tuple[Mapping[str, Sequence[EventCandidate]], Mapping[str, datetime | None]]:
    """
    Return the events that may be due for each action, and when the next one comes.

    Args:
        actions: Event-driven ones, each with its own delay.
        now: Aware UTC.

    Returns:
        By uid: the candidates; and the instant of the first event after them (aware
        UTC), None if there is none.
    """
    if not actions:
        return {}, {}
    # Thousands of actions may wait for the same events, which are then read once.
    numbers: dict[tuple[object, ...], int] = {}
    number_of: dict[str, int] = {}
    for action in actions:
        delay, since = Delay.parse(action.delay), action.next_due_at
        window = event_window(delay, load_zone(action.zone), since, now)
        key = (action.app, action.event, *window, since)
        number_of[action.uid] = numbers.setdefault(key, len(numbers))
    rows = [dict(zip(_WANTED, (n, *key), strict=True)) for key, n in numbers.items()]
    wanted = make_rows_json(rows)
    dialect = connection.dialect.name
    candidates: list[list[EventCandidate]] = [[] for _ in numbers]
    found = connection.execute(_candidates_statement(dialect), {"wanted": wanted})
    for number, user_id, at, recorded_at in found.all():
        candidates[number].append(EventCandidate(user_id, at, recorded_at))
    found = connection.execute(_next_event_statement(dialect), {"wanted": wanted})
    following: dict[int, datetime | None] = {row[0]: row[1] for row in found.all()}
    return (
        {uid: candidates[number] for uid, number in number_of.items()},
        {uid: following[number] for uid, number in number_of.items()},
    )
