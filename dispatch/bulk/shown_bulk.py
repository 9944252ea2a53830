"""Bulk changes and how far they are, for every face."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.tables import bulk_changes
from models.errors import NotFoundError
from models.requests.bulk_changes import BulkKind


class BulkState(StrEnum):
    """Where a bulk change stands."""

    RUNNING = "running"
    CANCELED = "canceled"
    FAILED = "failed"  # it met an error that would come again
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class CountedBulk:
    """What a bulk change would change."""

    kind: BulkKind
    matched: int
    by_state: Mapping[str, int]
    by_app: Mapping[str, int]
    dry_run: bool


@dataclass(frozen=True, slots=True)
class ShownBulk:
    """
    A bulk change; times are aware UTC.

    Args:
        app: Uid of the only small app that it is about. None: of all.
        filter: As it was asked for.
        until: When the pauses end that it makes. None: it makes none, or without end.
        total: How many matched when it was started.
        done: How many have been changed.
        refused: How many were left as they were, by the reason.
        error: What ended it. None: it is not over, or ended well.
    """

    id: UUID
    app: str | None
    kind: BulkKind
    state: BulkState
    filter: Mapping[str, Any]
    note: str | None
    until: datetime | None
    total: int
    done: int
    refused: Mapping[str, int]
    requested_by: str
    created_at: datetime
    canceled_at: datetime | None
    finished_at: datetime | None
    error: str | None


def fetch_shown_bulk(
    connection: sa.Connection, bulk_id: UUID, *, app: str | None = None
) -> ShownBulk:
    """
    Return a bulk change and its progress.

    Args:
        bulk_id: Its id.
        app: Uid of a small app; bulk changes of others are unknown. None: any.

    Raises:
        NotFoundError: There is no such bulk change.
    """
    query = sa.select(bulk_changes).where(bulk_changes.c.id == bulk_id)
    if app is not None:
        query = query.where(bulk_changes.c.app == app)
    row = connection.execute(query).one_or_none()
    if row is None:
        msg = f"there is no bulk change {bulk_id}"
        raise NotFoundError(msg)
    return _make_shown(row)


def _make_shown(row: sa.Row[Any]) -> ShownBulk:
    arguments = row.arguments or {}
    until = arguments.get("until")
    given: dict[str, Any] = {
        "kind": BulkKind(row.kind),
        "state": _find_state(row),
        "note": arguments.get("note"),
        "until": None if until is None else datetime.fromisoformat(until),
        "refused": row.refused or {},
    }
    names = [each.name for each in fields(ShownBulk) if each.name not in given]
    return ShownBulk(**given, **{name: getattr(row, name) for name in names})


def _find_state(row: sa.Row[Any]) -> BulkState:
    if row.canceled_at is not None:
        return BulkState.CANCELED
    if row.finished_at is None:
        return BulkState.RUNNING
    return BulkState.FINISHED if row.error is None else BulkState.FAILED
