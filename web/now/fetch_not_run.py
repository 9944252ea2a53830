"""What did not run as it should within a day: missed, skipped, uncertain, late."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from models.database.engine import read_clock
from models.database.tables import (
    TROUBLED,
    UNCERTAIN,
    UNSUCCESSFUL,
    deliveries,
    operations,
)
from models.decision import get_action_name
from models.operation_state import DeliveryState, OperationState
from models.units import show_instant
from operations.operation_filter import belongs_to
from overview.doctor.thresholds import BEGAN_LATE_AFTER
from overview.installation.leaders import Unled, fetch_unled
from overview.reasons import read_reason
from overview.zones import Zones, fetch_zones
from web.now.fetch_failures import WITHIN
from web.now.fetch_late import LateRuns, fetch_late

#: The most entries of each kind that are listed.
LISTED = 10

#: The most operations of each kind that are looked at, the latest first.
LOOKED_AT = 10_000

#: The most actions of an outage that are named.
NAMED = 5


class NotRunKind(StrEnum):
    """What became of an occurrence that did not run as it should."""

    MISSED = "missed"
    SKIPPED = "skipped"
    UNCERTAIN = "uncertain"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class NotRun:
    """
    Occurrences of an action that did not run as they should; times are aware UTC.

    Args:
        count: How many occurrences; of UNCERTAIN, mails.
        is_more: Whether there are more than *count*.
        first: The first occurrence.
        last: The last one.
        text: Why, in a sentence without its end.
        operation_id: The last operation that is about it.
        delay: How late the latest was. None: it is not about that.
        unled: The time without a leader in which they were missed. None: unknown, or it
            is not about that.
    """

    kind: NotRunKind
    app: str
    action_uid: str
    action_name: str
    count: int
    is_more: bool
    first: datetime
    last: datetime
    zone: ZoneInfo
    text: str
    operation_id: UUID
    delay: timedelta | None = None
    unled: Unled | None = None


@dataclass(frozen=True, slots=True)
class MissingAction:
    """An action that missed occurrences, and how many."""

    uid: str
    name: str
    app: str
    count: int


@dataclass(frozen=True, slots=True)
class Outage:
    """
    A time in which nobody led, and occurrences of several actions were missed.

    Args:
        count: How many occurrences.
        is_more: Whether there are more than *count*.
        actions: Of how many actions.
        first: NAMED of these at most, those that missed most.
    """

    unled: Unled
    count: int
    is_more: bool
    actions: int
    first: Sequence[MissingAction]


@dataclass(frozen=True, slots=True)
class NotRunList:
    """
    What did not run as it should.

    Args:
        is_whole: Whether all was looked at.
        counts: How many occurrences or mails of each kind; has every kind.
        outages: Those in which several actions missed something, the latest first.
        entries: At most LISTED of each kind, in the order of the kinds, the latest
            first; without what belongs to an outage.
    """

    is_whole: bool
    counts: Mapping[NotRunKind, int]
    outages: Sequence[Outage] = field(default=())
    entries: Sequence[NotRun] = field(default=())


def fetch_not_run(
    connection: sa.Connection, *, app: str | None = None, most: int = LOOKED_AT
) -> NotRunList:
    """
    Return what was missed, skipped, uncertain or late, with the reasons.

    Args:
        app: Uid of the only small app that counts. None: all.
        most: The most operations of each kind to look at.
    """
    since = read_clock(connection) - WITHIN
    missed = _fetch_missed(connection, app, since, most)
    skipped = _fetch_skipped(connection, app, since, most)
    mails = _fetch_uncertain(connection, app, since, most)
    late, late_is_whole = fetch_late(connection, since=since, app=app)
    seen = [len(missed), sum(row.alike for row in skipped), len(mails)]
    unled = fetch_unled(connection, since=since) if missed else []
    outages, apart = split_missed(missed, unled)
    rows: list[Any] = [row for each in (apart, skipped, mails) for row in each[:LISTED]]
    rows += late[:LISTED]
    keys = {(row.action_uid, row.action_revision) for row in rows}
    zones = fetch_zones(connection, keys)
    return NotRunList(
        late_is_whole and max(seen) < most,
        {
            NotRunKind.MISSED: sum(
                (row.details or {}).get("count", 1) for row in missed
            ),
            NotRunKind.SKIPPED: sum(row.alike for row in skipped),
            NotRunKind.UNCERTAIN: sum(row.uncertain for row in mails),
            NotRunKind.LATE: sum(each.count for each in late),
        },
        outages,
        [
            *(_make_missed(row, zones, unled) for row in apart[:LISTED]),
            *(_make_skipped(row, zones) for row in skipped[:LISTED]),
            *(_make_uncertain(row, zones) for row in mails[:LISTED]),
            *(_make_late(each, zones) for each in late[:LISTED]),
        ],
    )


def _fetch_missed(
    connection: sa.Connection, app: str | None, since: datetime, most: int
) -> Sequence[Any]:
    kept = operations.c
    return connection.execute(
        sa.select(*_SHOWN, kept.details)
        .where(
            TROUBLED.of(),
            kept.state == OperationState.MISSED,
            kept.finished_at >= since,
            *belongs_to(app),
        )
        .order_by(kept.finished_at.desc(), kept.id)
        .limit(most)
    ).all()


_SHOWN = (
    operations.c.id,
    operations.c.app,
    operations.c.action_uid,
    operations.c.action_revision,
    operations.c.triggered_by,
    operations.c.occurrence,
    operations.c.recorded_at,
    operations.c.finished_at,
    operations.c.reason,
)


def _fetch_skipped(
    connection: sa.Connection, app: str | None, since: datetime, most: int
) -> Sequence[sa.Row[Any]]:
    """Return the last skipped operation of each action and reason; those like it."""
    kept = operations.c
    looked_at = (
        sa.select(*_SHOWN)
        .where(
            UNSUCCESSFUL.of(),
            kept.state == OperationState.SKIPPED,
            kept.recorded_at >= since,
            *belongs_to(app),
        )
        .order_by(kept.recorded_at.desc())
        .limit(most)
        .subquery("looked_at")
    )
    given = looked_at.c
    alike = (given.action_uid, given.reason)
    placed = sa.select(
        looked_at,
        sa.func.count().over(partition_by=alike).label("alike"),
        sa.func.min(given.occurrence, type_=given.occurrence.type)
        .over(partition_by=alike)
        .label("first"),
        sa.func.row_number()
        .over(partition_by=alike, order_by=given.recorded_at.desc())
        .label("place"),
    ).subquery("placed")
    return connection.execute(
        sa.select(placed)
        .where(placed.c.place == 1)
        .order_by(placed.c.recorded_at.desc(), placed.c.id)
    ).all()


def _fetch_uncertain(
    connection: sa.Connection, app: str | None, since: datetime, most: int
) -> Sequence[Any]:
    """Return the operations with mails that somebody has to decide about."""
    given = deliveries.c
    found = (
        sa.select(
            given.operation_id,
            sa.func.count().label("uncertain"),
            sa.func.max(given.updated_at, type_=given.updated_at.type).label("at"),
        )
        .where(UNCERTAIN.of("deliveries"), given.updated_at >= since)
        .group_by(given.operation_id)
        .subquery("found")
    )
    other = deliveries.alias("other")

    def count(*where: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
        query = sa.select(sa.func.count()).where(
            other.c.operation_id == operations.c.id, *where
        )
        return query.scalar_subquery()

    return connection.execute(
        sa.select(
            *_SHOWN,
            found.c.uncertain,
            found.c.at,
            count().label("mails"),
            count(other.c.state == DeliveryState.SENT.value).label("sent"),
        )
        .join_from(found, operations, operations.c.id == found.c.operation_id)
        .where(*belongs_to(app))
        .order_by(found.c.at.desc(), operations.c.id)
        .limit(most)
    ).all()


def split_missed(
    missed: Sequence[Any], unled: Sequence[Unled]
) -> tuple[list[Outage], list[Any]]:
    """Return the outages of several actions, the latest first; the rows of none."""
    rows_of = defaultdict(list)
    for row in missed:
        rows_of[find_outage(unled, find_first(row), row.recorded_at)].append(row)
    outages, apart = [], []
    for cause, rows in rows_of.items():
        actions = _count_missing(rows)
        if cause is None or len(actions) < 2:
            apart += rows
            continue
        count = sum(each.count for each in actions)
        is_more = any((row.details or {}).get("more") for row in rows)
        outages.append(Outage(cause, count, is_more, len(actions), actions[:NAMED]))
    outages.sort(key=lambda each: each.unled.since, reverse=True)
    apart.sort(key=lambda row: row.finished_at, reverse=True)
    return outages, apart


def _count_missing(rows: Sequence[Any]) -> list[MissingAction]:
    """Return the actions of *rows*, those that missed most first."""
    counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for row in rows:
        key = row.action_uid, get_action_name(row.triggered_by), row.app
        counts[key] += _count_occurrences(row)
    found = [MissingAction(*key, count) for key, count in counts.items()]
    return sorted(found, key=lambda each: (-each.count, each.name, each.uid))


def find_first(row: Any) -> datetime:
    """Return the first occurrence that *row* tells of."""
    first = (row.details or {}).get("first")
    return row.occurrence if first is None else datetime.fromisoformat(first)


def find_outage(
    unled: Sequence[Unled], first: datetime, recorded_at: datetime
) -> Unled | None:
    """
    Return the time without a leader in which occurrences were missed; None: unknown.

    Args:
        unled: Such times.
        first: The first occurrence that was missed.
        recorded_at: When they were recorded as missed.
    """
    for each in unled:
        if each.until is None:
            continue
        if each.since - BEGAN_LATE_AFTER <= first and (
            each.until <= recorded_at <= each.until + 5 * BEGAN_LATE_AFTER
        ):
            return each
    return None


def _make_missed(row: sa.Row[Any], zones: Zones, unled: Sequence[Unled]) -> NotRun:
    details = row.details or {}
    begin = find_first(row)
    outage = find_outage(unled, begin, row.recorded_at)
    why = read_reason(row.reason or "").meaning
    if outage is not None and outage.until is not None:
        since, until = show_instant(outage.since), show_instant(outage.until)
        why = f"nobody led from {since} to {until}, and catch_up does not include it"
    return NotRun(
        NotRunKind.MISSED,
        *_name_action(row),
        count=_count_occurrences(row),
        is_more=bool(details.get("more")),
        first=begin,
        last=datetime.fromisoformat(details["last"])
        if "last" in details
        else row.occurrence,
        zone=zones.find(row.action_uid, row.action_revision, begin),
        text=why,
        operation_id=row.id,
        unled=outage,
    )


def _make_skipped(row: sa.Row[Any], zones: Zones) -> NotRun:
    return NotRun(
        NotRunKind.SKIPPED,
        *_name_action(row),
        count=row.alike,
        is_more=False,
        first=row.first,
        last=row.occurrence,
        zone=zones.find(row.action_uid, row.action_revision, row.occurrence),
        text=read_reason(row.reason or "").meaning,
        operation_id=row.id,
    )


def _make_uncertain(row: sa.Row[Any], zones: Zones) -> NotRun:
    are = "is" if row.uncertain == 1 else "are"
    mails = "1 mail" if row.mails == 1 else f"{row.mails} mails"
    rest = "" if row.mails == row.uncertain else f"; {row.sent} of the others were sent"
    return NotRun(
        NotRunKind.UNCERTAIN,
        *_name_action(row),
        count=row.uncertain,
        is_more=False,
        first=row.occurrence,
        last=row.occurrence,
        zone=zones.find(row.action_uid, row.action_revision, row.occurrence),
        text=f"{row.uncertain} of {mails} {are} uncertain: the mail server or a worker"
        f" failed while the content was on its way, so nothing sends it again by"
        f" itself{rest}",
        operation_id=row.id,
    )


def _make_late(late: LateRuns, zones: Zones) -> NotRun:
    return NotRun(
        NotRunKind.LATE,
        *(late.app, late.action_uid, late.action_name),
        count=late.count,
        is_more=False,
        first=late.first,
        last=late.last,
        zone=zones.find(late.action_uid, late.action_revision, late.last),
        text=late.text,
        operation_id=late.operation_id,
        delay=late.delay,
    )


def _count_occurrences(row: sa.Row[Any]) -> int:
    return int((row.details or {}).get("count", 1))


def _name_action(row: sa.Row[Any]) -> tuple[str, str, str]:
    return row.app, row.action_uid, get_action_name(row.triggered_by)
