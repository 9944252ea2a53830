"""
Count a bulk change, start, show and cancel it. A runner does the rest: runner.py.

Also which operations or actions it is about, counted and in batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from actions.list_actions import match, name_state
from actions.lookup import find_filtered
from dispatch.operation_filters import resolve_filter
from dispatch.stored_requests import RequestState, StoredRequests, make_shown
from models.database.engine import db_now, read_clock
from models.database.journal import find_author
from models.database.lists import cut_part
from models.database.sql_time import was_there
from models.database.tables import OPEN_BULK_CHANGES, bulk_changes, scheduled_actions
from models.errors import UsageError
from models.fields.instants import format_instant
from models.paging import Page, Part
from models.requests.actions import ActionFilterModel
from models.requests.bulk_changes import BulkChangeModel, BulkKind
from models.requests.operations import OperationFilterModel
from operations import selecting
from operations.cancel_and_retry import OperationChange
from operations.operation_filter import OperationFilter
from operations.reasons import CausePattern

BULK_CHANGES = StoredRequests(bulk_changes, "bulk", "bulk change")


def count_bulk(
    connection: sa.Connection, asked: BulkChangeModel, *, app: str | None = None
) -> selecting.Counted:
    """
    Count what a bulk change would change.

    Args:
        asked: Its ``expected_count``, if it has one, must be the count.
        app: Uid of the only small app that the caller may see. None: all.

    Raises:
        NotFoundError: The filter names a small app or an action that does not exist.
        UsageError: The change does not apply to operations in one of these states, or
            the pause would end in the past.
        ConflictError: The count is another than was expected, or several small apps
            have an action of that name.
    """
    counted, _cause = _count(connection, asked, app, read_clock(connection))
    return counted


def _count(
    connection: sa.Connection, asked: BulkChangeModel, app: str | None, at: datetime
) -> tuple[selecting.Counted, CausePattern | None]:
    if asked.until is not None and asked.until <= at:
        msg = f"--until: {format_instant(asked.until)} has passed. Write a later time."
        raise UsageError(msg)
    if isinstance(asked.filter, OperationFilterModel):
        wanted = choose_operations(connection, asked.kind, asked.filter, app=app)
        change = OperationChange(asked.kind.value)
        counted = selecting.count_selected(connection, wanted, change=change, at=at)
        cause = wanted.cause
    else:
        own = app or asked.filter.app
        find_filtered(connection, app=own, action=None)
        counted = _count_actions(connection, asked.filter.but(app=own), at)
        cause = None
    selecting.refuse_other_count(counted.total, asked.expected_count)
    return counted, cause


def start_bulk(
    connection: sa.Connection,
    asked: BulkChangeModel,
    *,
    app: str | None = None,
    at: datetime | None = None,
) -> UUID:
    """
    Store a bulk change for a runner; return its id.

    What is recorded or posted later is not part of it.

    Args:
        connection: Of ``writing``, which knows who asks.
        asked: If it has an ``expected_count``, that must be the count.
        app: As for ``count_bulk``.
        at: When it was counted: nothing that came later is part of it. None: now.

    Raises:
        NotFoundError, UsageError, ConflictError: As ``count_bulk``; nothing is stored.
    """
    at = read_clock(connection) if at is None else at
    counted, cause = _count(connection, asked, app, at)
    author = find_author(connection)
    what = {"kind": asked.kind, "filter": asked.chosen, "total": counted.total}
    values = {
        **what,
        "app": app or asked.filter.app,
        "arguments": {
            "note": asked.note,
            "until": None if asked.until is None else asked.until.isoformat(),
            # Retried, the failure that was named has no cause any more.
            "cause": None if cause is None else asdict(cause),
        },
        "key_id": author.key_id,
        "request_id": author.request_id,
        "created_at": counted.at,
    }
    return BULK_CHANGES.store(connection, values, told=what, note=asked.note)


def cancel_bulk(
    connection: sa.Connection, bulk_id: UUID, *, app: str | None = None
) -> None:
    """
    Stop a bulk change. What was done stays done; the batch under way is waited for.

    Args:
        bulk_id: Its id.
        app: Uid of a small app; bulk changes of others are unknown. None: any.

    Raises:
        NotFoundError: There is no such bulk change.
        ConflictError: It is over already.
    """
    row = BULK_CHANGES.fetch_open(connection, bulk_id, app=app)
    BULK_CHANGES.cancel(
        connection,
        row,
        {"finished_at": db_now(), "claim_token": None},
        told={"done": row.done, "total": row.total},
    )


def end_bulk_changes(connection: sa.Connection, why: str) -> None:
    """
    End all bulk changes at once.

    For a backup that was restored: what they would still do may be done since.
    """
    connection.execute(
        sa.update(bulk_changes)
        .where(OPEN_BULK_CHANGES.of("bulk_changes"))
        .values(finished_at=db_now(), claim_token=None, error=why)
    )


_action = scheduled_actions.c


def choose_operations(
    connection: sa.Connection,
    kind: BulkKind,
    asked: OperationFilterModel,
    *,
    app: str | None,
    cause: CausePattern | None = None,
) -> OperationFilter:
    """
    Return which operations *asked* means, as ``resolve_filter`` does.

    Raises:
        UsageError: The change does not apply to operations in one of these states.
    """
    wanted = resolve_filter(connection, asked, app=app, cause=cause)
    selecting.refuse_unfit_states(wanted, OperationChange(kind.value))
    return wanted


def _count_actions(
    connection: sa.Connection, chosen: ActionFilterModel, at: datetime
) -> selecting.Counted:
    """Count the actions that there were at the instant *at*, aware UTC."""
    state = name_state()
    rows = connection.execute(
        sa.select(state, _action.app, sa.func.count())
        .where(*match(connection, chosen), was_there(_action.created_at, at))
        .group_by(state, _action.app)
    )
    return selecting.tally(at, rows)


def fetch_action_page(
    connection: sa.Connection, chosen: ActionFilterModel, page: Page, *, at: datetime
) -> Part[Any]:
    """Return the next actions, by uid, each with the event that drives it."""
    query = (
        sa.select(_action.uid, _action.event)
        .where(*match(connection, chosen), was_there(_action.created_at, at))
        .order_by(_action.uid)
        .limit(page.limit + 1)
    )
    if page.after is not None:
        query = query.where(_action.uid > page.after[0])
    rows: Any = connection.execute(query).all()
    return cut_part(rows, page, [_action.uid])


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
    state: RequestState
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
    row = BULK_CHANGES.fetch(connection, bulk_id, app=app)
    arguments = row.arguments or {}
    until = arguments.get("until")
    return make_shown(
        ShownBulk,
        row,
        kind=BulkKind(row.kind),
        note=arguments.get("note"),
        until=None if until is None else datetime.fromisoformat(until),
        refused=row.refused or {},
    )
