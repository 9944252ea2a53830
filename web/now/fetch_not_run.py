"""What did not run as it should within a day: missed, skipped, uncertain, late."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.read_rules import fetch_zones
from models.database.engine import read_clock
from models.database.lists import belongs_to
from models.database.sql_time import seconds_between
from models.database.tables import (
    TROUBLED,
    UNSUCCESSFUL,
    operations,
    scheduled_action_revisions,
)
from models.decision import get_action_name
from models.operation_state import OperationState, Reason, Trigger
from models.units import format_age
from operations.operation_filter import find_uncertain
from overview.doctor.thresholds import BEGAN_LATE_AFTER
from overview.installation.leaders import Reign, fetch_unled, find_first_missed
from overview.why.circumstances import fetch_circumstances
from overview.why.sentences import ALONE, Why, tell_why
from web.now.fetch_failures import WITHIN, CountedAction, fetch_latest_of_each

#: The most entries of each kind that are listed.
LISTED = 10

#: The most operations of each kind that are looked at, the latest first.
LOOKED_AT = 10_000


_UTC = ZoneInfo("UTC")


class NotRunKind(StrEnum):
    """What became of an occurrence that did not run as it should."""

    MISSED = "missed"
    SKIPPED = "skipped"
    UNCERTAIN = "uncertain"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class NotRun:
    """
    Operations of an action that did not run as they should, for the same reason.

    Args:
        last: The row of the last of them.
        count: How many occurrences, or uncertain mails, there are.
        zone: That of the action.
        why: What is said of the last. None: it is late, and *text* says it.
        text: What held it up, in a sentence without its end.
        delay: How late it was.
    """

    last: Any
    count: int
    zone: ZoneInfo = _UTC
    why: Why | None = None
    text: str = ""
    delay: timedelta = timedelta()

    @property
    def action_name(self) -> str:
        """What its action was called."""
        return get_action_name(self.last.triggered_by)


@dataclass(frozen=True, slots=True)
class SharedOutage:
    """
    A time in which nobody led, and occurrences of several actions were missed.

    Args:
        actions: Those that missed most first.
        is_more: Whether there are more than *count*.
    """

    unled: Reign
    actions: Sequence[CountedAction]
    is_more: bool

    @property
    def count(self) -> int:
        """How many occurrences."""
        return sum(each.count for each in self.actions)


@dataclass(frozen=True, slots=True)
class NotRunList:
    """
    What did not run as it should; *counts* and *entries* have every kind.

    Args:
        is_whole: Whether all was looked at.
        counts: How many occurrences or mails.
        outages: Those in which several actions missed something, the latest first.
        entries: At most LISTED of each kind, the latest first; without what belongs to
            an outage.
    """

    is_whole: bool
    counts: Mapping[NotRunKind, int]
    outages: Sequence[SharedOutage]
    entries: Mapping[NotRunKind, Sequence[NotRun]]


def fetch_not_run(
    connection: sa.Connection, *, app: str | None = None, most: int = LOOKED_AT
) -> NotRunList:
    """
    Return what was missed, skipped, uncertain or late, with the reasons.

    Args:
        app: Uid of the only small app that counts. None: all.
        most: The most operations of each kind to look at.
    """
    now = read_clock(connection)
    since = now - WITHIN
    of_missed = TROUBLED.of(), _run.state == OperationState.MISSED
    latest = _select_latest(app, since, most, _run.finished_at, *of_missed)
    missed = connection.execute(latest.order_by(_run.id)).all()
    skipped = _fetch_skipped(connection, app, since, most)
    mails = _fetch_uncertain(connection, app, since, most)
    late, late_is_whole = fetch_late(connection, since=since, app=app)
    seen = [len(missed), sum(row.alike for row in skipped), len(mails)]
    unled = fetch_unled(connection, since=since) if missed else []
    outages, apart = split_missed(missed, unled)
    found = {
        NotRunKind.MISSED: [NotRun(row, _count_occurrences(row)) for row in apart],
        NotRunKind.SKIPPED: [NotRun(row, row.alike) for row in skipped],
        NotRunKind.UNCERTAIN: [NotRun(row, row.uncertain) for row in mails],
        NotRunKind.LATE: late,
    }
    counts = {kind: sum(each.count for each in of) for kind, of in found.items()}
    counts[NotRunKind.MISSED] += sum(each.count for each in outages)
    listed = {kind: of[:LISTED] for kind, of in found.items()}
    is_whole = late_is_whole and max(seen) < most
    entries = _explain(connection, listed, now=now)
    return NotRunList(is_whole, counts, outages, entries)


def _explain(
    connection: sa.Connection,
    listed: Mapping[NotRunKind, Sequence[NotRun]],
    *,
    now: datetime,
) -> dict[NotRunKind, list[NotRun]]:
    """Return what is *listed* with the reasons, and the zones of the actions."""
    rows = [each.last for of in listed.values() for each in of]
    keys = {(row.action_uid, row.action_revision) for row in rows}
    zones = fetch_zones(connection, keys)
    late = len(listed[NotRunKind.LATE])
    known = fetch_circumstances(connection, rows[: len(rows) - late], now=now)

    def explain(kind: NotRunKind, each: NotRun) -> NotRun:
        row = each.last
        zone = zones.find(row.action_uid, row.action_revision, row.occurrence)
        why = None
        if kind is not NotRunKind.LATE:
            why = tell_why(row, known.get(row.id, ALONE), now=now)
        return replace(each, zone=zone, why=why)

    return {kind: [explain(kind, each) for each in of] for kind, of in listed.items()}


_run = operations.c

#: What a sentence needs, and what is listed.
_SHOWN = tuple(
    _run[name]
    for name in (
        *("id", "app", "action_uid", "action_revision", "triggered_by", "occurrence"),
        *("state", "reason", "error", "queue", "send_at", "recorded_at", "finished_at"),
        *("attempt", "attempts_allowed", "details"),
    )
)


def _select_latest(
    app: str | None,
    since: datetime,
    most: int,
    at: sa.ColumnElement[datetime],
    *where: Any,
) -> sa.Select[Any]:
    shown: sa.Select[Any] = sa.select(*_SHOWN)
    shown = shown.where(*where, at >= since, *belongs_to(app))
    return shown.order_by(at.desc()).limit(most)


def _fetch_skipped(
    connection: sa.Connection, app: str | None, since: datetime, most: int
) -> Sequence[sa.Row[Any]]:
    """Return the last skipped operation of each action and reason; those like it."""
    is_skipped = UNSUCCESSFUL.of(), _run.state == OperationState.SKIPPED
    # as its action asks, hour after hour
    is_told = _run.reason != Reason.UNCHANGED
    latest = _select_latest(app, since, most, _run.recorded_at, *is_skipped, is_told)
    looked_at = latest.subquery("looked_at")
    given = looked_at.c
    alike = (given.action_uid, given.reason)
    return fetch_latest_of_each(connection, looked_at, alike, given.recorded_at)


def _fetch_uncertain(
    connection: sa.Connection, app: str | None, since: datetime, most: int
) -> Sequence[Any]:
    """Return the operations with mails that somebody has to decide about."""
    given = find_uncertain(since).c
    found = (
        sa.select(
            given.operation_id,
            sa.func.count().label("uncertain"),
            sa.func.max(given.updated_at, type_=given.updated_at.type).label("at"),
        )
        .group_by(given.operation_id)
        .subquery("found")
    )
    return connection.execute(
        sa.select(*_SHOWN, found.c.uncertain, found.c.at)
        .join_from(found, operations, operations.c.id == found.c.operation_id)
        .where(*belongs_to(app))
        .order_by(found.c.at.desc(), operations.c.id)
        .limit(most)
    ).all()


def split_missed(
    missed: Sequence[Any], unled: Sequence[Reign]
) -> tuple[list[SharedOutage], list[Any]]:
    """Return the outages of several actions, the latest first; the rows of none."""
    rows_of = defaultdict(list)
    for row in missed:
        rows_of[_find_outage(unled, row)].append(row)
    outages, apart = [], []
    for cause, rows in rows_of.items():
        actions = _count_missing(rows)
        if cause is None or len(actions) < 2:
            apart += rows
            continue
        is_more = any((row.details or {}).get("more") for row in rows)
        outages.append(SharedOutage(cause, actions, is_more))
    outages.sort(key=lambda each: each.unled.since, reverse=True)
    apart.sort(key=lambda row: row.finished_at, reverse=True)
    return outages, apart


def _count_missing(rows: Sequence[Any]) -> list[CountedAction]:
    """Return the actions of *rows*, those that missed most first."""
    counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for row in rows:
        key = row.action_uid, get_action_name(row.triggered_by), row.app
        counts[key] += _count_occurrences(row)
    found = [CountedAction(*key, count) for key, count in counts.items()]
    return sorted(found, key=lambda each: (-each.count, each.name, each.uid))


def _find_outage(unled: Sequence[Reign], row: Any) -> Reign | None:
    """Return the time without a leader in which *row* was missed; None: unknown."""
    first = find_first_missed(row)
    ended = (each for each in unled if each.until is not None)
    return next((each for each in ended if each.covers(first)), None)


def _count_occurrences(row: Any) -> int:
    return int((row.details or {}).get("count", 1))


#: The most operations that are looked at, the latest first: some 20 ms.
LATE_LOOKED_AT = 20_000

#: The most late operations that are counted.
_MOST = 5_000

#: How the timing of an action with jitter reads: canonical JSON.
_JITTER = '"jitter":"'


def fetch_late(
    connection: sa.Connection, *, since: datetime, app: str | None
) -> tuple[list[NotRun], bool]:
    """
    Return what began more than BEGAN_LATE_AFTER after it was due, the latest first.

    Backfills wait for everything else, and are never late. Of actions with jitter only
    the time since they were recorded counts.

    Args:
        since: Recorded at or after this instant, aware.
        app: Uid of the only small app that counts. None: all.

    Returns:
        Also whether all were looked at.
    """
    kept, revisions = operations.c, scheduled_action_revisions.c
    looked_at = (
        sa.select(
            *(kept.id, kept.app, kept.action_uid, kept.action_revision, kept.trigger),
            *(kept.triggered_by, kept.occurrence, kept.recorded_at, kept.sent_at),
            *(kept.started_at, kept.state),
        )
        .where(kept.recorded_at >= since, *belongs_to(app))
        .order_by(kept.recorded_at.desc())
        .limit(LATE_LOOKED_AT)
        .subquery("looked_at")
    )
    given = looked_at.c
    longest = BEGAN_LATE_AFTER.total_seconds()
    waited = seconds_between(given.recorded_at, given.started_at) > longest
    overdue = sa.and_(
        given.trigger == Trigger.SCHEDULE,
        given.state != OperationState.MISSED,
        seconds_between(given.occurrence, given.recorded_at) > longest,
    )
    # Before the revisions are joined: for more of them, all that there are are read.
    late = (
        sa.select(looked_at)
        .where(
            given.started_at.is_not(None),
            given.trigger != Trigger.BACKFILL,
            sa.or_(waited, overdue),
        )
        .order_by(given.started_at.desc(), given.id)
        .limit(_MOST)
        .subquery("late")
    )
    is_revision = sa.and_(
        revisions.uid == late.c.action_uid, revisions.revision == late.c.action_revision
    )
    has_jitter = revisions.timing.contains(_JITTER, autoescape=True)
    rows = connection.execute(
        sa.select(late, sa.func.coalesce(has_jitter, sa.false()).label("has_jitter"))
        .join_from(late, scheduled_action_revisions, is_revision, isouter=True)
        .order_by(late.c.started_at.desc(), late.c.id)
    ).all()
    counted = sa.select(sa.func.count()).select_from(looked_at)
    seen = connection.execute(counted).scalar_one()
    return group_late(rows), len(rows) < _MOST and seen < LATE_LOOKED_AT


def group_late(rows: Iterable[Any]) -> list[NotRun]:
    """Return *rows* by action and by what held them up, in their order. Pure."""
    found: dict[tuple[str, str], NotRun] = {}
    for row in rows:
        is_timed = row.trigger == Trigger.SCHEDULE and not row.has_jitter
        recorded_at = row.recorded_at
        due_at = min(row.occurrence, recorded_at) if is_timed else recorded_at
        delay = row.started_at - due_at
        if delay <= BEGAN_LATE_AFTER:
            continue
        key, text = explain_delay(due_at, recorded_at, row.sent_at, row.started_at)
        first = NotRun(row, 0, text=text, delay=delay)
        known = found.get((row.action_uid, key), first)
        found[row.action_uid, key] = replace(known, count=known.count + 1)
    return list(found.values())


def explain_delay(
    due_at: datetime,
    recorded_at: datetime,
    sent_at: datetime | None,
    started_at: datetime,
) -> tuple[str, str]:
    """
    Return which of the waits of an operation was the longest, and say so.

    Args:
        due_at: When it should have been recorded, aware; as are the others.
        recorded_at: When it was.
        sent_at: When it was last sent, which may be after its start. None: never.
        started_at: When a worker first took it.
    """
    recorded = recorded_at - due_at
    if sent_at is None or sent_at > started_at:
        waits: Sequence[tuple[timedelta, str, str]] = (
            (recorded, "recorded", _RECORDED),
            (started_at - recorded_at, "waited", _WAITED),
        )
    else:
        waits = (
            (recorded, "recorded", _RECORDED),
            (sent_at - recorded_at, "sent", _SENT),
            (started_at - sent_at, "taken", _TAKEN),
        )
    longest, key, text = max(waits, key=lambda each: each[0])
    return key, text.format(age=format_age(longest))


_RECORDED = "no scheduler ticked when it was due; it was recorded {age} later"
_SENT = (
    "it was recorded in time, and sent {age} later: another run had to end first, or"
    " the broker took nothing"
)
_TAKEN = "it was sent in time, and no worker took it for {age}"
_WAITED = "it waited {age} for its turn or for a worker"
