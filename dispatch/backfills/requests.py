"""
Start a backfill, show how far it is and what it waits for, and cancel it.

The leader does the rest: see progress.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from actions.occurrences import parse_timing
from actions.posting.revisions import require_action
from actions.read_actions import get_action_state
from actions.read_rules import find_problem, find_zone
from dispatch.backfills.planning import plan_backfill
from dispatch.stored_requests import RequestState, StoredRequests, make_shown
from models.database.engine import (
    Identifier,
    UtcDateTime,
    db_now,
    json_rows,
    read_clock,
)
from models.database.journal import find_author
from models.database.lists import belongs_to, cut_part, fetch_latest, find_by_prefix
from models.database.tables import (
    BACKFILL_WAITING,
    backfill_occurrences,
    backfills,
    operations,
    scheduled_actions,
)
from models.database.transaction import keep_leader_out
from models.errors import ConflictError, UsageError
from models.fields.instants import format_instant
from models.operation_state import OperationState, Overlap, Queue
from models.paging import Page, Part
from models.requests.actions import BackfillModel, Which
from models.units import show_instant
from operations.cancel_and_retry import cancel_each
from operations.record import count_live
from operations.running.pace import read_taken, seconds_taken
from operations.selecting import refuse_other_count
from operations.sending.order import has_sendable

_run = operations.c

#: Latest runs that are asked how long a run takes.
_RUNS = 20

_SECOND = timedelta(seconds=1)


class OccurrenceOutcome(StrEnum):
    """What the leader did about an occurrence, or why it did nothing."""

    RECORDED = "recorded"
    RETRIED = "retried"
    # left as it was, because
    CANCELED = "the backfill was canceled"
    DELETED = "the action was deleted"
    OF_EVENTS = "events drive the action now"
    RESTORED = "a backup was restored"


#: An operation runs, or ran, because of the backfill.
TAKEN = (OccurrenceOutcome.RECORDED, OccurrenceOutcome.RETRIED)

#: Begins the outcome of an occurrence that was left as it was; the reason follows.
LEFT = "left: "


def find_wait(connection: sa.Connection, action: sa.Row[Any]) -> str | None:
    """Say what keeps a backfill of *action* from recording more; None: nothing does."""
    state = get_action_state(action)
    if state != "active":
        return f"the action is {state}"
    if has_sendable(connection, Queue(action.queue)):
        return f"other work waits in queue {action.queue}, and goes first"
    if action.overlap == Overlap.ALLOW:
        return None
    live = count_live(connection, {action.uid})
    if live[action.uid, None]:
        return f"another run is under way, and the overlap is {action.overlap}"
    if action.overlap == Overlap.SKIP and not _leaves_room(connection, action):
        due_at = show_instant(action.next_due_at, find_zone(action))
        return (
            f"the next occurrence at {due_at} would be skipped, because a run takes"
            " longer than until then"
        )
    return None


def _leaves_room(connection: sa.Connection, action: sa.Row[Any]) -> bool:
    """
    Return whether a run that begins now should end before the next occurrence.

    With ``overlap: skip`` the backfill would cost that occurrence its run. If runs take
    longer than the time between two occurrences, that happens anyway.
    """
    if action.next_due_at is None or find_problem(action) is not None:
        return True
    latest = connection.scalars(
        sa.select(seconds_taken())
        .where(_run.action_uid == action.uid)
        .order_by(_run.occurrence.desc())
        .limit(_RUNS)
    )
    longest = max(filter(None, map(read_taken, latest)), default=timedelta(0))
    due_at = action.next_due_at
    if read_clock(connection) + longest < due_at:
        return True
    schedule = parse_timing(action.timing)
    first = schedule.next_from(due_at)
    second = None if first is None else schedule.next_from(first + _SECOND)
    return first is not None and second is not None and second - first <= longest


#: Occurrences that wait for their turn, those that were left as they were, and those
#: whose operation has been pruned; the others count by the state of their operation.
WAITING, LEFT_OUT, PRUNED = "waiting", "left", "pruned"


BACKFILLS = StoredRequests(backfills, "backfill", "backfill")

_noted = backfill_occurrences.c

#: Occurrences, with their operations as far as there are some.
_WITH_OPERATIONS = backfill_occurrences.outerjoin(
    operations, _run.id == _noted.operation_id
)


@dataclass(frozen=True, slots=True)
class ShownBackfill:
    """
    A backfill; times are aware UTC.

    Args:
        since: Inclusive.
        until: Exclusive.
        at_once: The most of its operations that are live at a time.
        total: How many occurrences it is to run.
        progress: How many of them wait, how many were left as they were, and how many
            operations are in each state. None: it was not asked for.
        waits_for: What keeps it from recording more now. None: nothing, or it was not
            asked for.
    """

    id: UUID
    app: str
    action_uid: str
    state: RequestState
    since: datetime = field(metadata={"serialization_alias": "from"})
    until: datetime
    which: Which
    at_once: int
    total: int
    progress: Mapping[str, int] | None
    waits_for: str | None
    note: str | None
    requested_by: str
    created_at: datetime
    canceled_at: datetime | None
    canceled_by: str | None
    finished_at: datetime | None


def find_backfill_id(connection: sa.Connection, text: str) -> UUID:
    """Return the id of a backfill that begins with *text*: see ``find_by_prefix``."""
    return find_by_prefix(connection, backfills.c.id, text, noun="backfill")


def fetch_shown_backfill(
    connection: sa.Connection, backfill_id: UUID, *, app: str | None = None
) -> ShownBackfill:
    """
    Return a backfill with its progress, and with what it waits for.

    Args:
        app: Uid of a small app; backfills of others are unknown. None: any.

    Raises:
        NotFoundError: There is no such backfill.
    """
    shown = _make_shown(BACKFILLS.fetch(connection, backfill_id, app=app))
    progress = _count(connection, backfill_id)
    shown = replace(shown, progress=progress)
    if shown.state is not RequestState.RUNNING or WAITING not in progress:
        return shown
    action = connection.execute(
        sa.select(scheduled_actions).where(
            scheduled_actions.c.uid == shown.action_uid,
            scheduled_actions.c.timing.is_not(None),
        )
    ).one_or_none()
    if action is None:
        return shown
    return replace(shown, waits_for=find_wait(connection, action))


def _count(connection: sa.Connection, backfill_id: UUID) -> dict[str, int]:
    key = _noted.outcome, _run.state
    rows = connection.execute(
        sa.select(*key, sa.func.count())
        .select_from(_WITH_OPERATIONS)
        .where(_noted.backfill_id == backfill_id)
        .group_by(*key)
    )
    counts: Counter[str] = Counter()
    for outcome, state, count in rows:
        if outcome is None:
            counts[WAITING] += count
        elif outcome in TAKEN:
            counts[PRUNED if state is None else state] += count
        else:
            counts[LEFT_OUT] += count
    return dict(sorted(counts.items()))


def fetch_shown_backfills(
    connection: sa.Connection,
    page: Page,
    *,
    app: str | None = None,
    action_uid: str | None = None,
) -> Part[ShownBackfill]:
    """
    Return backfills without their progress, the latest first.

    Args:
        app: Only those of this small app. None: of all.
        action_uid: Only those of this action. None: of all.
    """
    query = sa.select(backfills).where(*belongs_to(app, backfills.c.app))
    if action_uid is not None:
        query = query.where(backfills.c.action_uid == action_uid)
    key = (backfills.c.created_at, backfills.c.id)
    part = fetch_latest(connection, query, page, key)
    return Part([_make_shown(row) for row in part.entries], part.following)


def _make_shown(row: sa.Row[Any]) -> ShownBackfill:
    return make_shown(
        ShownBackfill,
        row,
        since=row.from_at,
        until=row.until_at,
        which=Which(row.which),
        progress=None,
        waits_for=None,
    )


@dataclass(frozen=True, slots=True)
class BackfilledOccurrence:
    """
    An occurrence that a backfill is to run.

    Args:
        outcome: WAITING, recorded, retried, or "left: " and why.
        state: Of its operation. None: it has none, or it has been pruned.
        reason: Why its operation did not succeed.
    """

    occurrence: datetime
    operation_id: UUID = field(metadata={"serialization_alias": "operation"})
    outcome: str
    state: str | None
    reason: str | None

    @property
    def told(self) -> str:
        """What became of it, in a few words."""
        if self.outcome in TAKEN:
            why = "" if self.reason is None else f" ({self.reason})"
            return f"{self.state or PRUNED}{why}"
        return self.outcome.removeprefix(LEFT)


def fetch_backfilled_occurrences(
    connection: sa.Connection, backfill_id: UUID, page: Page, *, app: str | None = None
) -> Part[BackfilledOccurrence]:
    """
    Return the occurrences of a backfill, the oldest first.

    Args:
        page: Which part of them.
        app: As for ``fetch_shown_backfill``.

    Raises:
        NotFoundError: There is no such backfill.
    """
    BACKFILLS.fetch(connection, backfill_id, app=app)
    query = (
        sa.select(
            *(_noted.occurrence, _noted.operation_id),
            sa.func.coalesce(_noted.outcome, WAITING),
            *(_run.state, _run.reason),
        )
        .select_from(_WITH_OPERATIONS)
        .where(_noted.backfill_id == backfill_id)
        .order_by(_noted.occurrence)
        .limit(page.limit + 1)
    )
    after = page.read_after(datetime)
    if after is not None:
        query = query.where(_noted.occurrence > sa.literal(after[0], UtcDateTime))
    rows: Any = connection.execute(query).all()
    part = cut_part(rows, page, [_noted.occurrence])
    return Part([BackfilledOccurrence(*row) for row in part.entries], part.following)


def settle_waiting(connection: sa.Connection, backfill_id: UUID, outcome: str) -> int:
    """Give all occurrences that wait for their turn this outcome; return how many."""
    settled = connection.execute(
        sa.update(backfill_occurrences)
        .where(
            _noted.backfill_id == backfill_id,
            BACKFILL_WAITING.of("backfill_occurrences"),
        )
        .values(outcome=outcome)
    )
    return settled.rowcount


def end_backfills(connection: sa.Connection, why: OccurrenceOutcome) -> None:
    """
    End all backfills at once.

    For a backup that was restored: what they would still record may have run since.
    """
    is_open = backfills.c.finished_at.is_(None)
    ids = connection.execute(sa.select(backfills.c.id).where(is_open)).scalars().all()
    for backfill_id in ids:
        settle_waiting(connection, backfill_id, f"{LEFT}{why}")
    connection.execute(sa.update(backfills).where(is_open).values(finished_at=db_now()))


#: The most that may be said: a leader looks at twice as many operations at least.
MOST_AT_ONCE = 100


def start_backfill(
    connection: sa.Connection,
    uid: str,
    asked: BackfillModel,
    *,
    retention: timedelta,
    app: str | None = None,
) -> UUID:
    """
    Store a backfill of what ``plan_backfill`` lists; return its id.

    Args:
        uid: As for ``plan_backfill``, as are *retention* and *app*.
        asked: What is wanted; at once as many of its operations are live as it says,
            from 1 to MOST_AT_ONCE. If runs of the action must not overlap, it is one.

    Raises:
        NotFoundError, UsageError: As ``plan_backfill``, or *at_once* is out of bounds.
        ConflictError: The rule cannot be read, nothing would run, or not the number
            that was expected.
    """
    if not 1 <= asked.at_once <= MOST_AT_ONCE:
        msg = f"--at-once: {asked.at_once} is not between 1 and {MOST_AT_ONCE}"
        raise UsageError(msg)
    plan = plan_backfill(connection, uid, asked, retention=retention, app=app)
    # it is not deleted until this is committed
    require_action(connection, uid, lock=True)
    chosen = plan.chosen
    refuse_other_count(len(chosen), asked.expected_count)
    if not chosen:
        raise ConflictError(
            f"nothing of action {uid!r} is to run from {format_instant(plan.since)} to"
            f" {format_instant(plan.until)} (--which {plan.which})"
        )
    told: dict[str, Any] = {
        "action_uid": uid,
        "from_at": plan.since,
        "until_at": plan.until,
        "which": asked.which,
        "total": len(chosen),
        "at_once": asked.at_once,
    }
    values = told | {"app": plan.app, "note": asked.note}
    values["created_at"] = read_clock(connection)
    backfill_id = BACKFILLS.store(connection, values, told=told, note=asked.note)
    rows = [
        {"occurrence": each.occurrence, "operation_id": each.operation_id}
        for each in chosen
    ]
    columns: dict[str, sa.types.TypeEngine[Any]] = {
        "occurrence": UtcDateTime,
        "operation_id": Identifier,
    }
    given = json_rows(connection.dialect.name, columns, given=rows)
    connection.execute(
        sa.insert(backfill_occurrences).from_select(
            ["backfill_id", *columns],
            sa.select(sa.literal(backfill_id, Identifier), *given.c),
        )
    )
    return backfill_id


def cancel_backfill(
    connection: sa.Connection, backfill_id: UUID, *, app: str | None = None
) -> int:
    """
    Stop a backfill: no more of it is recorded, and what waits is canceled.

    What a worker has taken goes on; cancel that one by one.

    Args:
        connection: Of ``writing``, which knows who asks.
        app: Uid of a small app; backfills of others are unknown. None: any.

    Returns:
        How many recorded operations were canceled.

    Raises:
        NotFoundError: There is no such backfill.
        ConflictError: It is over already.
    """
    BACKFILLS.fetch(connection, backfill_id, app=app)
    # Not before: the leader waits for nobody who names a backfill that is not there.
    keep_leader_out(connection)
    row = BACKFILLS.fetch_open(connection, backfill_id, app=app)
    left = settle_waiting(
        connection, backfill_id, f"{LEFT}{OccurrenceOutcome.CANCELED}"
    )
    taken = _noted.backfill_id == backfill_id, _noted.outcome.in_(TAKEN)
    ids = connection.scalars(sa.select(_noted.operation_id).where(*taken)).all()
    waiting = {OperationState.PENDING, OperationState.QUEUED}
    canceled = len(cancel_each(connection, ids, states=waiting))
    BACKFILLS.cancel(
        connection,
        row,
        {"canceled_by": find_author(connection).name},
        told={"canceled_operations": canceled, "never_recorded": left},
    )
    return canceled
