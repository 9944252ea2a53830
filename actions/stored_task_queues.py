"""Where the tasks of users' own go that stored actions ask for."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from models.database.tables import scheduled_actions


@dataclass(frozen=True, slots=True)
class TaskQueue:
    """
    A queue that active actions send tasks to.

    Args:
        connection: Name of its broker. None: our own.

        queue: None: that of the settings, for actions that were stored without one.

        actions: How many actions.

        example: Uid of one of them.
    """

    connection: str | None
    queue: str | None
    actions: int
    example: str


def fetch_task_queues(connection: sa.Connection) -> list[TaskQueue]:
    """Return each queue that actions send to that may run; reads all of them."""
    kept = scheduled_actions.c
    task = kept.document["operations"]["run_task"]
    place = task["connection"].as_string(), task["queue"].as_string()
    rows = connection.execute(
        sa.select(*place, sa.func.count(), sa.func.min(kept.uid))
        .where(
            kept.active,
            kept.deleted_at.is_(None),
            kept.paused_at.is_(None),
            task["name"].as_string().is_not(None),
        )
        .group_by(*place)
    )
    found = [TaskQueue(*row) for row in rows]
    return sorted(found, key=lambda each: (each.connection or "", each.queue or ""))
