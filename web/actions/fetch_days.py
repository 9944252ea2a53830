"""What became of an action on each day of the last weeks, and what it missed."""

from __future__ import annotations

from bisect import bisect, bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.lookup import get_action
from actions.read_rules import find_zone
from models.database.engine import (
    UtcDateTime,
    format_utc,
    json_rows,
    make_rows_json,
    read_clock,
)
from models.database.tables import LIVE, TROUBLED, UNSUCCESSFUL, operations
from models.decision import MissedRange, read_missed
from models.fields.zone import first_instant_at
from models.json_form import get_members
from models.operation_state import OperationState

#: Weeks that are shown; the first day is a Monday, the last is today.
WEEKS = 13

#: The most operations that are counted: 20 ms. An action that is due every minute has
#: 131,000 in 13 weeks.
COUNTED = 200_000

#: The most of them that may not have succeeded: each is read, so that they take 60 ms.
UNSUCCESSFUL_COUNTED = 20_000

#: The most missed ranges that are listed.
MISSED_SHOWN = 50

_DAY = timedelta(days=1)

_run = operations.c


@dataclass(frozen=True, slots=True)
class Missed(MissedRange):
    """Occurrences that were missed in one outage."""

    operation_id: UUID


@dataclass(frozen=True, slots=True)
class ActionDays:
    """
    What became of an action on each day of some weeks.

    Args:
        zone: That of its rule, in which days begin and end.
        days: Each of them, and how many operations are in each state, in their order;
            oldest first, the last is today. An outage counts on each day that it
            touches.
        counted_from: The beginning of a day, aware UTC. Those before are not counted.
        is_whole: Whether that is the beginning of the first day.
        missed: What was missed, newest first.
        missed_is_whole: Whether that is all that was missed since *counted_from*.
    """

    zone: ZoneInfo
    days: Sequence[tuple[date, Mapping[str, int]]]
    counted_from: datetime
    is_whole: bool
    missed: tuple[Missed, ...]
    missed_is_whole: bool


def fetch_action_days(
    connection: sa.Connection,
    uid: str,
    *,
    now: datetime | None = None,
    most: int = COUNTED,
) -> ActionDays:
    """
    Count the operations of an action by the local day of their occurrence.

    An index knows how many there were on each day, and other indexes have those that
    did not succeed; the rest, which are most, are not read.

    Args:
        uid: Of an action, deleted or not.
        now: Aware; its day is the last. None: by the clock of the database.
        most: The most operations to count.

    Raises:
        NotFoundError: There has never been such an action.
    """
    row = get_action(connection, uid)
    zone = find_zone(row)
    today = (now or read_clock(connection)).astimezone(zone).date()
    monday = today - today.weekday() * _DAY
    first = monday - timedelta(weeks=WEEKS - 1)
    dates = [first + number * _DAY for number in range((today - first).days + 1)]
    midnights = (datetime.combine(each, time()) for each in [*dates, today + _DAY])
    begins = [first_instant_at(each, zone) for each in midnights]
    first_day = _find_day(begins, _find_oldest(connection, uid, begins[0], most))
    # First how many there are: what is recorded since then has not succeeded.
    totals = _count(connection, uid, begins, first_day)
    others = _fetch_others(connection, uid, begins[first_day], begins[-1])
    if len(others) > UNSUCCESSFUL_COUNTED:
        first_day = _find_day(begins, others[-1].occurrence)
    counted_from = begins[first_day]
    others = [each for each in others if each.occurrence >= counted_from]
    counts = _divide(totals, others, begins, first_day)
    missed = _list_missed(connection, row, counted_from, begins[-1])
    for each in missed:
        _spread(each, counts, begins)
    return ActionDays(
        zone,
        [(each, _sort(counts[number])) for number, each in enumerate(dates)],
        counted_from,
        first_day == 0,
        tuple(missed[:MISSED_SHOWN]),
        len(missed) <= MISSED_SHOWN,
    )


def _sort(counts: Mapping[OperationState, int]) -> dict[str, int]:
    return {state.value: counts[state] for state in OperationState if counts.get(state)}


def _find_day(begins: Sequence[datetime], since: datetime | None) -> int:
    """Return the number of the first day that begins at or after *since*."""
    return 0 if since is None else bisect_left(begins, since)


