"""
Pause and resume: an action, a small app, or all of the installation.

The tick asks of an action alone whether it is paused, so a pause of an app is
written into each of its actions, with whose pause it is. What is paused on its own
stays so when its app is resumed. A pause that has an end is over at that instant,
whenever a tick gets to see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from actions.list_actions import find_problem
from actions.lookup import refuse_app
from actions.occurrences import Schedule, parse_timing
from actions.pausing.pause_state import (
    APP,
    INSTALLATION,
    UNPAUSED,
    Pause,
    get_pause,
    hold_pause,
    let_go_on,
    select_pause,
    write_pause,
)
from actions.posting.effective_from import start_from
from actions.posting.revisions import SCHEDULER, change_actions, lock_action
from models.database.engine import read_clock
from models.database.tables import installation, leases, scheduled_actions, small_apps
from models.errors import (
    ConflictError,
    InvalidDocumentError,
    Problem,
    UsageError,
)
from models.fields.instants import format_instant
from models.operation_state import Queue
from models.revision import Change

_kept = scheduled_actions.c


def set_paused(
    connection: sa.Connection,
    uid: str,
    *,
    paused: bool,
    until: datetime | None = None,
    note: str | None = None,
    by: str | None = None,
) -> bool:
    """
    Pause an action (its occurrences are not recorded), or resume it from now on.

    What is in quarantine is resumed, too, if it can be read again. What is paused
    again gets the new *until* and *note*; what its app has paused is then paused on
    its own. What is resumed while its app is paused stays paused with its app.

    Args:
        connection: In a transaction of its own.

        uid: Of the action.

        paused: Whether it shall be.

        until: Of a pause: when it ends by itself, aware, exclusive.

        note: Of a pause: why.

        by: Who asks for it.

    Returns:
        False if it was so already.

    Raises:
        NotFoundError: No such action, or deleted.

        UsageError: *until* is not to come.

        ConflictError: It is paused with its app or the installation, not on its own.

        InvalidDocumentError: Its rule cannot be read any more, so it cannot be resumed,
            paused or not.
    """
    above = hold_pause(connection, _get_app(connection, uid))
    row = lock_action(connection, uid)
    if paused:
        given = _begin(connection, until, note, by)
        return _pause_one(connection, row, given)
    # First of all: what the tick has yet to put into quarantine is not "so already".
    schedule = _read_stored(row)
    if row.paused_at is None and row.quarantined_at is None:
        return False
    if row.pause_scope is not None:
        raise ConflictError(_say_whose(row))
    if above is not None and row.paused_at is not None:
        write_pause(connection, [row], above, by=by)
        return True
    now = read_clock(connection)
    started = start_from(uid, schedule, now, timedelta(0))
    values = {**UNPAUSED, "pause_scope": None, "updated_at": now, **started}
    change_actions(connection, [(row, values)], Change.RESUMED, by=by)
    return True


def _get_app(connection: sa.Connection, uid: str) -> str:
    """Return the app of an action; "" if there is no such action: the lock says so."""
    found = connection.execute(sa.select(_kept.app).where(_kept.uid == uid))
    return found.scalar_one_or_none() or ""


def _begin(
    connection: sa.Connection,
    until: datetime | None,
    note: str | None,
    by: str | None,
    scope: str | None = None,
) -> Pause:
    now = read_clock(connection)
    if until is not None and until <= now:
        msg = f"--until: {format_instant(until)} has passed. Write a time to come."
        raise UsageError(msg)
    return Pause(now, until, by, note, scope)


def _pause_one(connection: sa.Connection, row: sa.Row[Any], given: Pause) -> bool:
    known = get_pause(row)
    if known is not None and known.scope is None:
        if (given.until, given.note) in {(None, None), (known.until, known.note)}:
            return False
        given = replace(given, at=known.at)  # it has been since then
    write_pause(connection, [row], given, by=given.by)
    return True


def _say_whose(row: sa.Row[Any]) -> str:
    if row.pause_scope == APP:
        whose, command = f"its small app {row.app!r}", f"apps resume {row.app}"
    else:
        whose, command = "all of the installation", "apps resume --all"
    return (
        f"action {row.uid!r} is paused with {whose}."
        f" To resume that: minutehand {command}"
    )


def _read_stored(row: sa.Row[Any]) -> Schedule | None:
    """Return the schedule of an action; None if events drive it."""
    found = find_problem(row)
    if found is not None:
        message = f"the stored rule cannot be read: {found}"
        hint = "Put another in its place: minutehand actions post FILE --replace"
        problem = Problem("/when", message, f"{hint} --app {row.app}")
        raise InvalidDocumentError((problem,))
    return None if row.timing is None else parse_timing(row.timing)


def pause_app(
    connection: sa.Connection,
    app: str,
    *,
    until: datetime | None = None,
    note: str | None = None,
    by: str | None = None,
) -> int:
    """
    Pause a small app: all its actions, and those that are posted meanwhile.

    Args:
        connection: In a transaction of its own.

        app: Uid of the small app.

        until: When it ends by itself, aware, exclusive; None: when it is resumed.

        note: Why.

        by: Who asks for it.

    Returns:
        How many actions are paused with it. Those that were paused before, on their
        own, stay so.

    Raises:
        NotFoundError: No such small app.

        UsageError: *until* is not to come.
    """
    _keep_leader_out(connection)
    pause = _begin(connection, until, note, by, APP)
    known = _lock_app(connection, app)
    if known is not None:
        if (until, note) == (None, None):
            pause = replace(known, scope=APP)
        pause = replace(pause, at=known.at)
    connection.execute(
        sa.update(small_apps)
        .where(small_apps.c.uid == app)
        .values(**pause.as_columns())
    )
    rows = _lock_actions(
        connection,
        _kept.app == app,
        sa.or_(_kept.paused_at.is_(None), _kept.pause_scope.is_not(None)),
    )
    write_pause(connection, [r for r in rows if get_pause(r) != pause], pause, by=by)
    return len(rows)


def resume_app(connection: sa.Connection, app: str, *, by: str | None = None) -> int:
    """
    Resume a small app from now on; what is paused on its own stays so.

    Returns:
        How many actions were paused with it.

    Raises:
        NotFoundError: No such small app.

        ConflictError: It is not paused, or with the installation.
    """
    _keep_leader_out(connection)
    above = select_pause(connection, installation, sa.true())
    known = _lock_app(connection, app)
    rows = _lock_actions(connection, _kept.app == app, _kept.pause_scope == APP)
    if known is None and not rows:
        if above is not None:
            msg = (
                f"small app {app!r} is paused with all of the installation."
                " To resume that: minutehand apps resume --all"
            )
            raise ConflictError(msg)
        msg = f"small app {app!r} is not paused"
        raise ConflictError(msg)
    now = read_clock(connection)
    _end_pause_of_app(connection, app, rows, above, at=now, by=by)
    return len(rows)


def _end_pause_of_app(
    connection: sa.Connection,
    app: str,
    rows: Sequence[sa.Row[Any]],
    above: Pause | None,
    *,
    at: datetime,
    by: str | None,
) -> None:
    connection.execute(
        sa.update(small_apps).where(small_apps.c.uid == app).values(**UNPAUSED)
    )
    if above is None:
        let_go_on(connection, rows, at=at, by=by)
    else:
        pause = replace(above, scope=INSTALLATION)
        write_pause(connection, rows, pause, by=by, at=at)


def pause_installation(
    connection: sa.Connection,
    *,
    until: datetime | None = None,
    note: str | None = None,
    by: str | None = None,
) -> int:
    """
    Pause all small apps, and what is posted meanwhile; not the own maintenance.

    Args:
        connection: In a transaction of its own.

        until: As for ``pause_app``.

        note: The same.

        by: The same.

    Returns:
        How many actions are paused with it. Those that were paused before, on their
        own or with their app, stay so.

    Raises:
        UsageError: *until* is not to come.
    """
    _keep_leader_out(connection)
    pause = _begin(connection, until, note, by, INSTALLATION)
    known = _lock_installation(connection)
    if known is not None:
        if (until, note) == (None, None):
            pause = replace(known, scope=INSTALLATION)
        pause = replace(pause, at=known.at)
    connection.execute(sa.update(installation).values(**pause.as_columns()))
    rows = _lock_actions(
        connection,
        _kept.queue != Queue.DEFAULT,
        sa.or_(_kept.paused_at.is_(None), _kept.pause_scope == INSTALLATION),
    )
    write_pause(connection, [r for r in rows if get_pause(r) != pause], pause, by=by)
    return len(rows)


def resume_installation(connection: sa.Connection, *, by: str | None = None) -> int:
    """
    Resume all that was paused with the installation, from now on.

    Returns:
        How many actions were; what is paused on its own or with its app stays so.

    Raises:
        ConflictError: It is not paused.
    """
    _keep_leader_out(connection)
    known = _lock_installation(connection)
    rows = _lock_actions(connection, _kept.pause_scope == INSTALLATION)
    if known is None and not rows:
        msg = "the installation is not paused; apps and actions may be, on their own"
        raise ConflictError(msg)
    connection.execute(sa.update(installation).values(**UNPAUSED))
    let_go_on(connection, rows, at=read_clock(connection), by=by)
    return len(rows)


def has_ended_pause(connection: sa.Connection, *, now: datetime) -> bool:
    """Tell whether ``end_pauses`` has anything to do, by three looks into indexes."""
    ended = [
        sa.exists().where(
            table.c.paused_until <= now, table.c.paused_at.is_not(None), *alive
        )
        for table, alive in (
            (scheduled_actions, (scheduled_actions.c.deleted_at.is_(None),)),
            (small_apps, ()),
            (installation, ()),
        )
    ]
    return bool(connection.execute(sa.select(sa.or_(*ended))).scalar())


def end_pauses(connection: sa.Connection, *, now: datetime) -> int:
    """
    End the pauses whose time has come, each at its own instant.

    So what comes due at the very end of a pause is in effect again, however late the
    tick is that sees it: what that tick decides is left to the window and catch_up.

    Args:
        connection: Of the leader, in a transaction that has checked the lease.

        now: Aware UTC, of the tick.

    Returns:
        How many actions go on, or stay paused with their app or the installation.
    """
    ended = 0
    above = _lock_installation(connection)
    if above is not None and above.until is not None and above.until <= now:
        connection.execute(sa.update(installation).values(**UNPAUSED))
        rows = _lock_actions(connection, _kept.pause_scope == INSTALLATION)
        let_go_on(connection, rows, at=above.until, by=SCHEDULER)
        ended += len(rows)
        above = None
    over = connection.execute(
        sa.select(small_apps.c.uid, small_apps.c.paused_until)
        .where(small_apps.c.paused_until <= now, small_apps.c.paused_at.is_not(None))
        .order_by(small_apps.c.uid)
        .with_for_update()
    ).all()
    for app, until in over:
        rows = _lock_actions(connection, _kept.app == app, _kept.pause_scope == APP)
        _end_pause_of_app(connection, app, rows, above, at=until, by=SCHEDULER)
        ended += len(rows)
    own = _lock_actions(
        connection, _kept.paused_until <= now, _kept.paused_at.is_not(None)
    )
    for row in own:
        over_at = row.paused_until
        of_app = hold_pause(connection, row.app)
        if of_app is None:
            let_go_on(connection, [row], at=over_at, by=SCHEDULER)
        else:
            write_pause(connection, [row], of_app, by=SCHEDULER, at=over_at)
    return ended + len(own)


def _lock_actions(
    connection: sa.Connection, *where: sa.ColumnElement[bool]
) -> Sequence[sa.Row[Any]]:
    return connection.execute(
        sa.select(scheduled_actions)
        .where(_kept.deleted_at.is_(None), *where)
        .order_by(_kept.uid)
        .with_for_update()
    ).all()


def _lock_app(connection: sa.Connection, app: str) -> Pause | None:
    row = connection.execute(
        sa.select(*(small_apps.c[name] for name in UNPAUSED))
        .where(small_apps.c.uid == app)
        .with_for_update()
    ).one_or_none()
    if row is None:
        refuse_app(connection, app)
    return get_pause(row)


def _lock_installation(connection: sa.Connection) -> Pause | None:
    row = connection.execute(
        sa.select(*(installation.c[name] for name in UNPAUSED)).with_for_update()
    ).first()
    return None if row is None else get_pause(row)


def _keep_leader_out(connection: sa.Connection) -> None:
    """
    Wait for what the leader writes, and let it wait until the commit.

    Each of its transactions holds the lease first, and moves many actions in an order
    of its own: without this, each might wait for the other.
    """
    connection.execute(sa.select(leases.c.name).with_for_update())
