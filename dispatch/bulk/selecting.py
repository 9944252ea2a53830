"""Which operations or actions a bulk change is about, counted and in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from actions.lookup import find_filtered
from models.bulk_change import (
    ActionFilterModel,
    ActionKind,
    BulkKind,
    ChosenState,
    OperationFilterModel,
)
from models.database.engine import json_rows, make_rows_json
from models.database.tables import scheduled_actions
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
        since=wanted.since,
        until=wanted.until,
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
    state = _name_state()
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


def fetch_action_page(
    connection: sa.Connection,
    chosen: ActionsChosen,
    *,
    at: datetime,
    after: Mapping[str, Any] | None,
    limit: int,
) -> Sequence[str]:
    """Return the uids of the next actions, in their order."""
    query = (
        sa.select(_kept.uid)
        .where(*_match(connection, chosen, at))
        .order_by(_kept.uid)
        .limit(limit)
    )
    if after is not None:
        query = query.where(_kept.uid > after["uid"])
    return connection.execute(query).scalars().all()


def _match(
    connection: sa.Connection, chosen: ActionsChosen, at: datetime
) -> list[sa.ColumnElement[bool]]:
    wanted = chosen.wanted
    found = [_kept.deleted_at.is_(None), _kept.created_at <= at]
    if chosen.app is not None:
        found.append(_kept.app == chosen.app)
    if wanted.state is not None:
        found.append(_name_state() == wanted.state.value)
    if wanted.queue is not None:
        found.append(_kept.queue == wanted.queue)
    if wanted.kind is not None:
        found.append(_match_kind(wanted.kind))
    if wanted.text:
        found.append(
            sa.or_(
                _kept.name.icontains(wanted.text, autoescape=True),
                _kept.uid.icontains(wanted.text, autoescape=True),
            )
        )
    if wanted.uids is not None:
        given = json_rows(connection.dialect.name, {"uid": sa.Text()}, "chosen")
        rows = make_rows_json([{"uid": uid} for uid in wanted.uids])
        found.append(_kept.uid.in_(sa.select(given.c.uid).params(chosen=rows)))
    return found


def _name_state() -> sa.ColumnElement[str]:
    """Return the state of an action; see ``get_action_state``."""
    return sa.case(
        (_kept.quarantined_at.is_not(None), ChosenState.QUARANTINED.value),
        (_kept.paused_at.is_not(None), ChosenState.PAUSED.value),
        (_kept.active, ChosenState.ACTIVE.value),
        else_=ChosenState.INACTIVE.value,
    )


def _match_kind(kind: ActionKind) -> sa.ColumnElement[bool]:
    if kind.value == "on":
        return sa.and_(_kept.event.is_not(None), _kept.delay.is_(None))
    if kind.value == "after":
        return sa.and_(_kept.event.is_not(None), _kept.delay.is_not(None))
    # Canonical JSON, whose values have no quotes in them. In event-driven ones, null.
    found: sa.ColumnElement[bool] = _kept.timing.contains(
        f'"{kind.value}":"', autoescape=True
    )
    return found
