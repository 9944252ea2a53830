"""What runs at this moment and when it may end; and what comes next."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.occurrences import parse_timing
from actions.read_rules import find_next_due, find_zone_at
from models.database.lists import belongs_to
from models.database.tables import (
    CLAIMED,
    DUE_ACTIONS,
    TRIED_BEFORE,
    operations,
    scheduled_actions,
)
from models.decision import get_action_name
from models.operation_state import OperationState, StepState
from operations.list_operations import fetch_steps
from operations.running.pace import UsualRun, fetch_usual
from overview.operations import ProgressJson

#: The most operations that are listed.
LISTED = 20

#: How many occurrences that come are listed.
NEXT = 10

#: Occurrences that an action may have in a minute.
_MOST_IN_MINUTE = 60

_action = scheduled_actions.c


@dataclass(frozen=True, slots=True)
class UnderWay:
    """
    An operation that runs, or that waits for its next attempt; times are aware UTC.

    Args:
        is_retrying: Whether an attempt failed and the next is still to come.
        again_at: When the next attempt begins. None: it runs.
        step: What runs now. None: no step does.
        step_number: Of that step, from 1; otherwise how many steps have ended.
        eta: When it ends if it takes as long as usual; None: its action has not
            succeeded lately, or steps of it ended in an earlier attempt.
    """

    id: UUID
    app: str
    action_name: str
    is_retrying: bool
    attempt: int
    attempts_allowed: int
    error: str | None
    started_at: datetime | None
    again_at: datetime | None
    step: str | None
    step_number: int
    step_count: int
    progress: ProgressJson | None
    eta: datetime | None
    usual: UsualRun


def fetch_under_way(
    connection: sa.Connection, *, app: str | None = None, limit: int = LISTED
) -> list[UnderWay]:
    """
    Return what runs, the longest running first, and then what waits to be tried again.

    Args:
        app: Uid of the only small app that counts. None: all.
    """
    kept = operations.c
    runs = kept.state == OperationState.RUNNING
    age = kept.started_at, kept.id
    # Each in the order of its index: with OR, SQLite would walk all operations.
    first = (
        sa.select(kept.id).where(*each, *belongs_to(app)).order_by(*age).limit(limit)
        for each in ((CLAIMED.of(), runs), (TRIED_BEFORE.of(), kept.attempt > 0))
    )
    ids = sa.union_all(*(sa.select(each.subquery()) for each in first))
    rows = connection.execute(
        sa.select(operations)
        .where(kept.id.in_(ids))
        .order_by(sa.case((runs, 0), else_=1), *age)
        .limit(limit)
    ).all()
    if not rows:
        return []
    steps = fetch_steps(connection, [row.id for row in rows])
    usual = fetch_usual(connection, {row.action_uid for row in rows})
    return [_make(row, steps.get(row.id, []), usual[row.action_uid]) for row in rows]


def _make(row: sa.Row[Any], steps: Sequence[sa.Row[Any]], usual: UsualRun) -> UnderWay:
    seen = [each for each in steps if each.state != StepState.SKIPPED]
    at_work = next((e for e in seen if e.state == StepState.RUNNING), None)
    ended = sum(each.state == StepState.SUCCEEDED for each in seen)
    is_running = row.state == OperationState.RUNNING
    stopped_at = next((e for e in seen if e.state != StepState.SUCCEEDED), None)
    shown = at_work or stopped_at
    is_whole = is_running and row.started_at is not None and row.attempt <= 1
    return UnderWay(
        id=row.id,
        app=row.app,
        action_name=get_action_name(row.triggered_by),
        is_retrying=not is_running,
        attempt=row.attempt,
        attempts_allowed=row.attempts_allowed,
        error=None if is_running else row.error,
        started_at=row.started_at,
        again_at=None if is_running else row.send_at,
        step=None if shown is None else shown.name,
        step_number=ended + (shown is not None),
        step_count=len(seen),
        progress=row.progress if is_running else None,
        eta=row.started_at + usual.run if is_whole and usual.run else None,
        usual=usual,
    )


@dataclass(frozen=True, slots=True)
class NextOccurrence:
    """
    An occurrence that comes; times are aware UTC.

    Args:
        zone: Of its action.
        due_at: When it is sent: with its jitter.
        in_minute: Of an action that is due more often than once a minute, how many
            occurrences the minute from this one on has; the others are not told.
    """

    uid: str
    app: str
    name: str
    queue: str
    zone: ZoneInfo
    occurrence: datetime
    due_at: datetime
    in_minute: int = 1


def fetch_coming(
    connection: sa.Connection, *, app: str | None = None
) -> list[NextOccurrence]:
    """
    Return the NEXT occurrences that come, soonest first.

    What follows from events is left out: nobody knows it before the event. An action
    that is due more often than once a minute is told once, or it would be all there is.

    Args:
        app: Uid of the only small app that counts. None: all.
    """
    # No other action can be among them: the first occurrence of each is later.
    rows = connection.execute(
        sa.select(*(each for each in _action if each.name != "document"))
        .where(
            DUE_ACTIONS.of(scheduled_actions.name),
            _action.timing.is_not(None),
            *belongs_to(app, _action.app),
        )
        .order_by(_action.next_due_at, _action.uid)
        .limit(NEXT)
    ).all()
    found = (coming for row in rows for coming in _find_coming(row))
    return heapq.nsmallest(
        NEXT, found, key=lambda coming: (coming.due_at, coming.app, coming.name)
    )


def _find_coming(row: sa.Row[Any]) -> Iterator[NextOccurrence]:
    found = find_next_due(row, count=NEXT)
    in_minute = 1
    if found and parse_timing(row.timing).is_below_minute:
        until = found[0].due_at + timedelta(minutes=1)
        each_second = find_next_due(row, count=_MOST_IN_MINUTE)
        in_minute = sum(due.due_at < until for due in each_second)
        found = found[:1]
    for due in found:
        zone = find_zone_at(row.timing, row.zone, due.occurrence)
        yield NextOccurrence(
            *(row.uid, row.app, row.name, row.queue, zone),
            *(due.occurrence, due.due_at, in_minute),
        )
