"""
Adopt a new time zone database: compute anew what it moves; see zone_changes.

The log and the metrics, which only this needs, take a while to import.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
import structlog

from actions.due_action import ActionRevision
from actions.due_rows import advance, quarantine
from actions.occurrences import next_due
from actions.zone_changes import (
    MOVED,
    fetch_changed,
    fetch_names_read_otherwise,
    fetch_users_of,
    is_ahead,
    parse_or_explain,
)
from actions.zones_in_use import make_version, read_zone_data, remember_zones
from models.database.engine import db_now, read_clock
from models.database.tables import scheduled_actions, zones
from models.decision import Decision
from models.fields.zone import get_zone_names
from telemetry import ACTIONS_QUARANTINED, Event

log = structlog.get_logger()

#: The most actions advanced in one statement.
_CHUNK = 1000

_kept = scheduled_actions.c


def adopt_zones(connection: sa.Connection, *, after: datetime) -> dict[str, int]:
    """
    Adopt the time zone database in use: recompute what it moves, and store its rules.

    The same for a zone whose rules this version reads in another way. Actions that
    become unreadable go into quarantine, long before they are due. A zone that is gone
    is ignored: the next leader, on another host, may have it.

    Args:
        after: Aware UTC; everything due by then is decided already.

    Returns:
        For each zone that has changed, or whose actions it moves, how many actions
        were recomputed.
    """
    adopted: dict[str, int] = {}
    changed = {name for name, _old in fetch_changed(connection)}
    for name in sorted(changed | _fetch_read_otherwise(connection)):
        rows = fetch_users_of(connection, name)
        if name not in changed:
            rows = [row for row in rows if MOVED.search(row.timing)]
        for start in range(0, len(rows), _CHUNK):
            _recompute(connection, rows[start : start + _CHUNK], after)
        waiting = _look_again(connection, name, after)
        connection.execute(
            sa.update(zones)
            .where(zones.c.name == name)
            .values(
                data=read_zone_data(name),
                version=make_version(),
                recorded_at=db_now(),
            )
        )
        adopted[name] = len(rows) + waiting
    return {name: n for name, n in adopted.items() if n or name in changed}


def _recompute(
    connection: sa.Connection, rows: Sequence[sa.Row[Any]], after: datetime
) -> None:
    """Recompute what is due after *after*; put unreadable actions into quarantine."""
    decisions = []
    for row in rows:
        schedule = parse_or_explain(row.timing)
        if isinstance(schedule, str):
            if is_ahead(row):
                bad = ActionRevision(row.uid, row.revision)
                quarantine(connection, bad, schedule, now=read_clock(connection))
                log.warning(
                    Event.ACTION_QUARANTINED, action_uid=row.uid, reason=schedule
                )
                ACTIONS_QUARANTINED.inc()
            continue
        due = next_due(
            schedule, row.uid, after=after, effective_from=row.effective_from
        )
        next_due_at = None if due is None else due.due_at
        decisions.append(Decision(row.uid, row.revision, next_due_at))
    if decisions:
        advance(connection, decisions)


def _look_again(connection: sa.Connection, name: str, after: datetime) -> int:
    """Let the next tick look at the events that actions in a zone wait for; count."""
    waiting = (_kept.event.is_not(None), _kept.zone == name, _kept.deleted_at.is_(None))
    # What was due by then is decided; the tick finds anew when the next one is.
    soon = after + timedelta.resolution
    done = connection.execute(
        sa.update(scheduled_actions)
        .where(*waiting, _kept.next_due_at > soon)
        .values(next_due_at=soon)
    )
    return done.rowcount


def _fetch_read_otherwise(connection: sa.Connection) -> set[str]:
    """Return the zones that another version of the programs has read last."""
    # Versions before the second reading did not remember the zones of events.
    waiting = (
        sa.select(_kept.zone)
        .distinct()
        .where(
            _kept.event.is_not(None),
            _kept.deleted_at.is_(None),
            _kept.zone.not_in(sa.select(zones.c.name)),
        )
    )
    forgotten = set(connection.execute(waiting).scalars()) & get_zone_names()
    remember_zones(connection, forgotten, made_by="unknown")
    return fetch_names_read_otherwise(connection)
