"""
What has happened since one looked last, for those who watch.

Somebody who watches must not cost more the more there is to see. One statement, over
partial indexes, reads what is live, what was live before, and what was recorded lately;
what differs from the last look has happened. If that is more than a person could watch,
only counts are told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from actions.lease import LEASE_NAME
from models.database.engine import (
    Identifier,
    db_now,
    json_rows,
    make_rows_json,
    reading,
)
from models.database.tables import LIVE, leases, operations
from models.operation_state import FINAL_STATES

#: The most operations of each part that are looked at one by one.
MOST = 1000

#: A transaction that records operations may commit so much later than it began; such
#: operations are looked for by when they were recorded, so this is looked back.
_COMMITS_WITHIN = timedelta(seconds=30)


class LiveEventKind(StrEnum):
    """What is told to those who watch."""

    #: An operation was recorded, or its state or attempt is another.
    STATE = "operation.state"
    #: A running operation got further.
    PROGRESS = "operation.progress"
    #: Too many operations changed to tell of each; the counts of an app.
    CHANGED = "operations.changed"
    #: A tick was done.
    TICK = "tick"
    #: Another scheduler leads, or none does.
    LEADER = "leader"


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """
    Something that happened.

    Args:
        app: Uid of the small app that may know of it. None: all may.
        data: The documented object; keys are only added.
    """

    kind: LiveEventKind
    app: str | None
    data: Mapping[str, Any]


#: What is compared of an operation: state, attempt, progress.
_Seen = tuple[str, int, Any]


@dataclass(frozen=True, slots=True)
class Sight:
    """
    What was seen at a look, to compare the next one with.

    Args:
        live: The operations that were live.
        recent: Those that were recorded lately and are final.
        counts: The live operations by app and state. None: each was looked at.
        ticked_at: The last tick, aware UTC. None: there was none.
        fence: Of who leads. None: nobody leads.
    """

    live: Mapping[UUID, _Seen] = field(default_factory=dict)
    recent: Mapping[UUID, _Seen] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] | None = None
    ticked_at: datetime | None = None
    fence: int | None = None


def look(engine: sa.Engine, before: Sight | None) -> tuple[list[LiveEvent], Sight]:
    """Do as ``fetch_live_events`` does, on a connection of *engine* for the moment."""
    with reading(engine) as connection:
        return fetch_live_events(connection, before)


def fetch_live_events(
    connection: sa.Connection, before: Sight | None, *, most: int = MOST
) -> tuple[list[LiveEvent], Sight]:
    """
    Return what has happened since *before*, and what there is to see now.

    Args:
        before: What was seen at the look before. None: nothing was, so nothing has
            happened.
        most: The most operations of each part that are looked at one by one.
    """
    known = [] if before is None else [{"id": id_} for id_ in before.live]
    rows = connection.execute(
        _make_statement(connection.dialect.name),
        {"known": make_rows_json(known), "most": most + 1},
    ).all()
    parts: dict[str, dict[UUID, sa.Row[Any]]] = defaultdict(dict)
    for row in rows:
        if row.part is not None:
            parts[row.part][row.id] = row
    lease = rows[0]
    fence = lease.fence if lease.leads else None
    now = Sight(ticked_at=lease.last_tick_at, fence=fence)
    if max(len(parts["live"]), len(parts["recent"])) > most:
        now = replace(now, counts=_count_live(connection))
    else:
        live, recent = _see(parts["live"]), _see(parts["recent"])
        now = replace(now, live=live, recent=recent)
    if before is None:
        return [], now
    found = [
        *_compare_scheduler(before, now),
        *_compare_counts(before, now),
        *_compare_operations(before, now, parts),
    ]
    return found, now


def _compare_scheduler(before: Sight, now: Sight) -> Iterator[LiveEvent]:
    if now.fence != before.fence:
        data = {"is_led": now.fence is not None, "fence": now.fence}
        yield LiveEvent(LiveEventKind.LEADER, None, data)
    if now.ticked_at != before.ticked_at:
        yield LiveEvent(LiveEventKind.TICK, None, {"at": now.ticked_at})


def _compare_counts(before: Sight, now: Sight) -> Iterator[LiveEvent]:
    """Tell the counts of each app in which they changed, while there are too many."""
    if now.counts is None and before.counts is None:
        return
    former, counts = before.counts or {}, now.counts or {}
    for app in sorted(former.keys() | counts.keys()):
        if former.get(app) != counts.get(app):
            data = {"app": app, "live": dict(counts.get(app, {}))}
            yield LiveEvent(LiveEventKind.CHANGED, app, data)


def _compare_operations(
    before: Sight, now: Sight, parts: Mapping[str, Mapping[UUID, sa.Row[Any]]]
) -> Iterator[LiveEvent]:
    if now.counts is not None:
        return
    rows = {**parts["recent"], **parts["left"], **parts["live"]}
    for id_, row in rows.items():
        seen = _look(row)
        former = before.live.get(id_) or before.recent.get(id_)
        if former is None or former[:2] != seen[:2]:
            yield _tell(LiveEventKind.STATE, row)
        elif former[2] != seen[2] and id_ in parts["live"]:
            yield _tell(LiveEventKind.PROGRESS, row)


def _see(rows: Mapping[UUID, sa.Row[Any]]) -> dict[UUID, _Seen]:
    return {id_: _look(row) for id_, row in rows.items()}


def _look(row: sa.Row[Any]) -> _Seen:
    return row.state, row.attempt, row.progress


#: What is told of an operation, by the kind of the event.
_TOLD = {
    LiveEventKind.STATE: (
        *("id", "app", "action_uid", "state", "reason", "attempt"),
        *("queue", "started_at", "finished_at"),
    ),
    LiveEventKind.PROGRESS: ("id", "app", "action_uid", "attempt", "progress"),
}


def _tell(kind: LiveEventKind, row: sa.Row[Any]) -> LiveEvent:
    data = {name: getattr(row, name) for name in _TOLD[kind]}
    return LiveEvent(kind, row.app, data)


@cache
def _make_statement(dialect: str) -> sa.Select[Any]:
    """
    Return the one statement of a look.

    Each row has the lease, and an operation with the part that it was found in: live,
    left (it was live before), or recent.
    """
    kept = operations.c
    shown = (
        *(kept.id, kept.app, kept.action_uid, kept.state, kept.reason, kept.attempt),
        *(kept.queue, kept.started_at, kept.finished_at, kept.progress),
    )

    def part(name: str, *where: Any) -> sa.Select[Any]:
        query = sa.select(sa.literal(name).label("part"), *shown).where(*where)
        # SQLite takes a limit within a union only in a query of its own.
        return sa.select(query.limit(sa.bindparam("most", type_=sa.Integer)).subquery())

    is_live, is_final = LIVE.of(), kept.state.in_(sorted(FINAL_STATES))
    known = json_rows(dialect, {"id": Identifier}, name="known")
    found = sa.union_all(
        part("live", is_live),
        part("left", kept.id.in_(sa.select(known.c.id)), is_final),
        part("recent", kept.recorded_at >= db_now(-_COMMITS_WITHIN), is_final),
    ).subquery("found")
    once = sa.select(sa.literal(1).label("once")).subquery("once")
    leads = sa.and_(leases.c.holder.is_not(None), leases.c.expires_at > db_now())
    return sa.select(
        leads.label("leads"), leases.c.fence, leases.c.last_tick_at, *found.c
    ).select_from(
        once.outerjoin(leases, leases.c.name == LEASE_NAME).outerjoin(found, sa.true())
    )


def _count_live(connection: sa.Connection) -> dict[str, dict[str, int]]:
    kept = operations.c
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for app, state, count in connection.execute(
        sa.select(kept.app, kept.state, sa.func.count())
        .where(LIVE.of())
        .group_by(kept.app, kept.state)
    ):
        counts[app][state] = count
    return dict(counts)
