"""Which past occurrences a backfill would run, and what is recorded of each."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from actions.occurrences import Schedule, parse_timing
from actions.posting.revisions import require_action
from actions.read_actions import get_action_state
from actions.read_rules import find_problem
from actions.when.searching import find_occurrences
from models.database.engine import read_clock
from models.database.lists import select_given
from models.database.tables import operations
from models.decision import read_missed
from models.errors import ConflictError, UsageError
from models.fields.instants import format_instant
from models.json_form import ASIDE
from models.occurrence import make_operation_id
from models.operation_state import OperationState, Reason
from models.requests.actions import BackfillModel, Which

_run = operations.c

#: What is due more often than once a minute may be kept no longer; see Retention.
_KNOWN_BELOW_MINUTE = timedelta(days=1)

#: The most occurrences of one backfill.
MOST_OCCURRENCES = 10_000


class Recorded(StrEnum):
    """What is recorded of an occurrence: a state of its operation, or one of these."""

    NOTHING = "nothing"
    #: the next tick decides about it
    UNDECIDED = "undecided"
    #: too old: what was recorded of it may have been pruned
    PRUNED = "pruned"
    PENDING = "pending"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    SKIPPED = "skipped"
    MISSED = "missed"


_NEVER_RAN = frozenset(
    {Recorded.NOTHING, Recorded.MISSED, Recorded.SKIPPED, Recorded.CANCELED}
)

#: What must be recorded of an occurrence for it to run.
RUNS: Mapping[Which, frozenset[Recorded]] = MappingProxyType(
    {
        Which.MISSING: _NEVER_RAN,
        Which.FAILED: frozenset({Recorded.FAILED}),
        Which.ALL: _NEVER_RAN | {Recorded.FAILED},
    }
)


@dataclass(frozen=True, slots=True)
class PlannedOccurrence:
    """
    A past occurrence.

    Args:
        occurrence: Aware UTC.
        operation_id: The id that its operation has, or would have.
        reason: Why its operation did not succeed. None: it has none, or no reason.
        runs: Whether the backfill would run it.
    """

    occurrence: datetime
    operation_id: UUID = field(metadata={"serialization_alias": "operation"})
    recorded: Recorded
    reason: str | None
    runs: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """
    What a backfill would run.

    Args:
        since: Aware UTC, inclusive.
        until: Aware UTC, exclusive.
        total: How many occurrences it would run.
        by_recorded: How many occurrences there are, by what is recorded of them.
        occurrences: All of the rule in that period, oldest first.
    """

    action_uid: str
    app: str
    since: datetime = field(metadata={"serialization_alias": "from"})
    until: datetime
    which: Which
    total: int
    by_recorded: Mapping[Recorded, int]
    occurrences: tuple[PlannedOccurrence, ...]
    action_name: str = field(metadata=ASIDE)

    @property
    def chosen(self) -> list[PlannedOccurrence]:
        """Those that it would run."""
        return [each for each in self.occurrences if each.runs]


def plan_backfill(
    connection: sa.Connection,
    uid: str,
    asked: BackfillModel,
    *,
    retention: timedelta,
    app: str | None = None,
) -> Plan:
    """
    List the past occurrences of the rule that an action has now.

    Args:
        uid: Of a time-driven action.
        asked: Of which period, and which of them would run.
        retention: How long finished operations are kept: what the action was to do
            before that is unknown, and does not run again.
        app: Uid of a small app; actions of others are unknown. None: any.

    Raises:
        NotFoundError: There is no such action, or it is deleted.
        UsageError: Events drive the action, the period ends later than now or not
            after it begins, or there are more than MOST_OCCURRENCES.
        ConflictError: The rule of the action can no longer be read.
    """
    row = require_action(connection, uid, app=app)
    now = read_clock(connection)
    since, until = asked.since, asked.until or now
    schedule = _read_schedule(row)
    _refuse_period(since, until, now)
    found = find_occurrences(schedule, since, until, limit=MOST_OCCURRENCES + 1)
    if len(found) > MOST_OCCURRENCES:
        raise UsageError(
            f"there are more than {MOST_OCCURRENCES:,} occurrences from"
            f" {format_instant(since)} to {format_instant(until)}; a backfill takes at"
            f" most that many. The last of the first {MOST_OCCURRENCES:,} is at"
            f" {format_instant(found[-2])}: do it in parts."
        )
    if schedule.is_below_minute:
        retention = min(retention, _KNOWN_BELOW_MINUTE)
    # What a tick is going to decide is left to it.
    is_ticked = row.next_due_at is not None and get_action_state(row) == "active"
    recorded = _fetch_recorded(connection, row.uid, found)
    occurrences = []
    for each in found:
        word, reason = recorded.get(each, (Recorded.NOTHING, None))
        if each not in recorded:
            if is_ticked and schedule.due_at(each, row.uid) >= row.next_due_at:
                word = Recorded.UNDECIDED
            elif row.created_at <= each < now - retention:
                word = Recorded.PRUNED
        id_, runs = make_operation_id(row.uid, each), word in RUNS[asked.which]
        occurrences.append(PlannedOccurrence(each, id_, word, reason, runs))
    counts = Counter(each.recorded for each in occurrences)
    return Plan(
        action_uid=row.uid,
        app=row.app,
        since=since,
        until=until,
        which=asked.which,
        total=sum(each.runs for each in occurrences),
        by_recorded={each: counts[each] for each in Recorded if counts[each]},
        occurrences=tuple(occurrences),
        action_name=row.name,
    )


def _read_schedule(row: sa.Row[Any]) -> Schedule:
    if row.follows is not None:
        raise UsageError(
            f"action {row.uid!r} starts after another one. Only actions that are driven"
            " by time have occurrences to backfill; run it once instead (minutehand"
            f" actions run {row.uid})"
        )
    if row.timing is None:
        raise UsageError(
            f"action {row.uid!r} is driven by an event. Only actions that are driven by"
            " time have occurrences to backfill; run it for a user (minutehand"
            f" actions run {row.uid} --user ID)"
        )
    if problem := find_problem(row):
        raise ConflictError(f"the rule of action {row.uid!r} cannot be read: {problem}")
    return parse_timing(row.timing)


def _refuse_period(since: datetime, until: datetime, now: datetime) -> None:
    if until > now:
        raise UsageError(
            f"--until ({format_instant(until)}) is later than now"
            f" ({format_instant(now)}). What is yet to come runs by itself: leave it"
            " out, or give an earlier time."
        )
    if since >= until:
        raise UsageError(
            f"--from ({format_instant(since)}) is not before --until"
            f" ({format_instant(until)}), so nothing lies between them."
        )


def _fetch_recorded(
    connection: sa.Connection, uid: str, found: Sequence[datetime]
) -> dict[datetime, tuple[Recorded, str | None]]:
    """Return what is recorded of those of *found* of which something is, and why."""
    if not found:
        return {}
    was_missed = sa.or_(
        _run.state == OperationState.MISSED, _run.reason == Reason.OVERTAKEN
    )
    rows = connection.execute(
        sa.select(_run.details, _run.reason).where(
            _run.action_uid == uid, was_missed, _run.occurrence <= found[-1]
        )
    )
    ranges = [
        (lost.first, lost.last, reason)
        for details, reason in rows
        if (lost := read_missed(details)) is not None
    ]
    missed = _find_missed(found, [each for each in ranges if each[1] >= found[0]])
    ids = {make_operation_id(uid, each): each for each in found}
    among = _run.id.in_(select_given(connection, ids))
    kept = connection.execute(sa.select(_run.id, _run.state, _run.reason).where(among))
    return {
        **{each: (Recorded.MISSED, reason) for each, reason in missed.items()},
        **{ids[id_]: (Recorded(state), reason) for id_, state, reason in kept},
    }


def _find_missed(
    found: Sequence[datetime], ranges: Iterable[tuple[datetime, datetime, str | None]]
) -> dict[datetime, str | None]:
    """
    Return those of *found*, oldest first, that lie in a range, each with its reason.

    Both are walked once, since each may have thousands.
    """
    left = deque(sorted(ranges, key=lambda each: each[:2]))
    missed = {}
    for occurrence in found:
        while left and left[0][1] < occurrence:
            left.popleft()
        if left and left[0][0] <= occurrence:
            missed[occurrence] = left[0][2]
    return missed
