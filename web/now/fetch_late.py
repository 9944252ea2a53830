"""Operations that began later than they should have, and what held them up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa

from models.database.lists import belongs_to
from models.database.sql_time import seconds_between
from models.database.tables import operations, scheduled_action_revisions
from models.operation_state import OperationState, Trigger
from models.units import format_age
from overview.doctor.finding import BEGAN_LATE_AFTER

#: The most operations that are looked at, the latest first: some 20 ms. Those of one
#: small app lie far apart in the table, so that each costs more.
LOOKED_AT = 20_000
LOOKED_AT_OF_APP = 5_000

#: The most late operations that are counted.
_MOST = 5_000

#: How the timing of an action with jitter reads: canonical JSON.
_JITTER = '"jitter":"'


class LateRuns(NamedTuple):
    """
    Operations of an action that began late for the same reason.

    Args:
        last: The row of the last of them.
        delay: How long after it was due that began.
        text: Why, in a sentence without its end.
    """

    last: Any
    number: int
    delay: timedelta
    text: str


def fetch_late(
    connection: sa.Connection,
    *,
    since: datetime,
    app: str | None = None,
) -> tuple[list[LateRuns], bool]:
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
    bound = LOOKED_AT if app is None else LOOKED_AT_OF_APP
    kept, revisions = operations.c, scheduled_action_revisions.c
    looked_at = (
        sa.select(
            *(kept.id, kept.app, kept.action_uid, kept.action_revision, kept.trigger),
            *(kept.triggered_by, kept.occurrence, kept.recorded_at, kept.sent_at),
            *(kept.started_at, kept.state),
        )
        .where(kept.recorded_at >= since, *belongs_to(app))
        .order_by(kept.recorded_at.desc())
        .limit(bound)
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
    has_jitter = revisions.timing.contains(_JITTER, autoescape=True)
    rows = connection.execute(
        sa.select(
            looked_at,
            sa.func.coalesce(has_jitter, sa.false()).label("has_jitter"),
        )
        .join_from(
            looked_at,
            scheduled_action_revisions,
            sa.and_(
                revisions.uid == given.action_uid,
                revisions.revision == given.action_revision,
            ),
            isouter=True,
        )
        .where(
            given.started_at.is_not(None),
            given.trigger != Trigger.BACKFILL,
            sa.or_(waited, overdue),
        )
        .order_by(given.started_at.desc(), given.id)
        .limit(_MOST)
    ).all()
    is_whole = len(rows) < _MOST and _count(connection, since, app, bound) < bound
    return group_late(rows), is_whole


def _count(
    connection: sa.Connection, since: datetime, app: str | None, most: int
) -> int:
    kept = operations.c
    looked_at = (
        sa.select(sa.literal(1))
        .select_from(operations)
        .where(kept.recorded_at >= since, *belongs_to(app))
        .limit(most)
        .subquery()
    )
    query = sa.select(sa.func.count()).select_from(looked_at)
    return int(connection.execute(query).scalar_one())


def group_late(rows: Iterable[Any]) -> list[LateRuns]:
    """Return *rows* by action and by what held them up, in their order. Pure."""
    found: dict[tuple[str, str], LateRuns] = {}
    for row in rows:
        is_timed = row.trigger == Trigger.SCHEDULE and not row.has_jitter
        recorded_at = row.recorded_at
        due_at = min(row.occurrence, recorded_at) if is_timed else recorded_at
        delay = row.started_at - due_at
        if delay <= BEGAN_LATE_AFTER:
            continue
        key, text = explain_delay(due_at, recorded_at, row.sent_at, row.started_at)
        first = LateRuns(row, 0, delay, text)
        known = found.get((row.action_uid, key), first)
        found[row.action_uid, key] = known._replace(number=known.number + 1)
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
