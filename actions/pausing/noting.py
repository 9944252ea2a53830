"""What the record of changes says of pauses that people begin, change or end."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from actions.pausing.pause_state import Pause, get_pause
from models.database.journal import note_change
from models.revision import Change


def note_pause(
    connection: sa.Connection,
    row: sa.Row[Any],
    change: Change,
    note: str | None,
    after: Pause | None = None,
) -> None:
    """Note what was done to one action, which was as *row* says."""
    before = get_pause(row)
    note_change(
        connection,
        "action",
        row.uid,
        change,
        app=row.app,
        before=None if before is None else {"pause": before.as_json()},
        after=None if after is None else {"pause": after.as_json()},
        note=note,
    )


def note_pause_of_all(
    connection: sa.Connection,
    app: str | None,
    before: Pause | None,
    after: Pause | None,
    count: int,
    note: str | None,
) -> None:
    """Note a pause of *app* (None: of all) that began, changed or ended."""
    note_change(
        connection,
        "installation" if app is None else "app",
        app or "installation",
        Change.RESUMED if after is None else Change.PAUSED,
        app=app,
        before=None if before is None else {"pause": before.as_json()},
        after={"actions": count}
        | ({} if after is None else {"pause": after.as_json()}),
        note=note,
    )
