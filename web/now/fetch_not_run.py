"""What did not run as it should within a day: missed, skipped, uncertain, late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from typing_extensions import TypedDict

from models.database.engine import read_clock
from models.database.tables import (
    TROUBLED,
    UNCERTAIN,
    UNSUCCESSFUL,
    deliveries,
    operations,
)
from models.decision import get_action_name
from models.json_form import LocalTimeJson, make_local_time
from models.operation_state import DeliveryState, OperationState
from models.units import show_instant
from operations.operation_filter import belongs_to
from web.now.fetch_failures import WITHIN
from web.now.fetch_late import Late, fetch_late
from web.now.outages import (
    Outage,
    OutageJson,
    find_first,
    find_outage,
    split_missed,
)
from overview.installation.unled import Unled, fetch_unled
from overview.reasons import read_reason
from overview.zones import Zones, fetch_zones

#: The most entries of each kind that are listed.
LISTED = 10

#: The most operations of each kind that are looked at, the latest first.
LOOKED_AT = 10_000


class Kind(StrEnum):
    """What became of an occurrence that did not run as it should."""

    MISSED = "missed"
    SKIPPED = "skipped"
    UNCERTAIN = "uncertain"
    LATE = "late"


class NotRunJson(TypedDict):
    """
    Occurrences of an action that did not run as they should, and why.

    Of ``kind`` uncertain, ``count`` and ``of`` are mails: so many of so many. Otherwise
    ``count`` is of occurrences, from ``first`` to ``last``. ``at`` is when the last of
    them became known, and ``operation`` is about it. ``unled`` is the time without a
    leader in which occurrences were missed, if that is known.
    """

    kind: Kind
    app: str
    action_uid: str
    action_name: str
    count: int
    is_more: bool
    of: int | None
    first: LocalTimeJson
    last: LocalTimeJson
    at: datetime
    delay_s: float | None
    reason: str | None
    text: str
    unled: Unled | None
    operation: UUID


class NotRunListJson(TypedDict):
    """
    What did not run as it should since an instant.

    ``counts`` are of occurrences, of uncertain ones of mails, by kind; ``items`` has at
    most ten of each kind. ``outages`` sums up the missed ones that have one cause.
    ``is_whole`` false: not all was looked at.
    """

    since: datetime
    is_whole: bool
    counts: dict[str, int]
    items: list[NotRunJson]
    outages: list[OutageJson]


@dataclass(frozen=True, slots=True)
class NotRun:
    """
    Occurrences of an action that did not run as they should; times are aware UTC.

    Args:
        count: How many occurrences; of UNCERTAIN, mails.
        is_more: Whether there are more than *count*.
        of: How many mails the operation had. None: it is not about mails.
        first: The first occurrence.
        last: The last one.
        at: When the last of them became known.
        delay: How late the latest was. None: it is not about that.
        reason: Of the operation.
        text: Why, in a sentence without its end.
        operation_id: The last operation that is about it.
        unled: The time without a leader in which they were missed. None: unknown, or it
            is not about that.
    """

    kind: Kind
    app: str
    action_uid: str
    action_name: str
    count: int
    is_more: bool
    of: int | None
    first: datetime
    last: datetime
    zone: ZoneInfo
    at: datetime
    delay: timedelta | None
    reason: str | None
    text: str
    operation_id: UUID
    unled: Unled | None = None

    def as_json(self) -> NotRunJson:
        """Return the documented object; keys are only added."""
        return {
            "kind": self.kind,
            "app": self.app,
            "action_uid": self.action_uid,
            "action_name": self.action_name,
            "count": self.count,
            "is_more": self.is_more,
            "of": self.of,
            "first": make_local_time(self.first, self.zone),
            "last": make_local_time(self.last, self.zone),
            "at": self.at,
            "delay_s": None if self.delay is None else self.delay.total_seconds(),
            "reason": self.reason,
            "text": self.text,
            "unled": self.unled,
            "operation": self.operation_id,
        }


@dataclass(frozen=True, slots=True)
class NotRunList:
    """
    What did not run as it should.

    Args:
        since: Aware UTC.
        is_whole: Whether all was looked at.
        counts: How many occurrences or mails of each kind; has every kind.
        entries: At most LISTED of each kind, in the order of the kinds, the latest
            first.
        outages: Those in which several actions missed something, the latest first.
        apart: The same as *entries*, without what belongs to an outage.
    """

    since: datetime
    is_whole: bool
    counts: Mapping[Kind, int]
    entries: Sequence[NotRun] = field(default=())
    outages: Sequence[Outage] = field(default=())
    apart: Sequence[NotRun] = field(default=())

    def as_json(self) -> NotRunListJson:
        """Return the documented object; keys are only added."""
        return {
            "since": self.since,
            "is_whole": self.is_whole,
            "counts": {kind.value: count for kind, count in self.counts.items()},
            "items": [each.as_json() for each in self.entries],
            "outages": [each.as_json() for each in self.outages],
        }


def fetch_not_run(
    connection: sa.Connection,
    *,
    app: str | None = None,
    within: timedelta = WITHIN,
    most: int = LOOKED_AT,
) -> NotRunList:
    """
    Return what was missed, skipped, uncertain or late, with the reasons.

    Args:
        app: Uid of the only small app that counts. None: all.
        within: How far back to look.
        most: The most operations of each kind to look at.
    """
    since = read_clock(connection) - within
    missed = _fetch_missed(connection, app, since, most)
    skipped = _fetch_skipped(connection, app, since, most)
    mails = _fetch_uncertain(connection, app, since, most)
    late, late_is_whole = fetch_late(connection, since=since, app=app)
    seen = [len(missed), sum(row.alike for row in skipped), len(mails)]
    counts = {
        Kind.MISSED: sum((row.details or {}).get("count", 1) for row in missed),
        Kind.SKIPPED: sum(row.alike for row in skipped),
        Kind.UNCERTAIN: sum(row.uncertain for row in mails),
        Kind.LATE: sum(each.count for each in late),
    }
    unled = fetch_unled(connection, since=since) if missed else []
    outages, apart = split_missed(missed, unled)
    kinds = (missed, apart, skipped, mails)
    rows: list[Any] = [row for each in kinds for row in each[:LISTED]]
    zones = fetch_zones(
        connection,
        {(row.action_uid, row.action_revision) for row in [*rows, *late[:LISTED]]},
    )
    others = [
        *(_make_skipped(row, zones) for row in skipped[:LISTED]),
        *(_make_uncertain(row, zones) for row in mails[:LISTED]),
        *(_make_late(each, zones) for each in late[:LISTED]),
    ]
    listed, left = (
        [_make_missed(row, zones, unled) for row in each[:LISTED]]
        for each in (missed, apart)
    )
    return NotRunList(
        since,
        late_is_whole and max(seen) < most,
        counts,
        [*listed, *others],
        outages,
        [*left, *others],
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


def _make_missed(row: sa.Row[Any], zones: Zones, unled: Sequence[Unled]) -> NotRun:
    details = row.details or {}
    last = datetime.fromisoformat(details["last"]) if "last" in details else None
    begin, end = find_first(row), last or row.occurrence
    outage = find_outage(unled, begin, row.recorded_at)
    why = read_reason(row.reason or "").meaning
    if outage is not None and outage.until is not None:
        since, until = show_instant(outage.since), show_instant(outage.until)
        why = f"nobody led from {since} to {until}, and catch_up does not include it"
    return NotRun(
        kind=Kind.MISSED,
        app=row.app,
        action_uid=row.action_uid,
        action_name=get_action_name(row.triggered_by),
        count=details.get("count", 1),
        is_more=bool(details.get("more")),
        of=None,
        first=begin,
        last=end,
        zone=zones.find(row.action_uid, row.action_revision, begin),
        at=row.recorded_at,
        delay=None,
        reason=row.reason,
        text=why,
        operation_id=row.id,
        unled=outage,
    )


def _make_skipped(row: sa.Row[Any], zones: Zones) -> NotRun:
    return NotRun(
        kind=Kind.SKIPPED,
        app=row.app,
        action_uid=row.action_uid,
        action_name=get_action_name(row.triggered_by),
        count=row.alike,
        is_more=False,
        of=None,
        first=row.first,
        last=row.occurrence,
        zone=zones.find(row.action_uid, row.action_revision, row.occurrence),
        at=row.recorded_at,
        delay=None,
        reason=row.reason,
        text=read_reason(row.reason or "").meaning,
        operation_id=row.id,
    )


def _make_uncertain(row: sa.Row[Any], zones: Zones) -> NotRun:
    are = "is" if row.uncertain == 1 else "are"
    mails = "1 mail" if row.mails == 1 else f"{row.mails} mails"
    rest = "" if row.mails == row.uncertain else f"; {row.sent} of the others were sent"
    return NotRun(
        kind=Kind.UNCERTAIN,
        app=row.app,
        action_uid=row.action_uid,
        action_name=get_action_name(row.triggered_by),
        count=row.uncertain,
        is_more=False,
        of=row.mails,
        first=row.occurrence,
        last=row.occurrence,
        zone=zones.find(row.action_uid, row.action_revision, row.occurrence),
        at=row.at,
        delay=None,
        reason=row.reason,
        text=f"{row.uncertain} of {mails} {are} uncertain: the mail server or a worker"
        f" failed while the content was on its way, so nothing sends it again by"
        f" itself{rest}",
        operation_id=row.id,
    )


def _make_late(late: Late, zones: Zones) -> NotRun:
    return NotRun(
        kind=Kind.LATE,
        app=late.app,
        action_uid=late.action_uid,
        action_name=late.action_name,
        count=late.count,
        is_more=False,
        of=None,
        first=late.first,
        last=late.last,
        zone=zones.find(late.action_uid, late.action_revision, late.last),
        at=late.started_at,
        delay=late.delay,
        reason=None,
        text=late.text,
        operation_id=late.operation_id,
    )
