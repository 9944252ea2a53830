"""Where the tasks of users' own go that stored actions ask for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
        example: Name of one of them.
        senders: The tasks that are sent there, each with the name of an action.
    """

    connection: str | None
    queue: str | None
    actions: int
    example: str
    senders: Mapping[str, str] = field(default_factory=dict)


def fetch_task_queues(connection: sa.Connection) -> list[TaskQueue]:
    """Return each queue that actions send to that may run; reads all of them."""
    kept = scheduled_actions.c
    task = kept.document["operations"]["run_task"]
    place = task["connection"].as_string(), task["queue"].as_string()
    name = task["name"].as_string()
    rows = connection.execute(
        sa.select(
            place[0].label("connection"),
            place[1].label("queue"),
            name.label("name"),
            sa.func.count().label("actions"),
            sa.func.min(kept.name).label("example"),
        )
        .where(
            kept.active,
            kept.deleted_at.is_(None),
            kept.paused_at.is_(None),
            name.is_not(None),
            # which queues an exchange leads to, its broker knows
            task["exchange"].as_string().is_(None),
        )
        .group_by(*place, name)
        .order_by(name)
    )
    found: defaultdict[tuple[str, str], list[sa.Row[Any]]] = defaultdict(list)
    for row in rows:
        found[row.connection or "", row.queue or ""].append(row)
    return [_gather(found[place]) for place in sorted(found)]


def _gather(rows: list[sa.Row[Any]]) -> TaskQueue:
    """Return the queue that all *rows* are of, each with another task."""
    return TaskQueue(
        connection=rows[0].connection,
        queue=rows[0].queue,
        actions=sum(row.actions for row in rows),
        example=min(row.example for row in rows),
        senders={row.name: row.example for row in rows},
    )
