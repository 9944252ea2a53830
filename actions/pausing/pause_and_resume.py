"""
Pause and resume an action, a small app, or the whole installation.

The tick looks only at an action itself to see whether it is paused. So a pause of an
app is written into each of its actions, with its scope. An action that is paused on its
own stays paused when its app is resumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from actions.lookup import refuse_app
from actions.occurrences import Schedule, parse_timing
from actions.pausing.noting import note_pause, note_pause_of_all
from actions.pausing.pause_state import (
    APP,
    INSTALLATION,
    UNPAUSED,
    Pause,
    begin_pause,
    get_pause,
    hold_pause,
    select_pause,
    tag_pause,
    write_pause,
)
from actions.posting.effective_from import start_from
from actions.posting.revisions import (
    change_actions,
    get_app_of,
    lock_action,
)
from actions.read_rules import find_problem
from models.database.engine import read_clock
from models.database.leader_lock import keep_leader_out
from models.database.tables import installation, scheduled_actions, small_apps
from models.errors import (
    ConflictError,
    InvalidDocumentError,
    Problem,
    StaleError,
)
from models.operation_state import Queue
from models.revision import Change

_kept = scheduled_actions.c


def set_paused(  # noqa: PLR0913 - all but two have a default
    connection: sa.Connection,
    uid: str,
    *,
    paused: bool,
    until: datetime | None = None,
    note: str | None = None,
    by: str | None = None,
    app: str | None = None,
    expected: str | None = None,
    as_it_is: bool = True,
) -> bool:
    """
    Pause an action (its occurrences are not recorded), or resume it from now on.

    Resuming also ends a quarantine if the action can be read again. Pausing a paused
    action gives it the new *until* and *note*; if it was paused with its app, it is
    then paused on its own. An action that is resumed while its app is paused stays
    paused with its app.

    Args:
        paused: True to pause it, False to resume it.
        until: When the pause ends by itself, aware, exclusive.
        note: Why it is paused, or resumed.
        by: Who asks for it, such as ``root@host``.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.
        as_it_is: Whether a pause of its own stays as it is if neither *until* nor
            *note* is given. Otherwise it loses those that are not given.
        expected: The ``tag_pause`` of the pause that the caller has seen. None: any.

    Returns:
        False if nothing had to be changed.

    Raises:
        NotFoundError: If there is no such action, or it is deleted.
        UsageError: If *until* is not in the future.
        StaleError: If its pause is not the *expected* one.
        ConflictError: If it is paused with its app or the installation, not on its own.
        InvalidDocumentError: If it is to be resumed but its stored rule can no longer
            be read, whether it is paused or not.
    """
    above = hold_pause(connection, get_app_of(connection, uid, app=app))
    row = lock_action(connection, uid, app=app)
    _refuse_other_pause(row, expected)
    if paused:
        given = begin_pause(connection, until, note, by)
        return _pause_one(connection, row, given, as_it_is=as_it_is)
    # Before all else: an action that no tick has quarantined yet may be unreadable.
    schedule = _read_stored(row)
    if row.paused_at is None and row.quarantined_at is None:
        return False
    if row.pause_scope is not None:
        raise ConflictError(_say_whose(row))
    if above is not None and row.paused_at is not None:
        write_pause(connection, [row], above, by=by)
        note_pause(connection, row, Change.RESUMED, note)
        return True
    now = read_clock(connection)
    started = start_from(uid, schedule, now, timedelta(0))
    values = {**UNPAUSED, "pause_scope": None, "updated_at": now, **started}
    change_actions(connection, [(row, values)], Change.RESUMED, by=by, note=note)
    note_pause(connection, row, Change.RESUMED, note)
    return True


def _refuse_other_pause(row: sa.Row[Any], expected: str | None) -> None:
    current = tag_pause(get_pause(row))
    if expected is not None and expected != current:
        msg = (
            f"the pause of action {row.uid!r} was changed meanwhile. Read it again, and"
            " decide on what it is now"
        )
        raise StaleError(msg, current=current)


def _pause_one(
    connection: sa.Connection, row: sa.Row[Any], given: Pause, *, as_it_is: bool
) -> bool:
    known = get_pause(row)
    if known is not None and known.is_own:
        wanted = (given.until, given.note)
        if wanted == (known.until, known.note):
            return False
        if as_it_is and wanted == (None, None):
            return False
        given = replace(given, at=known.at)  # it has been paused since then
    write_pause(connection, [row], given, by=given.by)
    note_pause(connection, row, Change.PAUSED, given.note, given)
    return True


def _say_whose(row: sa.Row[Any]) -> str:
    if row.pause_scope == APP:
        whose, command = f"its small app {row.app!r}", f"apps resume {row.app}"
    else:
        whose, command = "the whole installation", "apps resume --all"
    return (
        f"action {row.uid!r} is paused together with {whose}."
        f" To resume both: minutehand {command}"
    )


def _read_stored(row: sa.Row[Any]) -> Schedule | None:
    """Return the schedule of an action; None if events drive it."""
    found = find_problem(row)
    if found is not None:
        message = f"the stored rule cannot be read: {found}"
        command = f"minutehand actions post FILE --replace --app {row.app}"
        problem = Problem("/when", message, f"Replace the rule: {command}")
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
    Pause a small app: all its actions, and those that are posted during the pause.

    Args:
        until: When it ends by itself, aware, exclusive; None: when it is resumed.
        by: Who asks for it, such as ``root@host``.

    Returns:
        How many actions are paused with it. Those that were already paused on their own
        stay so.

    Raises:
        NotFoundError: If there is no such small app.
        UsageError: If *until* is not in the future.
    """
    keep_leader_out(connection)
    pause = begin_pause(connection, until, note, by, APP)
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
    rows = lock_actions(
        connection,
        _kept.app == app,
        sa.or_(_kept.paused_at.is_(None), _kept.pause_scope.is_not(None)),
    )
    write_pause(connection, [r for r in rows if get_pause(r) != pause], pause, by=by)
    note_pause_of_all(connection, app, known, pause, len(rows), note)
    return len(rows)


