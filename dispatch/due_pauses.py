"""End the pauses that are over, before a tick decides what is due."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa
import structlog

from actions.lease import Leader
from actions.pausing.pause_and_resume import let_go_on, write_pause
from actions.pausing.pause_state import (
    INSTALLATION,
    UNPAUSED,
    Pause,
    fetch_paused_apps,
    get_pause,
    select_target,
)
from actions.pausing.targets import WRITTEN_AT_ONCE, is_spreading, spread_part
from actions.posting.revisions import SCHEDULER, lock_actions
from dispatch.locked_rows import LockedRows
from models.database.engine import reading, writing
from models.database.tables import installation, scheduled_actions, small_apps
from models.operation_state import Queue
from telemetry import Event

#: Pauses of actions that end in one transaction, within some tenth of a second.
ENDED_AT_ONCE = 1_000


def has_ended_pause(connection: sa.Connection, *, now: datetime) -> bool:
    """Tell whether a pause is over by *now*, or not written yet: looks at indexes."""
    ended = [
        sa.exists().where(_is_over(table, now), *alive)
        for table, alive in (
            (scheduled_actions, (scheduled_actions.c.deleted_at.is_(None),)),
            (small_apps, ()),
            (installation, ()),
        )
    ]
    return bool(connection.execute(sa.select(sa.or_(*ended, is_spreading()))).scalar())


def end_pauses(
    connection: sa.Connection, *, now: datetime, skip_locked: bool = False
) -> int:
    """
    End a part of the pauses whose time has come, each at its own instant.

    So an occurrence at the very end of a pause counts again, however late the tick is
    that ends the pause; whether it still runs is up to the window and catch_up.

    Args:
        connection: In a transaction of the leader that has checked the lease.
        now: The time of the tick, aware UTC.
        skip_locked: Whether what somebody else has locked is left for later.

    Returns:
        How many actions are affected, at most ENDED_AT_ONCE: they go on, or stay paused
        with their app or the installation, whose own pauses end after the last of them.
    """
    # In this order, as everybody; nobody begins or ends a pause of an app or of the
    # installation meanwhile, for that keeps the leader out.
    ended_apps = connection.scalars(
        sa.select(small_apps.c.uid)
        .where(_is_over(small_apps, now))
        .order_by(small_apps.c.uid)
        .with_for_update(skip_locked=skip_locked)
    ).all()
    query = select_target(None, *UNPAUSED).with_for_update(skip_locked=skip_locked)
    of_whole = connection.execute(query).first()
    if of_whole is None:
        return 0
    whole = get_pause(of_whole, INSTALLATION)
    rows = lock_actions(
        connection,
        _is_over(scheduled_actions, now),
        at_most=ENDED_AT_ONCE,
        skip_locked=skip_locked,
    )
    apps = fetch_paused_apps(connection) if rows else {}
    going_on: list[sa.Row[Any]] = []
    held: dict[tuple[Pause, datetime], list[sa.Row[Any]]] = defaultdict(list)
    for row in rows:
        above = [apps.get(row.app)]
        if whole is not None and row.queue != Queue.DEFAULT:
            above.append(whole)
        lasting = [p for p in above if p and (p.until is None or p.until > now)]
        if lasting:
            held[lasting[0], row.paused_until].append(row)
        else:
            going_on.append(row)
    let_go_on(connection, going_on, at=None, by=SCHEDULER)
    for (pause, over_at), each in held.items():
        write_pause(connection, each, pause, by=SCHEDULER, at=over_at)
    if len(rows) < ENDED_AT_ONCE:
        for table, which in (
            (small_apps, small_apps.c.uid.in_(ended_apps)),
            (installation, _is_over(installation, now)),
        ):
            connection.execute(
                sa.update(table)
                .where(which, table.c.spread.is_(None))
                .values(**UNPAUSED)
            )
    return len(rows)


def _is_over(table: sa.Table, now: datetime) -> sa.ColumnElement[bool]:
    over: sa.ColumnElement[bool] = table.c.paused_until <= now
    return over


log = structlog.get_logger()


def end_due_pauses(
    engine: sa.Engine, leader: Leader, locked: LockedRows, *, now: datetime
) -> int:
    """
    Resume a part of what was paused until *now* (aware UTC) or before.

    If there is nothing, write a part of what somebody has paused or resumed.

    Returns:
        How many actions are affected; if there are any, others may follow.

    Raises:
        LeadershipLostError, UnreachableError: Nothing was written.
    """
    with reading(engine) as connection:
        if not has_ended_pause(connection, now=now):
            return 0

    def end_part() -> tuple[int, bool]:
        with writing(engine) as connection:
            leader.check(connection)
            left = locked.left_out is not None
            actions = end_pauses(connection, now=now, skip_locked=left)
            return actions, not actions and spread_part(connection)

    actions, has_spread = locked.do_without(end_part)
    if has_spread:
        return WRITTEN_AT_ONCE
    if actions or locked.left_out is None:
        log.info(Event.PAUSE_ENDED, actions=actions)
    return actions
