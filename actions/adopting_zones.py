"""
Adopt a new time zone database: compute anew what it moves; see zone_changes.

The log and the metrics, which only this needs, take a while to import.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Any

import sqlalchemy as sa
import structlog

from actions.due_action import ActionRevision
from actions.due_rows import quarantine, recompute
from actions.zone_changes import (
    fetch_changed,
    fetch_users_of,
    is_ahead,
    read_zone_data,
)
from models.database.engine import db_now, read_clock
from models.database.tables import scheduled_actions, zones
from telemetry import ACTIONS_QUARANTINED, Event

log = structlog.get_logger()

#: The most actions advanced in one statement.
_CHUNK = 1000

_kept = scheduled_actions.c


def adopt_zones(connection: sa.Connection, *, after: datetime) -> dict[str, int]:
    """
    Adopt the time zone database in use: recompute what it moves, and store its rules.

    Actions that become unreadable go into quarantine, long before they are due. A zone
    that is gone is ignored: the next leader, on another host, may have it.

    Args:
        after: Aware UTC; everything due by then is decided already.

    Returns:
        For each zone that has changed, how many actions were recomputed.
    """
    adopted: dict[str, int] = {}
    for name in [name for name, _old in fetch_changed(connection)]:
        rows = fetch_users_of(connection, name)
        for start in range(0, len(rows), _CHUNK):
            _recompute(connection, rows[start : start + _CHUNK], after)
        waiting = _look_again(connection, name, after)
        connection.execute(
            sa.update(zones)
            .where(zones.c.name == name)
            .values(
                data=read_zone_data(name),
                version=version("tzdata"),
                recorded_at=db_now(),
            )
        )
        adopted[name] = len(rows) + waiting
    return adopted


def _recompute(
    connection: sa.Connection, rows: Sequence[sa.Row[Any]], after: datetime
) -> None:
    """Recompute what is due after *after*; put unreadable actions into quarantine."""
    for row, reason in recompute(connection, rows, after=after):
        if not is_ahead(row):
            continue
        bad = ActionRevision(row.uid, row.revision)
        quarantine(connection, bad, reason, now=read_clock(connection))
        log.warning(Event.ACTION_QUARANTINED, action_uid=row.uid, reason=reason)
        ACTIONS_QUARANTINED.inc()


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
