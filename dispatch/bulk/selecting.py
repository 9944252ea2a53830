"""Which operations or actions a bulk change is about, counted and in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from actions.list_actions import match, name_state
from actions.lookup import find_filtered
from dispatch.operation_filters import resolve_filter
from models.database.tables import scheduled_actions
from models.requests.actions import ActionFilterModel
from models.requests.bulk_changes import BulkKind
from models.requests.operations import OperationFilterModel
from operations.cancel_and_retry import OperationChange
from operations.operation_filter import OperationFilter
from operations.reasons import CausePattern
from operations.selecting import Counted, refuse_unfit_states, tally

_kept = scheduled_actions.c


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
    refuse_unfit_states(wanted, OperationChange(kind.value))
    return wanted


def choose_actions(
    connection: sa.Connection, wanted: ActionFilterModel, app: str | None
) -> ActionFilterModel:
    """
    Return which actions *wanted* means, of *app* alone if it is given.

    Raises:
        NotFoundError: There is no such small app.
    """
    app = app or wanted.app
    find_filtered(connection, app=app, action=None)
    return wanted.but(app=app)


def count_actions(
    connection: sa.Connection, chosen: ActionFilterModel, *, at: datetime
) -> Counted:
    """Count the actions that there were at the instant *at*, aware UTC."""
    state = name_state()
    rows = connection.execute(
        sa.select(state, _kept.app, sa.func.count())
        .where(*match(connection, chosen), _kept.created_at <= at)
        .group_by(state, _kept.app)
    )
    return tally(at, rows)


@dataclass(frozen=True, slots=True)
class ChosenAction:
    """One of them; *event* drives it. None: it is driven by time."""

    uid: str
    event: str | None


def fetch_action_page(
    connection: sa.Connection,
    chosen: ActionFilterModel,
    *,
    at: datetime,
    after: Mapping[str, Any] | None,
    limit: int,
) -> Sequence[ChosenAction]:
    """Return the next actions, by uid."""
    query = (
        sa.select(_kept.uid, _kept.event)
        .where(*match(connection, chosen), _kept.created_at <= at)
        .order_by(_kept.uid)
        .limit(limit)
    )
    if after is not None:
        query = query.where(_kept.uid > after["uid"])
    return [ChosenAction(*row) for row in connection.execute(query)]