def _find_oldest(
    connection: sa.Connection, uid: str, since: datetime, most: int
) -> datetime | None:
    """Return the occurrence of the last of *most* operations; None: there are fewer."""
    return connection.execute(
        sa.select(_run.occurrence)
        .where(_run.action_uid == uid, _run.occurrence >= since)
        .order_by(_run.occurrence.desc())
        .limit(1)
        .offset(most - 1)
    ).scalar_one_or_none()


def _fetch_others(
    connection: sa.Connection, uid: str, since: datetime, until: datetime
) -> Sequence[sa.Row[Any]]:
    """Return when what did not succeed, or not yet, was due, the latest first."""
    within = (_run.action_uid == uid, _run.occurrence >= since, _run.occurrence < until)
    query = sa.select(_run.occurrence, _run.state).where(*within)
    rows: list[sa.Row[Any]] = []
    # The first is read from its index alone.
    for condition in (UNSUCCESSFUL, LIVE):
        found = query.where(condition.of()).order_by(_run.occurrence.desc())
        rows.extend(connection.execute(found.limit(UNSUCCESSFUL_COUNTED + 1)))
    rows.sort(key=lambda row: row.occurrence, reverse=True)
    return rows[: UNSUCCESSFUL_COUNTED + 1]


def _count(
    connection: sa.Connection, uid: str, begins: Sequence[datetime], first_day: int
) -> dict[int, int]:
    """Return how many operations there are, by number of the day."""
    given = json_rows(
        connection.dialect.name,
        {"day": sa.Integer(), **dict.fromkeys(("begin", "until"), UtcDateTime)},
        "given",
    )
    texts = [format_utc(each) for each in begins]
    rows = [
        {"day": day, "begin": texts[day], "until": texts[day + 1]}
        for day in range(first_day, len(begins) - 1)
    ]
    total = sa.select(sa.func.count()).where(
        _run.action_uid == uid,
        _run.occurrence >= given.c.begin,
        _run.occurrence < given.c.until,
    )
    found = connection.execute(
        sa.select(given.c.day, total.correlate(given).scalar_subquery()),
        {"given": make_rows_json(rows)},
    )
    return {day: count for day, count in found if count}


def _divide(
    totals: Mapping[int, int],
    others: Sequence[sa.Row[Any]],
    begins: Sequence[datetime],
    first_day: int,
) -> dict[int, Counter[OperationState]]:
    """Return how many are in each state, by number of the day."""
    counts: dict[int, Counter[OperationState]] = defaultdict(Counter)
    for row in others:
        counts[bisect(begins, row.occurrence) - 1][OperationState(row.state)] += 1
    for day, total in totals.items():
        succeeded = total - counts[day].total()
        if succeeded > 0 and day >= first_day:
            counts[day][OperationState.SUCCEEDED] = succeeded
    return counts


def _list_missed(
    connection: sa.Connection, action: sa.Row[Any], since: datetime, until: datetime
) -> list[Missed]:
    """Return what was missed from *since* until *until*, newest first."""
    query = (
        sa.select(_run.id, _run.occurrence, _run.details)
        .where(_run.action_uid == action.uid, _run.state == OperationState.MISSED)
        .order_by(_run.occurrence.desc())
    )
    within = _run.occurrence >= since, _run.occurrence < until
    # An outage may have begun before; it was recorded when it was over.
    before = _run.finished_at >= since, _run.occurrence < since
    rows: list[sa.Row[Any]] = []
    for each in (
        query.where(UNSUCCESSFUL.of(), *within).limit(UNSUCCESSFUL_COUNTED),
        query.where(TROUBLED.of(), _run.app == action.app, *before).limit(1),
    ):
        rows.extend(connection.execute(each))
    found = [_read_missed(row) for row in rows]
    return [each for each in found if each.last >= since]


def _read_missed(row: sa.Row[Any]) -> Missed:
    found = read_missed(row.details) or MissedRange(
        1, is_more=False, first=row.occurrence, last=row.occurrence
    )
    return Missed(**get_members(found), operation_id=row.id)


def _spread(
    missed: Missed,
    counts: Mapping[int, Counter[OperationState]],
    begins: Sequence[datetime],
) -> None:
    """Count *missed* on each day that it touches after its first, which has it."""
    for day, begin in enumerate(begins[:-1]):
        if missed.first < begin <= missed.last:
            counts[day][OperationState.MISSED] += 1
