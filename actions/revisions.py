"""
Every change of a scheduled action is a new revision, and every revision is kept.

A decision about an older revision writes nothing; an operation runs the revision
that it was recorded with; ``why`` and ``audit`` read what was in force and when.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from models.database import UtcDateTime, read_clock
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
    kept = scheduled_actions.c
    undecided_from = connection.execute(
        sa.select(kept.next_due_at).where(kept.uid == uid)
    ).scalar_one()
    connection.execute(
        sa.update(scheduled_actions)
        .where(scheduled_actions.c.uid == uid)
        .values(
            revision=scheduled_actions.c.revision + 1,
            updated_at=read_clock(connection),
            **values,
        )
    )
    log_revisions(connection, [uid], change, undecided_from=undecided_from)


def log_revisions(
    connection: sa.Connection,
    uids: Sequence[str],
    change: str,
    *,
    undecided_from: datetime | None = None,
) -> None:
    """
    Keep actions as they are now; their revisions must be new ones.

    Args:
        connection: In the transaction of the change.

        uids: Of the actions; at most a thousand.

        change: Why there is a new revision.

        undecided_from: The first instant that was not decided before. None: nothing
            more was due.
    """
    kept = scheduled_actions.c
    same = [kept.uid, kept.revision, kept.document, kept.timing, kept.active]
    names = ["uid", "revision", "document", "timing", "active", "effective_from"]
    connection.execute(
        sa.insert(scheduled_action_revisions).from_select(
            [*names, "recorded_at", "change", "undecided_from"],
            sa.select(
                *same,
                kept.effective_from,
                kept.updated_at,
                sa.literal(change),
                sa.literal(undecided_from, UtcDateTime),
            ).where(kept.uid.in_(uids)),
        )
    )
