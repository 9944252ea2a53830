"""
Write the pause of a small app, or of all of them, into its actions, and its end too.

Thousands of actions are written in parts. The first is part of the transaction of
whoever pauses or resumes; then the row of the app says how far it is, and the leader
does the others between ticks. The pause holds from the first part on, because a tick
passes over what is not written yet; what is resumed begins from that instant, too.
"""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from actions.pausing.pause_and_resume import let_go_on
from actions.pausing.pause_state import (
    APP,
    INSTALLATION,
    OPERATOR,
    fetch_pause,
    get_pause,
)
from actions.pausing.write_pause import write_pause
from actions.posting.revisions import lock_actions
from models.database.tables import installation, scheduled_actions, small_apps
from models.operation_state import Queue

#: Actions that are written in one transaction, within some tenth of a second.
WRITTEN_AT_ONCE = 1_000

_kept = scheduled_actions.c


def begin_spread(
    connection: sa.Connection, app: str | None, *, at: datetime, by: str | None
) -> int:
    """
    Begin to write what the row of *app* (None: the installation) says.

    Args:
        connection: In the transaction that has changed this row.
        at: From when on that holds, aware UTC.
        by: Who has changed it.

    Returns:
        How many actions there are to write.
    """
    where = _select(connection, app)
    count = connection.execute(
        sa.select(sa.func.count())
        .select_from(scheduled_actions)
        .where(_kept.deleted_at.is_(None), *where)
    ).scalar_one()
    author = OPERATOR if app is None else by
    _write(connection, app, {"at": at.isoformat(), "by": author, "until": ""})
    _spread(connection, app)
    return count


def end_spread(connection: sa.Connection, app: str | None) -> None:
    """Write what is left of an earlier change, before the row is changed again."""
    while _spread(connection, app):
        pass


def is_spreading() -> sa.ColumnElement[bool]:
    """Tell whether ``spread_part`` has anything to do."""
    return sa.or_(
        sa.exists().where(small_apps.c.spread.is_not(None)),
        sa.exists().where(installation.c.spread.is_not(None)),
    )


def spread_part(connection: sa.Connection) -> bool:
    """
    Write a part of what somebody paused or resumed.

    Args:
        connection: In a transaction of the leader that has checked the lease.

    Returns:
        Whether there was any.
    """
    whole = connection.execute(
        sa.select(installation.c.id).where(installation.c.spread.is_not(None))
    ).first()
    app = connection.execute(
        sa.select(small_apps.c.uid)
        .where(small_apps.c.spread.is_not(None))
        .order_by(small_apps.c.uid)
    ).scalars()
    first = app.first()
    if whole is None and first is None:
        return False
    _spread(connection, None if whole is not None else first)
    return True


def _spread(connection: sa.Connection, app: str | None) -> bool:
    """Write a part; return whether more is left."""
    table = installation if app is None else small_apps
    query = sa.select(table.c.spread)
    if app is not None:
        query = query.where(small_apps.c.uid == app)
    spread = connection.execute(query.with_for_update()).scalar_one()
    if spread is None:
        return False
    at, by = datetime.fromisoformat(spread["at"]), spread["by"]
    # In this order, as everybody who pauses.
    above = None if app is None else fetch_pause(connection, None, lock=False)
    pause = fetch_pause(connection, app)
    rows = lock_actions(
        connection,
        *_select(connection, app),
        _kept.uid > spread["until"],
        at_most=WRITTEN_AT_ONCE,
    )
    if pause is not None:
        others = [row for row in rows if get_pause(row) != pause]
        write_pause(connection, others, pause, by=by, at=at)
    elif above is not None:
        write_pause(connection, rows, above, by=by, at=at)
    else:
        let_go_on(connection, rows, at=at, by=by)
    is_left = len(rows) == WRITTEN_AT_ONCE
    _write(connection, app, {**spread, "until": rows[-1].uid} if is_left else None)
    return is_left


def _select(
    connection: sa.Connection, app: str | None
) -> tuple[sa.ColumnElement[bool], ...]:
    """Say which actions follow the row of *app*: it is paused, or was."""
    is_paused = fetch_pause(connection, app) is not None
    unpaused = _kept.paused_at.is_(None)
    if app is None:
        where = _kept.pause_scope == INSTALLATION
        return _kept.queue != Queue.DEFAULT, unpaused | where if is_paused else where
    if is_paused:
        return _kept.app == app, unpaused | _kept.pause_scope.is_not(None)
    return _kept.app == app, _kept.pause_scope == APP


def _write(
    connection: sa.Connection, app: str | None, spread: dict[str, object] | None
) -> None:
    update = sa.update(installation)
    if app is not None:
        update = sa.update(small_apps).where(small_apps.c.uid == app)
    connection.execute(update.values(spread=spread))
