"""Which operations or actions a bulk change is about, counted and in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from actions.list_actions import ActionFilter, Trouble, match, name_state
from actions.lookup import find_filtered
from actions.read_actions import ActionState
from models.database.tables import scheduled_actions
from models.requests.bulk_changes import (
    ActionFilterModel,
    BulkKind,
    OperationFilterModel,
)
from operations.selecting import (
    Change,
    Counted,
    Selection,
    count_selected,
    refuse_unfit_states,
)

_kept = scheduled_actions.c


@dataclass(frozen=True, slots=True)
class ActionsChosen:
    """
    Which actions a bulk change is about.

    Args:
        app: Uid of the only small app whose actions they are. None: of all.
    """

    app: str | None
    wanted: ActionFilterModel


def choose_operations(
    connection: sa.Connection,
    kind: BulkKind,
    wanted: OperationFilterModel,
    app: str | None,
) -> Selection:
    """
    Return which operations *wanted* means, of *app* alone if it is given.

    Raises:
        NotFoundError: There is no such small app or action.
        ConflictError: Several small apps have an action of that name.
        UsageError: The change does not apply to operations in one of these states.
    """
    app = app or wanted.app
    selection = Selection(
        app=app,
        action_uid=find_filtered(connection, app=app, action=wanted.action),
        states=frozenset(wanted.state),
        reason=wanted.reason,
        queue=wanted.queue,
        trigger=wanted.trigger,
        since=wanted.since,
        until=wanted.until,
        recorded_since=wanted.recorded_since,
        recorded_until=wanted.recorded_until,
        ids=None if wanted.ids is None else frozenset(wanted.ids),
    )
    refuse_unfit_states(selection, Change(kind.value))
    return selection


def count_operations(
    connection: sa.Connection,
    kind: BulkKind,
    selection: Selection,
    expected_count: int | None,
) -> Counted:
    """Count what *selection* means now; raises as ``count_selected``."""
    return count_selected(
        connection,
        selection,
        change=Change(kind.value),
        expected_count=expected_count,
    )


def choose_actions(
    connection: sa.Connection, wanted: ActionFilterModel, app: str | None
) -> ActionsChosen:
    """
    Return which actions *wanted* means, of *app* alone if it is given.

    Raises:
        NotFoundError: There is no such small app.
    """
    app = app or wanted.app
    find_filtered(connection, app=app, action=None)
    return ActionsChosen(app, wanted)


def count_actions(
    connection: sa.Connection, chosen: ActionsChosen, *, at: datetime
) -> Counted:
    """Count the actions that there were at the instant *at*, aware UTC."""
    state = name_state()
    rows = connection.execute(
        sa.select(state, _kept.app, sa.func.count())
        .where(*_match(connection, chosen, at))
        .group_by(state, _kept.app)
    )
    by_state: Counter[str] = Counter()
    by_app: Counter[str] = Counter()
    for word, app, count in rows:
        by_state[word] += count
        by_app[app] += count
    return Counted(at, dict(sorted(by_state.items())), dict(by_app.most_common()))


@dataclass(frozen=True, slots=True)
class ChosenAction:
    """One of them; *event* drives it. None: it is driven by time."""

    uid: str
    event: str | None


def fetch_action_page(
    connection: sa.Connection,
    chosen: ActionsChosen,
    *,
    at: datetime,
    after: Mapping[str, Any] | None,
    limit: int,
) -> Sequence[ChosenAction]:
    """Return the next actions, by uid."""
    query = (
        sa.select(_kept.uid, _kept.event)
        .where(*_match(connection, chosen, at))
        .order_by(_kept.uid)
        .limit(limit)
    )
    if after is not None:
        query = query.where(_kept.uid > after["uid"])
    return [ChosenAction(*row) for row in connection.execute(query)]


def _match(
    connection: sa.Connection, chosen: ActionsChosen, at: datetime
) -> list[sa.ColumnElement[bool] | sa.TextClause]:
    wanted = chosen.wanted
    asked = ActionFilter(
        app=chosen.app,
        state=None if wanted.state is None else ActionState(wanted.state.value),
        kind=None if wanted.kind is None else wanted.kind.value,
        queue=wanted.queue,
        text=wanted.text,
        trouble=None if wanted.trouble is None else Trouble(wanted.trouble),
        uids=None if wanted.uids is None else frozenset(wanted.uids),
    )
    return [*match(connection, asked), _kept.created_at <= at]
