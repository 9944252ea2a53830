"""
Apply the holiday calendars of a small app, and retime the actions that except them.

Each change of a calendar is a new version. Actions store the days themselves, so that a
tick reads no calendars; their timing is made again when a calendar changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from actions.occurrences import next_due_at, parse_timing
from actions.posting.post import fetch_holidays
from actions.posting.revisions import change_actions, lock_actions
from actions.read_actions import is_one_of
from actions.small_apps.app_row import PartChange
from models.database.engine import read_clock
from models.database.tables import holidays, scheduled_actions
from models.days_off import DateRangeModel
from models.door.documents import read_action_object
from models.errors import InvalidDocumentError
from models.revision import Change
from models.timing import DayRange, make_timing, merge_days, timing_text

_RESOLUTION = timedelta.resolution


def apply_holidays(
    connection: sa.Connection,
    app: str,
    wanted: Mapping[str, Sequence[date | DateRangeModel]],
    *,
    now: datetime,
    by: str | None = None,
) -> tuple[PartChange, tuple[str, ...]]:
    """
    Make the holiday calendars of *app* those *wanted*.

    A calendar that is no longer listed becomes empty, since actions may still name it.

    Args:
        app: Uid of a small app that exists.
        wanted: Days and ranges of days, by the name of the calendar.
        now: Aware UTC.
        by: Who asks for it, such as ``root@host``.

    Returns:
        How many calendars were added, changed and emptied, and the uids of the
        actions whose occurrences changed.
    """
    stored = fetch_holidays(connection, app)
    asked = {name: _merge(days) for name, days in wanted.items()}
    asked |= dict.fromkeys(stored.keys() - asked.keys(), ())
    changed = [
        name
        for name, days in asked.items()
        if name not in stored or tuple(stored[name]) != days
    ]
    for name in changed:
        _add_version(connection, app, name, asked[name], now)
    retimed = _retime(connection, app, set(changed), now, by) if changed else ()
    added = len([name for name in changed if name not in stored])
    emptied = len([name for name in changed if name not in wanted])
    return PartChange(added, len(changed) - added - emptied, emptied), retimed


def _merge(days: Sequence[date | DateRangeModel]) -> tuple[DayRange, ...]:
    ranges = [
        (each.from_, each.until) if isinstance(each, DateRangeModel) else (each, each)
        for each in days
    ]
    return merge_days(ranges)


def _add_version(
    connection: sa.Connection,
    app: str,
    name: str,
    days: Sequence[DayRange],
    now: datetime,
) -> None:
    newest = (
        sa.select(sa.func.coalesce(sa.func.max(holidays.c.version), 0) + 1)
        .where(holidays.c.app == app, holidays.c.name == name)
        .scalar_subquery()
    )
    texts = [[first.isoformat(), last.isoformat()] for first, last in days]
    connection.execute(
        sa.insert(holidays).values(
            app=app, name=name, version=newest, days=texts, created_at=now
        )
    )


def _retime(
    connection: sa.Connection,
    app: str,
    changed: set[str],
    now: datetime,
    by: str | None,
) -> tuple[str, ...]:
    """Make the timing of the actions of *app* that except a changed calendar."""
    naming = _find_naming(connection, app, changed)
    rows = lock_actions(connection, is_one_of(connection, naming))
    known = fetch_holidays(connection, app)
    written = read_clock(connection)
    retimed: list[tuple[sa.Row[Any], Mapping[str, object]]] = []
    for row in rows:
        try:
            action = read_action_object(row.document)
        except InvalidDocumentError:
            continue  # quarantined, or will be when it is due
        timing = make_timing(action, created_at=row.created_at, holidays=known)
        assert timing is not None  # the query asked for time-driven ones
        text = timing_text(timing)
        if text == row.timing:
            continue
        due_at = next_due_at(
            parse_timing(text),
            row.uid,
            after=min(row.next_due_at or now, now) - _RESOLUTION,
            effective_from=row.effective_from,
        )
        values = {"timing": text, "next_due_at": due_at, "updated_at": written}
        retimed.append((row, values))
    change_actions(connection, retimed, Change.HOLIDAYS, by=by)
    return tuple(row.uid for row, _ in retimed)


def _find_naming(
    connection: sa.Connection, app: str, changed: set[str]
) -> Sequence[str]:
    """
    Return the time-driven actions of *app* that except a changed calendar.

    Nothing is locked: a tick waits for no action that stays as it is. The documents
    cannot change meanwhile, for whoever posts one holds the app, which is locked.
    """
    kept = scheduled_actions.c
    rows = connection.execute(
        sa.select(kept.uid, kept.document).where(
            kept.app == app,
            kept.deleted_at.is_(None),
            kept.timing.is_not(None),
            sa.cast(kept.document, sa.Text).contains('"calendar"'),
        )
    )
    return [uid for uid, document in rows if not changed.isdisjoint(_name(document))]


def _name(document: Mapping[str, Any]) -> set[str]:
    """Return the calendars that a document names, even one that cannot be read."""
    excepted = document.get("except") or ()
    return {
        each["calendar"]
        for each in excepted
        if isinstance(each, dict) and "calendar" in each
    }
