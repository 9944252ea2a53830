"""
Every change of a scheduled action is a new revision, and every revision is kept.

A decision about an older revision writes nothing; an operation runs the revision
that it was recorded with; ``why`` and ``audit`` read what was in force and when.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from models.database import read_clock
from models.errors import NotFoundError
from models.tables import scheduled_action_revisions, scheduled_actions


def lock_action(connection: sa.Connection, uid: str) -> sa.Row[Any]:
    """
    Return the row of an action and keep others from changing it until the commit.

    Raises:
        NotFoundError: No such action, or deleted.
    """
    row = connection.execute(
        sa.select(scheduled_actions)
        .where(scheduled_actions.c.uid == uid, scheduled_actions.c.deleted_at.is_(None))
        .with_for_update()
    ).one_or_none()
    if row is None:
        msg = f"there is no scheduled action {uid!r}"
        raise NotFoundError(msg)
    return row


def change_action(
    connection: sa.Connection, uid: str, change: str, **values: object
) -> None:
    """Write *values* as a new revision, logged under the name *change*."""
    connection.execute(
        sa.update(scheduled_actions)
        .where(scheduled_actions.c.uid == uid)
        .values(
            revision=scheduled_actions.c.revision + 1,
            updated_at=read_clock(connection),
            **values,
        )
    )
    log_revision(connection, uid, change)


def log_revision(connection: sa.Connection, uid: str, change: str) -> None:
    """Keep the action as it is now; its revision must be a new one."""
    kept = scheduled_actions.c
    same = [kept.uid, kept.revision, kept.document, kept.timing, kept.active]
    names = ["uid", "revision", "document", "timing", "active", "effective_from"]
    connection.execute(
        sa.insert(scheduled_action_revisions).from_select(
            [*names, "recorded_at", "change"],
            sa.select(
                *same, kept.effective_from, kept.updated_at, sa.literal(change)
            ).where(kept.uid == uid),
        )
    )
