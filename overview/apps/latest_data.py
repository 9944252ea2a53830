"""What the latest refresh and the latest publish of a small app touched."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.tables import operation_steps, operations
from models.operation_state import StepState

#: How many of the latest operations of an app are looked at.
LATEST = 1_000

#: The lists in the results of these steps that name what they touched.
_NAMED = {"refresh": ("refreshed", "reused"), "publish": ("published",)}


@dataclass(frozen=True, slots=True)
class Touched:
    """
    What one step touched: names of domains, or of what was published.

    ``kind`` of a refresh: whole (every domain was read), partial, or reused (none was).
    """

    operation: UUID
    action_uid: str
    finished_at: datetime
    kind: str
    refreshed: list[str]
    reused: list[str]
    published: list[str]


def fetch_touched(connection: sa.Connection, app: str) -> dict[str, Touched]:
    """
    Return the latest success of "refresh" and of "publish" in *app*, by step.

    Without those that lie beyond the LATEST operations of the app.
    """
    kept = operations.c
    latest = (
        sa.select(kept.id, kept.action_uid)
        .where(kept.app == app)
        .order_by(kept.recorded_at.desc())
        .limit(LATEST)
        .subquery()
    )
    rows = connection.execute(
        sa.select(
            latest.c.id,
            latest.c.action_uid,
            operation_steps.c.finished_at,
            operation_steps.c.name,
            operation_steps.c.result,
        )
        .join_from(
            latest, operation_steps, operation_steps.c.operation_id == latest.c.id
        )
        .where(
            operation_steps.c.name.in_(_NAMED),
            operation_steps.c.state == StepState.SUCCEEDED,
        )
        .order_by(operation_steps.c.finished_at)
    )
    # Later ones replace earlier ones.
    return {row.name: _make_touched(row) for row in rows}


def _make_touched(row: Any) -> Touched:
    result = row.result or {}
    refreshed, reused, published = (
        list(result.get(key) or ()) if key in _NAMED[row.name] else []
        for key in ("refreshed", "reused", "published")
    )
    kind = "partial" if refreshed else "reused"
    if row.name == "publish":
        kind = "publish"
    elif not reused:
        kind = "whole"
    done = row.id, row.action_uid, row.finished_at
    return Touched(*done, kind, refreshed, reused, published)