def resume_app(
    connection: sa.Connection,
    app: str,
    *,
    note: str | None = None,
    by: str | None = None,
) -> int:
    """
    Resume a small app from now on; actions that are paused on their own stay so.

    Args:
        note: Why; for the record of changes.

    Returns:
        How many actions were paused with it.

    Raises:
        NotFoundError: If there is no such small app.
        ConflictError: If it is not paused, or only together with the installation.
    """
    keep_leader_out(connection)
    above = select_pause(connection, installation, sa.true())
    known = _lock_app(connection, app)
    rows = lock_actions(connection, _kept.app == app, _kept.pause_scope == APP)
    if known is None and not rows:
        if above is not None:
            msg = (
                f"small app {app!r} is paused together with the whole installation."
                " To resume both: minutehand apps resume --all"
            )
            raise ConflictError(msg)
        msg = f"small app {app!r} is not paused"
        raise ConflictError(msg)
    now = read_clock(connection)
    connection.execute(
        sa.update(small_apps).where(small_apps.c.uid == app).values(**UNPAUSED)
    )
    if above is None:
        let_go_on(connection, rows, at=now, by=by)
    else:
        pause = replace(above, scope=INSTALLATION)
        write_pause(connection, rows, pause, by=by, at=now)
    note_pause_of_all(connection, app, known, None, len(rows), note)
    return len(rows)


