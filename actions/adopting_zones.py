"""
Adopt a new time zone database: compute anew what it moves; see zone_changes.

Thousands of actions may use a zone, so this is done in parts. The ticks in between read
all rules by the new database, whether the instant that an action is due next was
computed anew or not. How far it is stands beside the lease, so that the next leader
goes on with it.

The log and the metrics, which only this needs, take a while to import.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa
import structlog

from actions.decide import ActionRevision
from actions.due_rows import advance, quarantine
from actions.lease import LEASE_NAME, write_lease
from actions.occurrences import Due, Schedule, walk_due
from actions.zone_changes import (
    fetch_changed,
    is_ahead,
    parse_or_explain,
    read_in_older,
)
from models.database.engine import db_now, read_clock
from models.database.tables import leases, operations, scheduled_actions, zones
from models.decision import Decision
from models.fields.zone import get_zone_names, read_zone_data
from models.operation_state import Trigger
from telemetry import ACTIONS_QUARANTINED, Event

log = structlog.get_logger()

_RESOLUTION = timedelta.resolution

_action = scheduled_actions.c


@dataclass(frozen=True, slots=True)
class ChangedZones:
    """
    The zones to adopt.

    Args:
        names: Of those whose actions are to be looked at.
        older: Those that have changed, as they were.
    """

    names: frozenset[str]
    older: Mapping[str, ZoneInfo]


def begin_adoption(
    connection: sa.Connection, *, ticked_at: datetime
) -> ChangedZones | None:
    """
    Begin to adopt the time zone database in use, or go on with it.

    Args:
        connection: In a transaction of a new leader, before its first tick.
        ticked_at: The last tick, aware UTC.

    Returns:
        None if all is adopted.
    """
    older = dict(fetch_changed(connection))
    names = set(older)
    begun = _fetch_progress(connection)
    if begun is None and not names:
        return None
    if begun is None or begun.adopting != version("tzdata"):
        # Ticks since have decided by another database, up to the last of them.
        _write_progress(connection, adopting_after=ticked_at, adopted_until="")
    if begun is not None:
        # That database may have moved what uses zones that are to us as they were.
        stored = connection.execute(sa.select(zones.c.name)).scalars()
        names = set(stored) & get_zone_names()
    return ChangedZones(frozenset(names), older)


def date_adoption_back(connection: sa.Connection, *, now: datetime) -> None:
    """Follow a clock that was set back to *now*: from then on it is decided anew."""
    write_lease(connection, leases.c.adopting_after > now, adopting_after=now)


def adopt_part(
    connection: sa.Connection,
    changed: ChangedZones,
    *,
    ticked_at: datetime,
    at_most: int,
) -> bool:
    """
    Compute anew when some actions are due; after the last of them, store the rules.

    Actions that become unreadable go into quarantine, long before they are due. A zone
    that is gone is ignored: the next leader, on another host, may have it.

    Args:
        connection: In a transaction of the leader.
        ticked_at: The last tick, aware UTC.
        at_most: How many actions to look at.

    Returns:
        Whether more is left.
    """
    progress = _fetch_progress(connection)
    if progress is None:
        return False
    query: sa.Select[Any] = (
        sa.select(
            *(_action.uid, _action.revision, _action.timing, _action.event),
            *(_action.zone, _action.effective_from),
            *(_action.next_due_at, _action.quarantined_at),
        )
        .where(_action.uid > progress.adopted_until, _action.deleted_at.is_(None))
        .order_by(_action.uid)
        .limit(at_most)
    )
    rows = connection.execute(query).all()
    _recompute(connection, changed, rows, progress.adopting_after, ticked_at)
    if len(rows) == at_most:
        _write_progress(connection, adopted_until=rows[-1].uid)
        return True
    update = sa.update(zones).values(version=version("tzdata"), recorded_at=db_now())
    for name in sorted(changed.names):
        of_zone = update.where(zones.c.name == name)
        connection.execute(of_zone.values(data=read_zone_data(name)))
    _write_progress(connection, adopting=None, adopting_after=None, adopted_until=None)
    return False


def _fetch_progress(connection: sa.Connection) -> sa.Row[Any] | None:
    kept = leases.c
    query: sa.Select[Any] = sa.select(
        kept.adopting, kept.adopting_after, kept.adopted_until
    ).where(kept.name == LEASE_NAME, kept.adopting.is_not(None))
    return connection.execute(query).one_or_none()


def _write_progress(connection: sa.Connection, **values: object) -> None:
    write_lease(connection, **{"adopting": version("tzdata"), **values})


def _recompute(
    connection: sa.Connection,
    changed: ChangedZones,
    rows: Sequence[sa.Row[Any]],
    after: datetime,
    ticked_at: datetime,
) -> None:
    """Store when actions are due after *after*: whatever was due by then is decided."""
    moved: dict[str, tuple[sa.Row[Any], Due | None]] = {}
    for row in _find_users(changed, rows):
        # What is due is for the next tick, which reads it by the new rules.
        if row.next_due_at is not None and row.next_due_at <= after:
            continue
        if row.event is not None:
            if row.next_due_at is not None:
                # The tick finds anew when the next one is.
                moved[row.uid] = row, Due(after, after + _RESOLUTION)
            continue
        schedule = parse_or_explain(row.timing)
        if isinstance(schedule, str):
            _quarantine(connection, row, schedule)
            continue
        due = _find_next(schedule, row, after, changed.older)
        if row.next_due_at != (None if due is None else due.due_at):
            moved[row.uid] = row, due
    for uid in _fetch_decided(connection, moved, ticked_at):
        del moved[uid]
    if moved:
        decisions = [
            Decision(row.uid, row.revision, None if due is None else due.due_at)
            for row, due in moved.values()
        ]
        advance(connection, decisions)


def _find_users(
    changed: ChangedZones, rows: Sequence[sa.Row[Any]]
) -> Iterator[sa.Row[Any]]:
    """Yield the actions that are read in one of the zones."""
    # A calendar rule may name its zone itself, after a blank.
    named = re.compile(f'[" ](?:{"|".join(map(re.escape, changed.names))})"')
    for row in rows:
        if row.event is not None:
            uses = row.zone in changed.names
        else:
            uses = row.timing is not None and bool(named.search(row.timing))
        if uses:
            yield row


def _quarantine(connection: sa.Connection, row: sa.Row[Any], reason: str) -> None:
    if is_ahead(row):
        bad = ActionRevision(row.uid, row.revision)
        quarantine(connection, bad, reason, now=read_clock(connection))
        log.warning(Event.ACTION_QUARANTINED, action_uid=row.uid, reason=reason)
        ACTIONS_QUARANTINED.inc()


def _find_next(
    schedule: Schedule, row: sa.Row[Any], after: datetime, older: Mapping[str, ZoneInfo]
) -> Due | None:
    """Return what is due first after *after*, but for what the older clocks had run."""
    before = read_in_older(schedule, older)
    dues = walk_due(
        schedule, row.uid, start=after + _RESOLUTION, effective_from=row.effective_from
    )
    for due in dues:
        was = None if before is None else _find_former(schedule, before, due, older)
        if before is None or was is None or before.due_at(was, row.uid) > after:
            return due
    return None


def _find_former(
    schedule: Schedule, before: Schedule, due: Due, older: Mapping[str, ZoneInfo]
) -> datetime | None:
    """Return when the older clocks had the local time of *due*; None: they had not."""
    at = due.occurrence
    if before.next_from(at) == at:
        return at  # each hour is each hour
    for rule in schedule.rules:
        zone = older.get(rule.zone.key)
        if zone is not None and rule.next_from(at) == at:
            was = at.astimezone(rule.zone).replace(tzinfo=zone).astimezone(UTC)
            if before.next_from(was) == was:
                return was
    return None


def _fetch_decided(
    connection: sa.Connection,
    moved: Mapping[str, tuple[sa.Row[Any], Due | None]],
    ticked_at: datetime,
) -> set[str]:
    """
    Return the actions about which ticks have decided since this began.

    Deciding again adds nothing within the look-back, for there are rows. But what is
    older by now, such as after an outage, would be recorded as missed.
    """
    since = {
        uid: (row.event is not None, due.occurrence)
        for uid, (row, due) in moved.items()
        if due is not None and due.due_at <= ticked_at
    }
    if not since:
        return set()
    recorded = connection.execute(
        sa.select(operations.c.action_uid, operations.c.occurrence).where(
            operations.c.action_uid.in_(since),
            operations.c.occurrence >= min(first for _, first in since.values()),
            operations.c.trigger.in_([Trigger.SCHEDULE, Trigger.EVENT]),
        )
    )
    return {
        uid
        for uid, occurrence in recorded
        for is_of_event, first in [since[uid]]
        if (occurrence > first if is_of_event else occurrence == first)
    }
