"""What the latest refresh and the latest publish of a small app touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from typing_extensions import TypedDict

from models.database.tables import operation_steps, operations
from models.operation_state import StepState

#: How many of the latest operations of an app are looked at.
LATEST = 1_000

#: The lists in the results of these steps that name what they touched.
_NAMED = {"refresh": ("refreshed", "reused"), "publish": ("published",)}


class TouchedJson(TypedDict):
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


@dataclass(frozen=True, slots=True)
class Touched:
    """A step that succeeded; *finished_at* is aware UTC, *names* are by kind."""

    operation_id: UUID
    action_uid: str
    finished_at: datetime
    step: str
    names: Mapping[str, list[str]]

    @property
    def kind(self) -> str:
        """One word for it."""
        if self.step == "publish":
            return "publish"
        if not self.names.get("reused"):
            return "whole"
        return "partial" if self.names.get("refreshed") else "reused"

    def as_json(self) -> TouchedJson:
        """Return the documented object; keys are only added."""
        return {
            "operation": self.operation_id,
            "action_uid": self.action_uid,
            "finished_at": self.finished_at,
            "kind": self.kind,
            "refreshed": self.names.get("refreshed", []),
            "reused": self.names.get("reused", []),
            "published": self.names.get("published", []),
        }


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
    names = {key: list(result.get(key) or ()) for key in _NAMED[row.name]}
    return Touched(row.id, row.action_uid, row.finished_at, row.name, names)