def pause_installation(
    connection: sa.Connection,
    *,
    until: datetime | None = None,
    note: str | None = None,
    by: str | None = None,
) -> int:
    """
    Pause all small apps, and what is posted during the pause, but not maintenance.

    Args:
        until: As for ``pause_app``.
        note: The same.
        by: The same.

    Returns:
        How many actions are paused with it. Those that were already paused on their own
        or with their app stay so.

    Raises:
        UsageError: If *until* is not in the future.
    """
    keep_leader_out(connection)
    pause = begin_pause(connection, until, note, by, INSTALLATION)
    known = lock_installation(connection)
    if known is not None:
        if (until, note) == (None, None):
            pause = replace(known, scope=INSTALLATION)
        pause = replace(pause, at=known.at)
    connection.execute(sa.update(installation).values(**pause.as_columns()))
    rows = lock_actions(
        connection,
        _kept.queue != Queue.DEFAULT,
        sa.or_(_kept.paused_at.is_(None), _kept.pause_scope == INSTALLATION),
    )
    write_pause(connection, [r for r in rows if get_pause(r) != pause], pause, by=by)
    note_pause_of_all(connection, None, known, pause, len(rows), note)
    return len(rows)


def resume_installation(
    connection: sa.Connection, *, note: str | None = None, by: str | None = None
) -> int:
    """
    Resume from now on all actions that were paused with the installation.

    Returns:
        How many there were; those paused on their own or with their app stay so.

    Raises:
        ConflictError: If the installation is not paused.
    """
    keep_leader_out(connection)
    known = lock_installation(connection)
    rows = lock_actions(connection, _kept.pause_scope == INSTALLATION)
    if known is None and not rows:
        msg = "the installation is not paused; single apps and actions may still be"
        raise ConflictError(msg)
    connection.execute(sa.update(installation).values(**UNPAUSED))
    let_go_on(connection, rows, at=read_clock(connection), by=by)
    note_pause_of_all(connection, None, known, None, len(rows), note)
    return len(rows)


def lock_actions(
    connection: sa.Connection,
    *where: sa.ColumnElement[bool],
    at_most: int | None = None,
) -> Sequence[sa.Row[Any]]:
    """Lock and return the actions *where* this holds, in the one order of all."""
    return connection.execute(
        sa.select(scheduled_actions)
        .where(_kept.deleted_at.is_(None), *where)
        .order_by(_kept.uid)
        .limit(at_most)
        .with_for_update()
    ).all()


def _lock_app(connection: sa.Connection, app: str) -> Pause | None:
    row = connection.execute(
        sa.select(*(small_apps.c[name] for name in UNPAUSED))
        .where(small_apps.c.uid == app, small_apps.c.deleted_at.is_(None))
        .with_for_update()
    ).one_or_none()
    if row is None:
        refuse_app(connection, app)
    return get_pause(row)


def lock_installation(connection: sa.Connection) -> Pause | None:
    """Lock the pause of the installation, and return it."""
    row = connection.execute(
        sa.select(*(installation.c[name] for name in UNPAUSED)).with_for_update()
    ).first()
    return None if row is None else get_pause(row)


def let_go_on(
    connection: sa.Connection,
    rows: Sequence[sa.Row[Any]],
    *,
    at: datetime | None,
    by: str | None,
) -> None:
    """
    Let actions go on; quarantine those that cannot be read.

    Args:
        connection: In a transaction that has locked them.
        rows: As they were.
        at: From when on, aware UTC. None: each from the end of its pause.
        by: Who lets them.
    """
    changes: list[tuple[sa.Row[Any], dict[str, object]]] = []
    broken: list[tuple[sa.Row[Any], dict[str, object]]] = []
    for row in rows:
        over_at = at or row.paused_until
        # Never before an earlier revision, even if the tick is late and it was edited.
        values = {
            **UNPAUSED,
            "pause_scope": None,
            "updated_at": max(over_at, row.updated_at),
        }
        if row.quarantined_at is not None:
            changes.append((row, values))
            continue
        problem = find_problem(row)
        if problem is not None:
            values |= {"quarantined_at": over_at, "quarantine_reason": problem}
            broken.append((row, values))
            continue
        schedule = None if row.timing is None else parse_timing(row.timing)
        start = max(over_at, row.effective_from)
        # A due date at that very instant is not over.
        values |= start_from(row.uid, schedule, start, timedelta.resolution)
        changes.append((row, values))
    if changes:
        change_actions(connection, changes, Change.RESUMED, by=by)
    if broken:
        change_actions(connection, broken, Change.QUARANTINED, by=by)
