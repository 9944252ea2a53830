"""
Notice when a new time zone database moves the occurrences of stored actions.

A government changes its clocks, tzdata is upgraded, and an action that was due at 06:00
UTC is now due at 07:00. The due instants computed with the older rules are then wrong.
So the rules of every zone in use are stored, and the next leader compares them. It does
the same when a new version of the programs reads rules in another way.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.occurrences import Schedule, parse_timing
from actions.when.rule import Rule
from actions.when.searching import find_each
from actions.zones_in_use import (
    READING,
    read_zone_data,
)
from models.database.tables import scheduled_actions, zones
from models.errors import RuleError
from models.fields.zone import get_zone_names, load_zone

#: How far ahead moved instants are reported.
REPORTED = timedelta(days=366)

#: The most occurrences of a rule that are compared. A rule with more of them, such as
#: one that is due every minute, follows the clock, so they do not move.
_LOOKED_AT = 2000

#: The most that doctor is told of.
_MOST = 100

#: The timings that the last change of the reading moves: intervals with a date part.
MOVED = re.compile(r'"every":"P[^T"]')

#: What all of them contain, for the database, and few others.
_BY_DATE = '"every":"P'

_kept = scheduled_actions.c


@dataclass(frozen=True, slots=True)
class MovedInstant:
    """An occurrence that the new rules of its zone move; instants are aware UTC."""

    action_uid: str
    zone: str
    before: datetime
    after: datetime


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An action with a rule that cannot be read with the time zone database in use."""

    action_uid: str
    zone: str
    reason: str


def find_moved(
    connection: sa.Connection, *, now: datetime, limit: int = _MOST
) -> list[MovedInstant]:
    """
    Return occurrences of the coming year that the time zone database in use moves.

    Args:
        now: Aware UTC.
    """
    moved: list[MovedInstant] = []
    for name, old in fetch_changed(connection):
        for row in fetch_users_of(connection, name):
            schedule = parse_or_explain(row.timing)
            if isinstance(schedule, str):
                continue  # find_unreadable reports it
            for before, after in _compare(schedule, name, old, now):
                moved.append(MovedInstant(row.uid, name, before, after))
                if len(moved) >= limit:
                    return moved
    return moved


def find_unreadable(connection: sa.Connection) -> list[Unreadable]:
    """
    Return actions that cannot be read with the time zone database in use.

    Their zone is gone, or has a gap now where they are due. The next leader, or the
    tick that finds them due, puts them into quarantine. Actions that are in quarantine
    already are not returned.
    """
    found: list[Unreadable] = []
    changed = [name for name, _old in fetch_changed(connection)]
    for name in sorted({*changed, *_fetch_withdrawn(connection)}):
        for row in fetch_users_of(connection, name):
            reason = parse_or_explain(row.timing)
            if isinstance(reason, str) and is_ahead(row):
                found.append(Unreadable(row.uid, name, reason))
                if len(found) >= _MOST:
                    return found
    return found


def find_reread(connection: sa.Connection, *, now: datetime) -> list[tuple[str, str]]:
    """
    Return the actions, and their zones, that the next leader reads in another way.

    Their intervals have days, and the zone changes its clocks within a year of *now*
    (aware). Once a leader of this version leads, there are none.
    """
    names = fetch_names_read_otherwise(connection)
    found = (
        (row.uid, name)
        for name in sorted(names)
        if _changes_clocks(load_zone(name), now)
        for row in fetch_users_of(connection, name, _kept.timing.contains(_BY_DATE))
        if MOVED.search(row.timing)
    )
    return list(islice(found, _MOST))


def _changes_clocks(zone: ZoneInfo, now: datetime) -> bool:
    months = (now + timedelta(days=30 * n) for n in range(13))
    return len({each.astimezone(zone).utcoffset() for each in months}) > 1


def parse_or_explain(timing: str) -> Schedule | str:
    """Return the schedule of a stored timing, or why it cannot be read."""
    try:
        return parse_timing(timing)
    except RuleError as error:
        return str(error)


def is_ahead(row: sa.Row[Any]) -> bool:
    """Return whether an action will be due, and is not in quarantine."""
    return row.next_due_at is not None and row.quarantined_at is None


def fetch_changed(connection: sa.Connection) -> Iterator[tuple[str, ZoneInfo]]:
    """Yield the zones whose rules differ from the stored ones, as they are stored."""
    known = get_zone_names()
    rows = connection.execute(
        sa.select(zones.c.name, zones.c.data).order_by(zones.c.name)
    ).all()
    for name, data in rows:
        if name in known and bytes(data) != read_zone_data(name):
            yield name, ZoneInfo.from_file(io.BytesIO(data), key=name)


def fetch_names_read_otherwise(connection: sa.Connection) -> set[str]:
    """Return the stored zones that another version of the programs read last."""
    mine = zones.c.version.endswith(f", reading {READING}")
    names = connection.execute(sa.select(zones.c.name).where(~mine)).scalars()
    return set(names) & get_zone_names()


def _fetch_withdrawn(connection: sa.Connection) -> list[str]:
    """Return the stored zones that the time zone database in use does not have."""
    known = get_zone_names()
    names = connection.execute(sa.select(zones.c.name)).scalars()
    return [name for name in names if name not in known]


def _uses(name: str) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        _kept.deleted_at.is_(None),
        _kept.timing.contains(f'"{name}"', autoescape=True)
        # A calendar rule may name its zone itself.
        | _kept.timing.contains(f' {name}"', autoescape=True),
    )


def fetch_users_of(
    connection: sa.Connection, name: str, *where: sa.ColumnElement[bool]
) -> list[sa.Row[Any]]:
    """Return the actions whose rules name the zone *name*, by uid."""
    query = sa.select(
        _kept.uid,
        _kept.revision,
        _kept.timing,
        _kept.effective_from,
        _kept.next_due_at,
        _kept.quarantined_at,
    )
    query = query.where(*_uses(name), *where)
    return list(connection.execute(query.order_by(_kept.uid)))


def _compare(
    schedule: Schedule, name: str, old: ZoneInfo, now: datetime
) -> Iterator[tuple[datetime, datetime]]:
    """
    Yield the occurrences that the new rules of a zone move: before and after.

    Rules that follow the clock (each hour) or count elapsed time do not move.
    """
    for rule in schedule.rules:
        if rule.zone.key != name:
            continue
        try:
            older = rule.in_zone(old)
        except RuleError:
            continue  # its local time did not exist under the older rules
        later, earlier = _find(schedule, rule, now), _find(schedule, older, now)
        # The same wall-clock time is the same occurrence, at whatever instant.
        was = {each.astimezone(old).replace(tzinfo=None): each for each in earlier}
        same = set(earlier)
        for after in later:
            before = was.get(after.astimezone(rule.zone).replace(tzinfo=None))
            if before is not None and before != after and after not in same:
                yield before, after


def _find(schedule: Schedule, rule: Rule, now: datetime) -> list[datetime]:
    alone = replace(schedule, rules=(rule,))
    return list(islice(find_each(alone, now, now + REPORTED), _LOOKED_AT))
