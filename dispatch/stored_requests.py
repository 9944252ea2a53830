"""
Requests for many at once, which are stored with their progress.

A bulk change and a backfill are stored, found, canceled and judged alike: here. Whom
each means, what it does with them, and how that is counted are its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, TypeVar
from uuid import UUID, uuid4

import sqlalchemy as sa

from models.database.engine import db_now
from models.database.journal import find_author, note_change
from models.database.lists import belongs_to
from models.errors import ConflictError, NotFoundError

_Shown = TypeVar("_Shown")


class RequestState(StrEnum):
    """Where a request for many stands."""

    RUNNING = "running"
    STOPPING = "stopping"  # canceled; what a worker had taken is not final yet
    CANCELED = "canceled"
    FAILED = "failed"  # it met an error that would come again
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class StoredRequests:
    """
    All requests of one kind.

    Args:
        table: Where they are stored.
        kind: Of them in the record of changes.
        noun: What people call one.
    """

    table: sa.Table
    kind: str
    noun: str

    def store(
        self,
        connection: sa.Connection,
        values: Mapping[str, Any],
        *,
        told: Mapping[str, Any],
        note: str | None,
    ) -> UUID:
        """
        Store a request of whoever asks; return its id.

        Args:
            connection: Of ``writing``, which knows who asks.
            told: What the record of changes says of it.
            note: Why, for the same.
        """
        request_id, author = uuid4(), find_author(connection)
        row = {**values, "id": request_id, "requested_by": author.name}
        connection.execute(sa.insert(self.table).values(row))
        self.note(connection, request_id, values["app"], "started", told, note)
        return request_id

    def fetch(
        self,
        connection: sa.Connection,
        request_id: UUID,
        *,
        app: str | None = None,
        lock: bool = False,
    ) -> sa.Row[Any]:
        """
        Return the row of a request.

        Args:
            app: Uid of a small app; requests of others are unknown. None: any.
            lock: Whether to lock it against others until the commit.

        Raises:
            NotFoundError: There is no such request.
        """
        query = sa.select(self.table).where(
            self.table.c.id == request_id, *belongs_to(app, self.table.c.app)
        )
        row = connection.execute(query.with_for_update() if lock else query).first()
        if row is None:
            raise NotFoundError(f"there is no {self.noun} {request_id}")
        return row

    def fetch_open(
        self, connection: sa.Connection, request_id: UUID, *, app: str | None = None
    ) -> sa.Row[Any]:
        """
        Lock and return a request that goes on; as ``fetch``.

        Raises:
            ConflictError: It is over, or canceled.
        """
        row = self.fetch(connection, request_id, app=app, lock=True)
        if find_state(row) is not RequestState.RUNNING:
            word = "over" if row.canceled_at is None else "canceled"
            raise ConflictError(f"{self.noun} {request_id} is already {word}")
        return row

    def cancel(
        self,
        connection: sa.Connection,
        row: sa.Row[Any],
        values: Mapping[str, Any],
        *,
        told: Mapping[str, Any],
    ) -> None:
        """
        Mark a request as canceled.

        Args:
            row: From ``fetch_open``.
            values: What else is written into it.
            told: What the record of changes says of it.
        """
        connection.execute(
            sa.update(self.table)
            .where(self.table.c.id == row.id)
            .values(**values, canceled_at=db_now())
        )
        self.note(connection, row.id, row.app, "canceled", told)

    def note(
        self,
        connection: sa.Connection,
        request_id: UUID,
        app: str | None,
        change: str,
        told: Mapping[str, Any],
        note: str | None = None,
    ) -> None:
        """Add to the record of changes what became of a request."""
        what = self.kind, str(request_id), change
        note_change(connection, *what, app=app, after=told, note=note)


def find_state(row: sa.Row[Any]) -> RequestState:
    """Return where the request of a row stands."""
    is_over = row.finished_at is not None
    if row.canceled_at is not None:
        return RequestState.CANCELED if is_over else RequestState.STOPPING
    if not is_over:
        return RequestState.RUNNING
    is_failed = getattr(row, "error", None) is not None
    return RequestState.FAILED if is_failed else RequestState.FINISHED


def make_shown(shown: type[_Shown], row: sa.Row[Any], /, **given: Any) -> _Shown:
    """Return what faces show of a row: what is *given*, and its columns."""
    given["state"] = find_state(row)
    names = {each.name for each in fields(shown)} - given.keys()  # type: ignore[arg-type]
    return shown(**given, **{name: getattr(row, name) for name in names})
