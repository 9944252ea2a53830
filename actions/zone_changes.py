"""
Notice when a new time zone database moves the occurrences of stored actions.

A government changes its clocks, tzdata is upgraded, and an action that was due at 06:00
UTC is now due at 07:00. The due instants computed with the older rules are then wrong.
So the rules of every zone in use are stored, and the next leader compares them. It does
the same when a new version of the programs reads rules in another way.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib.metadata import version
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from actions.occurrences import Schedule, parse_timing
from actions.when.rule import Rule
from actions.when.searching import find_each
from models.database.engine import db_now
from models.database.tables import scheduled_actions, zones
from models.errors import RuleError
from models.fields.zone import get_zone_names, read_zone_data
from models.when import TimingModel

#: How far ahead moved instants are reported.
REPORTED = timedelta(days=366)

#: The most occurrences of a rule that are compared. A rule with more of them, such as
#: one that is due every minute, follows the clock, so they do not move.
_LOOKED_AT = 2000

#: The most that doctor is told of.
_MOST = 100

_action = scheduled_actions.c


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


def remember_zones(connection: sa.Connection, names: Iterable[str]) -> None:
    """Store the rules of zones that are used for the first time."""
    rows = [{"name": name, "data": read_zone_data(name)} for name in sorted(set(names))]
    if rows:
        statement = insert(zones).values(
            version=version("tzdata"), recorded_at=db_now()
        )
        connection.execute(statement.on_conflict_do_nothing(), rows)


def get_zone_names_of(timing: TimingModel) -> set[str]:
    """Return the zones in which the rules of *timing* are read."""
    schedule = parse_timing(timing.model_dump_json())
    return {rule.zone.key for rule in schedule.rules}


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
    stored = connection.execute(sa.select(zones.c.name)).scalars()
    withdrawn = set(stored) - get_zone_names()
    changed = {name for name, _old in fetch_changed(connection)}
    for name in sorted(changed | withdrawn):
        for row in fetch_users_of(connection, name):
            reason = parse_or_explain(row.timing)
            if isinstance(reason, str) and is_ahead(row):
                found.append(Unreadable(row.uid, name, reason))
                if len(found) >= _MOST:
                    return found
    return found


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


def fetch_users_of(connection: sa.Connection, name: str) -> list[sa.Row[Any]]:
    """Return the actions whose stored timing has a rule in a zone."""
    query = sa.select(
        *(_action.uid, _action.revision, _action.timing, _action.effective_from),
        *(_action.next_due_at, _action.quarantined_at),
    ).where(
        _action.deleted_at.is_(None),
        _action.timing.contains(f'"{name}"', autoescape=True)
        # A calendar rule may name its zone itself.
        | _action.timing.contains(f' {name}"', autoescape=True),
    )
    return list(connection.execute(query.order_by(_action.uid)))


def read_in_older(schedule: Schedule, older: Mapping[str, ZoneInfo]) -> Schedule | None:
    """
    Return *schedule* by the older rules of its zones, without what had no reading then.

    Args:
        older: The zones that have changed, as they were.

    Returns:
        None if none of its zones has changed.
    """
    if not any(rule.zone.key in older for rule in schedule.rules):
        return None
    rules = []
    for rule in schedule.rules:
        with suppress(RuleError):
            rules.append(rule.in_zone(older.get(rule.zone.key, rule.zone)))
    return replace(schedule, rules=tuple(rules))


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
