"""
Notice when a new tz database moves the instants of stored actions.

A government changes its clocks, tzdata is upgraded, and what was due at 06:00 UTC
is due at 07:00. What was computed with the older rules is then wrong. So the rules
of every zone in use are kept as they were; the next leader compares.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from importlib import resources
from importlib.metadata import version
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa
import structlog
from sqlalchemy.dialects.postgresql import insert

from actions.due_action import ActionRevision
from actions.due_rows import advance, quarantine
from actions.occurrences import Schedule, next_due, parse_timing
from actions.when.rule import Rule
from actions.when.searching import find_each
from models.database.engine import db_now, read_clock
from models.database.tables import scheduled_actions, zones
from models.decision import Decision
from models.errors import RuleError
from models.fields.zone import get_zone_names
from models.when import TimingModel
from telemetry import ACTIONS_QUARANTINED, Event

log = structlog.get_logger()

#: How far ahead moved instants are reported.
REPORTED = timedelta(days=366)

#: Occurrences of a rule looked at; a minutely one has more, none of which move.
_LOOKED_AT = 2000

#: Actions moved on in one statement.
_CHUNK = 1000

_kept = scheduled_actions.c


@dataclass(frozen=True, slots=True)
class MovedInstant:
    """An occurrence that the new rules of its zone move; both aware UTC."""

    action_uid: str
    zone: str
    before: datetime
    after: datetime


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An action with a rule that the tz database in use has no reading for."""

    action_uid: str
    zone: str
    reason: str


@cache
def _read_zone_data(name: str) -> bytes:
    """Return the rules of a zone that is known to exist."""
    return resources.files("tzdata").joinpath(f"zoneinfo/{name}").read_bytes()


def remember_zones(connection: sa.Connection, names: Iterable[str]) -> None:
    """Keep the rules of zones that are used for the first time."""
    rows = [
        {"name": name, "data": _read_zone_data(name), "version": version("tzdata")}
        for name in sorted(set(names))
    ]
    if rows:
        statement = insert(zones).values(recorded_at=db_now())
        connection.execute(statement.on_conflict_do_nothing(), rows)


def get_zone_names_of(timing: TimingModel) -> set[str]:
    """Return the zones in which the rules of *timing* are read."""
    schedule = parse_timing(timing.model_dump_json())
    return {rule.zone.key for rule in schedule.rules}


def find_moved(
    connection: sa.Connection, *, now: datetime, limit: int = 100
) -> list[MovedInstant]:
    """
    Return instants of the coming year that the tz database in use has moved.

    Args:
        connection: Any.

        now: Aware UTC.

        limit: The most to return.
    """
    moved: list[MovedInstant] = []
    for name, old in _fetch_changed(connection):
        for row in _fetch_users_of(connection, name):
            schedule = _parse(row.timing)
            if isinstance(schedule, str):
                continue  # told by find_unreadable
            for before, after in _compare(schedule, name, old, now):
                moved.append(MovedInstant(row.uid, name, before, after))
                if len(moved) >= limit:
                    return moved
    return moved


def find_unreadable(connection: sa.Connection, *, limit: int = 100) -> list[Unreadable]:
    """
    Return actions that the tz database in use leaves without a reading.

    Their zone is gone, or has a gap now where they are due. The next leader, or the
    tick that finds them due, puts them into quarantine; those there are not returned.
    """
    found: list[Unreadable] = []
    changed = [name for name, _old in _fetch_changed(connection)]
    for name in sorted({*changed, *_fetch_withdrawn(connection)}):
        for row in _fetch_users_of(connection, name):
            reason = _parse(row.timing)
            if isinstance(reason, str) and _is_ahead(row):
                found.append(Unreadable(row.uid, name, reason))
                if len(found) >= limit:
                    return found
    return found


def adopt_zones(connection: sa.Connection, *, after: datetime) -> dict[str, int]:
    """
    Take over the tz database in use: recompute what it moves, and keep its rules.

    What it makes unreadable goes into quarantine, long before it is due. A zone that
    is gone is passed over: it may be back with the next start, on another host.

    Args:
        connection: In a leader's transaction.

        after: Aware UTC: what was due by then is decided.

    Returns:
        For each zone that has changed, how many actions were looked at again.
    """
    adopted: dict[str, int] = {}
    for name, _old in list(_fetch_changed(connection)):
        rows = _fetch_users_of(connection, name)
        for start in range(0, len(rows), _CHUNK):
            _recompute(connection, rows[start : start + _CHUNK], after)
        connection.execute(
            sa.update(zones)
            .where(zones.c.name == name)
            .values(
                data=_read_zone_data(name),
                version=version("tzdata"),
                recorded_at=db_now(),
            )
        )
        adopted[name] = len(rows)
    return adopted


