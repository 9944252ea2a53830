"""
Pause and resume actions: one, or many in few statements by the same rules.

The tick looks only at an action itself to see whether it is paused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from actions.lookup import get_action
from actions.occurrences import parse_timing
from actions.pausing.pause_state import (
    ACTION,
    APP,
    INSTALLATION,
    OPERATOR,
    UNPAUSED,
    Pause,
    PauseSubject,
    begin_pause,
    find_name,
    get_pause,
    note_pause,
    refuse_other_pause,
    tag_pause,
)
from actions.posting.bounds import find_excess, hold_bounds
from actions.posting.revisions import (
    change_actions,
    lock_actions,
    refuse_action,
    require_action,
    start_from,
)
from actions.read_actions import get_action_state, is_one_of
from actions.read_rules import find_problem
from models.database.engine import read_clock
from models.database.tables import scheduled_actions
from models.errors import ConflictError, InvalidDocumentError, Problem, UsageError
from models.fields.app_bounds import NOTHING_BOUND, AppBounds
from models.json_form import ASIDE
from models.requests.notes import UNTIL_RESUMED, PauseModel
from models.revision import ActionState, Change


def pause_posted(connection: sa.Connection, uids: Sequence[str], pause: Pause) -> None:
    """Pause actions that are posted while their app is paused."""
    rows = connection.execute(
        sa.select(scheduled_actions).where(scheduled_actions.c.uid.in_(uids))
    ).all()
    by = OPERATOR if pause.scope == INSTALLATION else pause.by
    write_pause(connection, rows, pause, by=by)


def write_pause(
    connection: sa.Connection,
    rows: Sequence[sa.Row[Any]],
    pause: Pause,
    *,
    by: str | None,
    at: datetime | None = None,
) -> None:
    """Write *pause* into locked actions, as of *at* (aware UTC; None: now)."""
    values = pause.as_action_columns()
    written_at = at or read_clock(connection)
    changes = [
        # Never before an earlier revision, even if the tick is late and it was edited.
        (row, {**values, "updated_at": max(row.updated_at, written_at)})
        for row in rows
    ]
    change_actions(connection, changes, Change.PAUSED, by=by, note=pause.told)


#: The columns of an action that is not paused.
_FREE = {**UNPAUSED, "pause_scope": None}


class Refusal(StrEnum):
    """Why an action stays as it is."""

    GONE = "deleted meanwhile"
    ALREADY_PAUSED = "already paused"
    NOT_PAUSED = "not paused"
    PAUSED_ABOVE = "paused with its app or the installation"
    UNREADABLE = "its rule cannot be read"
    TOO_MUCH = "more than the bounds of its small app allow"
    TOO_LATE = "the end of the pause has passed"


@dataclass(slots=True)
class Switched:
    """How many actions were changed, how many not, by reason, and bounds in the way."""

    done: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    excess: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ActionPause:
    """Whether an action is paused; *tag* tells its pause from any other."""

    uid: str
    state: ActionState
    pause: Pause | None
    tag: str = field(metadata=ASIDE)


def fetch_action_pause(
    connection: sa.Connection, uid: str, *, app: str | None
) -> ActionPause:
    """
    Return whether an action is paused, as whoever may see only *app* is told.

    Raises:
        NotFoundError: There is no such action, or it is deleted.
    """
    row = get_action(connection, uid, app=app)
    if row.deleted_at is not None:
        refuse_action(uid)
    pause = get_pause(row)
    told = pause and pause.seen_by(app)
    return ActionPause(uid, get_action_state(row), told, tag_pause(pause))


def pause_action(
    connection: sa.Connection,
    uid: str,
    asked: PauseModel = UNTIL_RESUMED,
    *,
    app: str | None = None,
    expected: str | None = None,
    as_it_is: bool = True,
) -> bool:
    """
    Pause an action: its occurrences are not recorded.

    A paused action gets the new end and note; if it was paused with its app, it is then
    paused on its own.

    Args:
        connection: Of ``writing``, which knows who asks.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.
        expected: The ``tag_pause`` of the pause that the caller has seen. None: any.
        as_it_is: Whether a pause of its own stays as it is if neither an end nor a note
            is given. Otherwise it loses those that are not given.

    Returns:
        False if nothing had to be changed.

    Raises:
        NotFoundError: If there is no such action, or it is deleted.
        UsageError: If its end is not in the future.
        StaleError: If its pause is not the *expected* one.
    """
    row, _ = _hold(connection, uid, app, expected)
    given = begin_pause(connection, asked, ACTION)
    return bool(_pause(connection, [row], given, as_it_is=as_it_is).done)


def resume_action(
    connection: sa.Connection,
    uid: str,
    note: str | None = None,
    *,
    bounds: Mapping[str, AppBounds] = NOTHING_BOUND,
    app: str | None = None,
    expected: str | None = None,
) -> bool:
    """
    Resume an action from now on; as ``pause_action``.

    It also ends a quarantine if the action can be read again. An action that is resumed
    while its app is paused stays paused with its app.

    Raises:
        ConflictError: If it is paused with its app or the installation, not on its own.
        InvalidDocumentError: If its stored rule can no longer be read, whether it is
            paused or not; or its app would have more than *bounds* allow.
    """
    row, above = _hold(connection, uid, app, expected, bounds)
    switched = _resume(connection, [row], {row.app: above}, bounds, note)
    if Refusal.UNREADABLE in switched.refused:
        message = f"the stored rule cannot be read: {find_problem(row)}"
        hint = (
            f"Replace the rule (minutehand actions post FILE --replace --app {row.app})"
        )
        problem = Problem("/when", message, hint)
        raise InvalidDocumentError((problem,))
    if switched.excess:
        raise InvalidDocumentError(tuple(switched.excess))
    if Refusal.PAUSED_ABOVE in switched.refused:
        whose, named = "the whole installation", "--all"
        if row.pause_scope == APP:
            whose, named = f"its small app {row.app!r}", row.app
        raise ConflictError(
            f"action {uid!r} is paused together with {whose}."
            f" To resume both, resume that one (minutehand apps resume {named})"
        )
    return bool(switched.done)


def _hold(
    connection: sa.Connection,
    uid: str,
    app: str | None,
    expected: str | None,
    bounds: Mapping[str, AppBounds] = NOTHING_BOUND,
) -> tuple[sa.Row[Any], Pause | None]:
    """Lock an action; return it, and the pause that its app gives it."""
    owner = require_action(connection, uid, app=app).app
    above = hold_bounds(connection, owner, bounds)
    row = require_action(connection, uid, app=app, lock=True)
    refuse_other_pause(f"action {uid!r}", get_pause(row), expected)
    return row, above


def pause_many(
    connection: sa.Connection, uids: Sequence[str], asked: PauseModel
) -> Switched:
    """
    Pause actions, as ``pause_action`` does with each; what it refuses is counted.

    Args:
        connection: In a transaction that keeps the leader out; it locks many actions.
        uids: Of the actions, some hundreds at most.
    """
    try:
        given = begin_pause(connection, asked, ACTION)
    except UsageError:
        return Switched(0, Counter({str(Refusal.TOO_LATE): len(uids)}))
    rows = lock_actions(connection, is_one_of(connection, uids))
    switched = _pause(connection, rows, given, as_it_is=True)
    return _count_gone(switched, len(uids) - len(rows))


def resume_many(
    connection: sa.Connection,
    uids: Sequence[str],
    note: str | None,
    bounds: Mapping[str, AppBounds] = NOTHING_BOUND,
) -> Switched:
    """As ``resume_action``, of an app all or none; as ``pause_many``."""
    apps = connection.execute(
        sa.select(scheduled_actions.c.app).distinct().where(is_one_of(connection, uids))
    ).scalars()
    above = {app: hold_bounds(connection, app, bounds) for app in sorted(apps)}
    rows = lock_actions(connection, is_one_of(connection, uids))
    switched = _resume(connection, rows, above, bounds, note)
    return _count_gone(switched, len(uids) - len(rows))


def _pause(
    connection: sa.Connection,
    rows: Sequence[sa.Row[Any]],
    given: Pause,
    *,
    as_it_is: bool,
) -> Switched:
    switched = Switched()
    wanted = (given.until, given.note)
    begun, changed = [], []
    for row in rows:
        known = get_pause(row)
        if known is None or not known.is_own:
            begun.append(row)
        elif wanted == (known.until, known.note) or (
            as_it_is and wanted == (None, None)
        ):
            switched.refused[Refusal.ALREADY_PAUSED] += 1
        else:  # each has been paused since another instant
            changed.append((row, replace(given, at=known.at)))
    write_pause(connection, begun, given, by=given.by)
    for row, pause in changed:
        write_pause(connection, [row], pause, by=given.by)
    for row, pause in [*((row, given) for row in begun), *changed]:
        _note(connection, row, pause, given.note)
        switched.done += 1
    return switched


def _resume(
    connection: sa.Connection,
    rows: Sequence[sa.Row[Any]],
    above: Mapping[str, Pause | None],
    bounds: Mapping[str, AppBounds],
    note: str | None,
) -> Switched:
    switched, now, by = Switched(), read_clock(connection), find_name(connection)
    resumed: list[tuple[sa.Row[Any], dict[str, object]]] = []
    refused = {row.uid: _refuse_to_resume(row) for row in rows}
    for app in {row.app for row in rows if above.get(row.app) is None}:
        those = [row for row in rows if row.app == app and not refused[row.uid]]
        pairs = [(e, {"timing": e.timing, "active": e.active}) for e in those]
        if excess := find_excess(connection, app, bounds, pairs):
            switched.excess += excess.values()
            refused |= {row.uid: Refusal.TOO_MUCH for row in those}
    for row in rows:
        if refusal := refused[row.uid]:
            switched.refused[refusal] += 1
            continue
        held = above.get(row.app)
        if held is not None and row.paused_at is not None:
            write_pause(connection, [row], held, by=by)
        else:
            started = _start(row, now, timedelta(0))
            resumed.append((row, {**_FREE, "updated_at": now, **started}))
        _note(connection, row, None, note)
        switched.done += 1
    change_actions(connection, resumed, Change.RESUMED, by=by, note=note)
    return switched


def _start(row: sa.Row[Any], now: datetime, lookback: timedelta) -> dict[str, object]:
    """Return the columns of an action whose stored rule takes effect *now*."""
    schedule = None if row.timing is None else parse_timing(row.timing)
    is_ticked = row.follows is None
    return start_from(row.uid, schedule, now, lookback, is_ticked=is_ticked)


def _refuse_to_resume(row: sa.Row[Any]) -> Refusal | None:
    # Before all else: an action that no tick has quarantined yet may be unreadable.
    if find_problem(row) is not None:
        return Refusal.UNREADABLE
    if row.paused_at is None and row.quarantined_at is None:
        return Refusal.NOT_PAUSED
    return None if row.pause_scope is None else Refusal.PAUSED_ABOVE


def _note(
    connection: sa.Connection, row: sa.Row[Any], after: Pause | None, note: str | None
) -> None:
    subject = PauseSubject(ACTION, row.uid, row.app)
    note_pause(connection, subject, get_pause(row), after, note)


def _count_gone(switched: Switched, gone: int) -> Switched:
    switched.refused += Counter({str(Refusal.GONE): gone})
    return switched


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
        values = {**_FREE, "updated_at": max(over_at, row.updated_at)}
        if row.quarantined_at is not None:
            changes.append((row, values))
        elif problem := find_problem(row):
            values |= {"quarantined_at": over_at, "quarantine_reason": problem}
            broken.append((row, values))
        else:
            start = max(over_at, row.effective_from)
            # A due date at that very instant is not over.
            values |= _start(row, start, timedelta.resolution)
            changes.append((row, values))
    change_actions(connection, changes, Change.RESUMED, by=by)
    change_actions(connection, broken, Change.QUARANTINED, by=by)
