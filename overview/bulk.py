"""Bulk changes and how far they are, for every face."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from typing_extensions import TypedDict

from models.database.lists import fetch_latest
from models.database.tables import bulk_changes
from models.errors import NotFoundError
from models.paging import Page, Part
from models.requests.bulk_changes import BulkKind
from operations.selecting import Counted


class BulkState(StrEnum):
    """Where a bulk change stands."""

    RUNNING = "running"
    CANCELED = "canceled"
    FAILED = "failed"  # it met an error that would come again
    FINISHED = "finished"


class BulkJson(TypedDict):
    """A bulk change and its progress."""

    id: UUID
    app: str | None
    kind: BulkKind
    state: BulkState
    filter: dict[str, Any]
    note: str | None
    until: datetime | None
    total: int
    done: int
    refused: dict[str, int]
    requested_by: str
    created_at: datetime
    canceled_at: datetime | None
    finished_at: datetime | None
    error: str | None


class CountedJson(TypedDict):
    """What a bulk change would change."""

    kind: BulkKind
    matched: int
    by_state: dict[str, int]
    by_app: dict[str, int]
    dry_run: bool


def make_counted_json(kind: BulkKind, counted: Counted) -> CountedJson:
    """Return the documented object for a bulk change that is only counted."""
    return {
        "kind": kind,
        "matched": counted.total,
        "by_state": dict(counted.by_state),
        "by_app": dict(counted.by_app),
        "dry_run": True,
    }


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

    @property
    def state(self) -> BulkState:
        """Where it stands."""
        if self.canceled_at is not None:
            return BulkState.CANCELED
        if self.finished_at is None:
            return BulkState.RUNNING
        return BulkState.FINISHED if self.error is None else BulkState.FAILED

    def as_json(self) -> BulkJson:
        """Return the documented object; keys are only added."""
        return {
            "id": self.id,
            "app": self.app,
            "kind": self.kind,
            "state": self.state,
            "filter": dict(self.filter),
            "note": self.note,
            "until": self.until,
            "total": self.total,
            "done": self.done,
            "refused": dict(self.refused),
            "requested_by": self.requested_by,
            "created_at": self.created_at,
            "canceled_at": self.canceled_at,
            "finished_at": self.finished_at,
            "error": self.error,
        }


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


def fetch_shown_bulks(
    connection: sa.Connection, page: Page, *, app: str | None = None
) -> Part[ShownBulk]:
    """
    Return bulk changes, the latest first.

    Args:
        app: Only those of this small app. None: all.
    """
    query = sa.select(bulk_changes)
    if app is not None:
        query = query.where(bulk_changes.c.app == app)
    key = (bulk_changes.c.created_at, bulk_changes.c.id)
    part = fetch_latest(connection, query, page, key)
    return Part([_make_shown(row) for row in part.entries], part.following)


def _make_shown(row: sa.Row[Any]) -> ShownBulk:
    arguments = row.arguments or {}
    until = arguments.get("until")
    return ShownBulk(
        id=row.id,
        app=row.app,
        kind=BulkKind(row.kind),
        filter=row.filter,
        note=arguments.get("note"),
        until=None if until is None else datetime.fromisoformat(until),
        total=row.total,
        done=row.done,
        refused=row.refused or {},
        requested_by=row.requested_by,
        created_at=row.created_at,
        canceled_at=row.canceled_at,
        finished_at=row.finished_at,
        error=row.error,
    )