def _recompute(
    connection: sa.Connection, rows: Sequence[sa.Row[Any]], after: datetime
) -> None:
    """Move actions on to what is due after *after*; quarantine the unreadable."""
    decisions = []
    for row in rows:
        schedule = _parse(row.timing)
        if isinstance(schedule, str):
            if _is_ahead(row):
                bad = ActionRevision(row.uid, row.revision)
                quarantine(connection, bad, schedule, now=read_clock(connection))
                log.warning(
                    Event.ACTION_QUARANTINED, action_uid=row.uid, reason=schedule
                )
                ACTIONS_QUARANTINED.inc()
            continue
        due = next_due(
            schedule, row.uid, after=after, effective_from=row.effective_from
        )
        next_due_at = None if due is None else due.due_at
        decisions.append(Decision(row.uid, row.revision, next_due_at))
    if decisions:
        advance(connection, decisions)


def _parse(timing: str) -> Schedule | str:
    """Return a stored timing parsed, or why it cannot be read."""
    try:
        return parse_timing(timing)
    except RuleError as error:
        return str(error)


def _is_ahead(row: sa.Row[Any]) -> bool:
    """Tell whether an action has something to do, and is not in quarantine yet."""
    return row.next_due_at is not None and row.quarantined_at is None


def _fetch_changed(connection: sa.Connection) -> Iterator[tuple[str, ZoneInfo]]:
    """Yield the zones whose rules differ from those kept, with the kept ones."""
    known = get_zone_names()
    rows = connection.execute(
        sa.select(zones.c.name, zones.c.data).order_by(zones.c.name)
    ).all()
    for name, data in rows:
        if name in known and bytes(data) != _read_zone_data(name):
            yield name, ZoneInfo.from_file(io.BytesIO(data), key=name)


def _fetch_withdrawn(connection: sa.Connection) -> list[str]:
    """Return the zones that were in use and that the tz database does not have."""
    known = get_zone_names()
    names = connection.execute(sa.select(zones.c.name)).scalars()
    return [name for name in names if name not in known]


def _uses(name: str) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        _kept.deleted_at.is_(None),
        _kept.timing.contains(f'"{name}"', autoescape=True)
        # a calendar rule may name its zone itself
        | _kept.timing.contains(f' {name}"', autoescape=True),
    )


def _fetch_users_of(connection: sa.Connection, name: str) -> list[sa.Row[Any]]:
    query = sa.select(
        _kept.uid,
        _kept.revision,
        _kept.timing,
        _kept.effective_from,
        _kept.next_due_at,
        _kept.quarantined_at,
    )
    return list(connection.execute(query.where(*_uses(name)).order_by(_kept.uid)))


def _compare(
    schedule: Schedule, name: str, old: ZoneInfo, now: datetime
) -> Iterator[tuple[datetime, datetime]]:
    """
    Yield what the older rules of a zone and the new ones put at another instant.

    What follows the clock (each hour) or counts elapsed time stays where it is.
    """
    for rule in schedule.rules:
        if rule.zone.key != name:
            continue
        try:
            older = rule.in_zone(old)
        except RuleError:
            continue  # a local time that the older rules did not have
        later, earlier = _find(schedule, rule, now), _find(schedule, older, now)
        # One wall-clock time is one occurrence, wherever the clocks put it.
        was = {each.astimezone(old).replace(tzinfo=None): each for each in earlier}
        same = set(earlier)
        for after in later:
            before = was.get(after.astimezone(rule.zone).replace(tzinfo=None))
            if before is not None and before != after and after not in same:
                yield before, after


def _find(schedule: Schedule, rule: Rule, now: datetime) -> list[datetime]:
    alone = replace(schedule, rules=(rule,))
    return list(islice(find_each(alone, now, now + REPORTED), _LOOKED_AT))
