"""
Write a pause into actions, each of which has a revision of it.

Apart from what a pause is: who pauses a queue, or lists pauses, needs no rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from actions.pausing.pause_state import INSTALLATION, OPERATOR, Pause
from actions.posting.revisions import change_actions
from models.database.engine import read_clock
from models.database.tables import scheduled_actions
from models.revision import Change


def pause_posted(connection: sa.Connection, uids: Sequence[str], pause: Pause) -> None:
    """Pause actions that are posted while their app is paused."""
    rows = connection.execute(
        sa.select(scheduled_actions).where(scheduled_actions.c.uid.in_(uids))
    ).all()
    by = OPERATOR if pause.scope == INSTALLATION else pause.by
    write_pause(connection, rows, pause, by=by)


def write_pause(
    connection: sa.Connection,
    rows: Sequence[sa.Row[Any]],
    pause: Pause,
    *,
    by: str | None,
    at: datetime | None = None,
) -> None:
    """Write *pause* into locked actions, as of *at* (aware UTC; None: now)."""
    values = pause.as_action_columns()
    written_at = at or read_clock(connection)
    changes = [
        # Never before an earlier revision, even if the tick is late and it was edited.
        (row, {**values, "updated_at": max(row.updated_at, written_at)})
        for row in rows
    ]
    change_actions(connection, changes, Change.PAUSED, by=by, note=pause.told)
