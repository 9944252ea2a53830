"""
Notice when a new tz database moves the instants of stored actions.

A government changes its clocks, tzdata is upgraded, and what was due at 06:00 UTC
is due at 07:00. What was computed with the older rules is then wrong. So the rules
of every zone in use are kept as they were; the next leader compares.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from importlib import resources
from importlib.metadata import version
from itertools import islice
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from actions.occurrences import Schedule, find_each, next_due, parse_timing
from actions.store import advance
from actions.when.calendar import CalendarFinder
from actions.when.cron import CronFinder
from actions.when.due_date import DueDateFinder
from actions.when.interval import IntervalFinder
from actions.when.rule import Rule
from models.database import db_now
from models.decision import Decision
from models.due_date import parse_due_date
from models.errors import RuleError
from models.tables import scheduled_actions, zones
from models.when import DueDateModel, IntervalModel, TimeModel, TimingModel

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


@cache
def _read_zone_data(name: str) -> bytes:
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
        for uid, timing in _fetch_users_of(connection, name):
            for before, after in _compare(timing, name, old, now):
                moved.append(MovedInstant(uid, name, before, after))
                if len(moved) >= limit:
                    return moved
    return moved


def adopt_zones(connection: sa.Connection, *, after: datetime) -> dict[str, int]:
    """
    Take over the tz database in use: recompute what it moves, and keep its rules.

    Args:
        connection: In a leader's transaction.

        after: Aware UTC: what was due by then is decided.

    Returns:
        For each zone that has changed, how many actions were looked at again.
    """
    adopted: dict[str, int] = {}
    for name, _old in list(_fetch_changed(connection)):
        rows = connection.execute(
            sa.select(_kept.uid, _kept.revision, _kept.timing, _kept.effective_from)
            .where(*_uses(name))
            .order_by(_kept.uid)
        ).all()
        for start in range(0, len(rows), _CHUNK):
            decisions = []
            for row in rows[start : start + _CHUNK]:
                due = next_due(
                    parse_timing(row.timing),
                    row.uid,
                    after=after,
                    effective_from=row.effective_from,
                )
                next_due_at = None if due is None else due.due_at
                decisions.append(Decision(row.uid, row.revision, next_due_at))
            advance(connection, decisions)
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


def _fetch_changed(connection: sa.Connection) -> Iterator[tuple[str, ZoneInfo]]:
    """Yield the zones whose rules differ from those kept, with the kept ones."""
    rows = connection.execute(
        sa.select(zones.c.name, zones.c.data).order_by(zones.c.name)
    ).all()
    for name, data in rows:
        if bytes(data) != _read_zone_data(name):
            yield name, ZoneInfo.from_file(io.BytesIO(data), key=name)


def _uses(name: str) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        _kept.deleted_at.is_(None),
        _kept.timing.contains(f'"{name}"', autoescape=True)
        # a calendar rule may name its zone itself
        | _kept.timing.contains(f' {name}"', autoescape=True),
    )


def _fetch_users_of(connection: sa.Connection, name: str) -> Iterator[tuple[str, str]]:
    query = sa.select(_kept.uid, _kept.timing).where(*_uses(name)).order_by(_kept.uid)
    for row in connection.execute(query).all():
        yield row.uid, row.timing


def _compare(
    timing: str, name: str, old: ZoneInfo, now: datetime
) -> Iterator[tuple[datetime, datetime]]:
    """
    Yield what the older rules of a zone and the new ones put at another instant.

    What follows the clock (each hour) or counts elapsed time stays where it is.
    """
    schedule = parse_timing(timing)
    models = TimingModel.model_validate_json(timing).when
    for model, rule in zip(models, schedule.rules, strict=True):
        if rule.zone.key != name:
            continue
        try:
            older = _read_with(model, rule, old)
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


def _read_with(model: TimeModel, rule: Rule, zone: ZoneInfo) -> Rule:
    """Return *rule*, made of *model*, as it would be in *zone*."""
    if isinstance(rule, DueDateFinder) and isinstance(model, DueDateModel):
        return replace(rule, due_at=parse_due_date(model.due_date, zone), zone=zone)
    if isinstance(rule, IntervalFinder) and isinstance(model, IntervalModel):
        assert model.anchor is not None  # whoever stores an interval gives it one
        return replace(rule, anchor=parse_due_date(model.anchor, zone), zone=zone)
    assert isinstance(rule, CronFinder | CalendarFinder)  # there are four kinds
    return replace(rule, zone=zone)
