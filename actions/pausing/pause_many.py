"""
Pause or resume many actions in few statements, each by the rules for a single one.

The rules are those of ``set_paused``; what it refuses is counted here, by reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from actions.occurrences import parse_timing
from actions.pausing.noting import note_pause
from actions.pausing.pause_state import (
    ACTION,
    UNPAUSED,
    Pause,
    get_pause,
    hold_pause,
    write_pause,
)
from actions.posting.effective_from import start_from
from actions.posting.revisions import change_actions
from actions.read_rules import find_problem
from models.database.engine import json_rows, make_rows_json, read_clock
from models.database.tables import scheduled_actions
from models.revision import Change

_kept = scheduled_actions.c


class Refusal(StrEnum):
    """Why an action stays as it is."""

    GONE = "deleted meanwhile"
    ALREADY_PAUSED = "already paused"
    NOT_PAUSED = "not paused"
    PAUSED_ABOVE = "paused with its app or the installation"
    UNREADABLE = "its rule cannot be read"
    TOO_LATE = "the end of the pause has passed"


@dataclass(slots=True)
class Switched:
    """How many actions were changed, and how many were not, by reason."""

    done: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def pause_many(
    connection: sa.Connection,
    uids: Sequence[str],
    *,
    until: datetime | None,
    note: str | None,
    by: str | None,
) -> Switched:
    """
    Pause actions, as ``set_paused`` does with each of them.

    Args:
        connection: In a transaction that keeps the leader out; it locks many actions.
        uids: Of the actions, some hundreds at most.
        until: When the pauses end by themselves, aware, exclusive.
        note: Why they are paused.
    """
    now = read_clock(connection)
    if until is not None and until <= now:
        return Switched(0, Counter({str(Refusal.TOO_LATE): len(uids)}))
    rows = _lock(connection, uids)
    switched = _count_gone(uids, rows)
    given = Pause(now, until, by, note, ACTION)
    begun, changed = [], []
    for row in rows:
        known = get_pause(row)
        if known is None or not known.is_own:
            begun.append(row)
        elif (until, note) in {(None, None), (known.until, known.note)}:
            switched.refused[Refusal.ALREADY_PAUSED] += 1
        else:
            changed.append((row, replace(given, at=known.at)))
    write_pause(connection, begun, given, by=by)
    for row, pause in changed:  # each has been paused since another instant
        write_pause(connection, [row], pause, by=by)
    for row, pause in [*((row, given) for row in begun), *changed]:
        note_pause(connection, row, Change.PAUSED, note, pause)
        switched.done += 1
    return switched


def resume_many(
    connection: sa.Connection,
    uids: Sequence[str],
    *,
    note: str | None,
    by: str | None,
) -> Switched:
    """
    Resume actions from now on, as ``set_paused`` does with each of them.

    Args:
        connection: As for ``pause_many``, as are the others.
        uids: Of the actions.
        note: Why they are resumed.
    """
    apps = connection.execute(
        sa.select(_kept.app).distinct().where(_is_among(connection, uids))
    ).scalars()
    above = {app: hold_pause(connection, app) for app in sorted(apps)}
    rows = _lock(connection, uids)
    switched = _count_gone(uids, rows)
    now = read_clock(connection)
    resumed: list[tuple[sa.Row[Any], dict[str, object]]] = []
    for row in rows:
        if refusal := _refuse_to_resume(row):
            switched.refused[refusal] += 1
            continue
        held = above.get(row.app)
        if held is not None and row.paused_at is not None:
            write_pause(connection, [row], held, by=by)
        else:
            schedule = None if row.timing is None else parse_timing(row.timing)
            started = start_from(row.uid, schedule, now, timedelta(0))
            values = {**UNPAUSED, "pause_scope": None, "updated_at": now, **started}
            resumed.append((row, values))
        note_pause(connection, row, Change.RESUMED, note)
        switched.done += 1
    change_actions(connection, resumed, Change.RESUMED, by=by, note=note)
    return switched


def _refuse_to_resume(row: sa.Row[Any]) -> Refusal | None:
    if find_problem(row) is not None:
        return Refusal.UNREADABLE
    if row.paused_at is None and row.quarantined_at is None:
        return Refusal.NOT_PAUSED
    return None if row.pause_scope is None else Refusal.PAUSED_ABOVE


def _is_among(connection: sa.Connection, uids: Sequence[str]) -> sa.ColumnElement[bool]:
    given = json_rows(connection.dialect.name, {"uid": sa.Text()}, "among")
    rows = make_rows_json([{"uid": uid} for uid in uids])
    return _kept.uid.in_(sa.select(given.c.uid).params(among=rows))


def _lock(connection: sa.Connection, uids: Sequence[str]) -> Sequence[sa.Row[Any]]:
    return connection.execute(
        sa.select(scheduled_actions)
        .where(_is_among(connection, uids), _kept.deleted_at.is_(None))
        .order_by(_kept.uid)
        .with_for_update(of=scheduled_actions)
    ).all()


def _count_gone(uids: Sequence[str], rows: Sequence[sa.Row[Any]]) -> Switched:
    gone = len(uids) - len(rows)
    return Switched(0, +Counter({str(Refusal.GONE): gone}))
