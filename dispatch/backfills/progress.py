"""
The leader's part of backfills: record the next occurrences, and notice the end.

Each backfill advances in one transaction of its own, under the fence: the operations
and what is noted about them are written together, or not at all. What runs by schedule
goes first: nothing is recorded while the queue has other work to send, and the runs of
a backfill are sent last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import sqlalchemy as sa
import structlog

from actions.lease import Leader
from dispatch.backfills.planning import RUNS, Recorded
from dispatch.backfills.requests import (
    LEFT,
    TAKEN,
    OccurrenceOutcome,
    find_wait,
    settle_waiting,
)
from models.database.engine import UtcDateTime, db_now, json_rows, reading, writing
from models.database.lists import select_given
from models.database.tables import (
    BACKFILL_WAITING,
    LIVE,
    OPEN_BACKFILLS,
    backfill_occurrences,
    backfills,
    operations,
    scheduled_actions,
)
from models.decision import make_backfilled_by
from models.operation_state import OperationState, Overlap, Trigger
from models.requests.actions import Which
from operations.cancel_and_retry import reopen_each
from operations.record import make_operation, record
from telemetry import Event

_run = operations.c

log = structlog.get_logger()

#: States of an operation that a backfill makes pending again.
BACKFILLED_STATES = frozenset(
    {OperationState.FAILED, OperationState.CANCELED, OperationState.SKIPPED}
)

_noted = backfill_occurrences.c


@dataclass(slots=True)
class Backfiller:
    """
    Lets the open backfills advance, one after the other.

    Args:
        leader: Checked in every transaction.
    """

    engine: sa.Engine
    leader: Leader
    _following: deque[UUID] = field(default_factory=deque)

    def look(self) -> bool:
        """
        Record what may be recorded now of the backfill whose turn it is.

        Returns:
            Whether others follow, before it is the turn of the oldest again.

        Raises:
            LeadershipLostError, UnreachableError: Nothing was written.
        """
        if not self._following:
            kept = backfills.c
            is_open = sa.select(kept.id).where(OPEN_BACKFILLS.of("backfills"))
            with reading(self.engine) as connection:
                oldest = is_open.order_by(kept.created_at, kept.id)
                self._following.extend(connection.scalars(oldest))
        if self._following:
            with writing(self.engine) as connection:
                fence = self.leader.check(connection)
                advance_backfill(connection, self._following.popleft(), fence=fence)
        return bool(self._following)


def advance_backfill(
    connection: sa.Connection, backfill_id: UUID, *, fence: int
) -> None:
    """
    Record the next operations of a backfill, or end it.

    Args:
        connection: In a transaction that has checked the lease.
        fence: Of the leadership.
    """
    row = connection.execute(
        sa.select(backfills)
        .where(backfills.c.id == backfill_id, OPEN_BACKFILLS.of("backfills"))
        # The leader waits for nobody who changes it, or its action.
        .with_for_update(skip_locked=True)
    ).one_or_none()
    if row is None:
        return  # it ended meanwhile, or its turn comes later
    whose = scheduled_actions.c.uid == row.action_uid
    free = sa.select(scheduled_actions).where(whose).with_for_update(skip_locked=True)
    action = connection.execute(free).one_or_none()
    if action is None and connection.scalar(sa.select(sa.exists().where(whose))):
        return  # its turn comes at the next look
    if gone := _find_end(action):
        settle_waiting(connection, row.id, f"{LEFT}{gone}")
    live = _count_live(connection, row)
    waiting = _noted.backfill_id == row.id, BACKFILL_WAITING.of("backfill_occurrences")
    first = sa.select(_noted.occurrence, _noted.operation_id).where(*waiting)
    following: Any = connection.execute(
        first.order_by(_noted.occurrence).limit(row.at_once)
    ).all()
    if not following:
        if live == 0:
            ended = sa.update(backfills).where(backfills.c.id == row.id)
            connection.execute(ended.values(finished_at=db_now()))
            whose_end = {"backfill": str(row.id), "action_uid": row.action_uid}
            log.info(Event.BACKFILL_ENDED, **whose_end)
        return
    if action is None or find_wait(connection, action) is not None:
        return
    room = row.at_once - live if action.overlap == Overlap.ALLOW else 1
    if room > 0:
        _take(connection, row, action, following[:room], fence)


def _find_end(action: sa.Row[Any] | None) -> OccurrenceOutcome | None:
    """Say why nothing more of *action* may run, ever; None: it may."""
    if action is None or action.deleted_at is not None:
        return OccurrenceOutcome.DELETED
    # A run without a user would be for all recipients.
    return OccurrenceOutcome.OF_EVENTS if action.timing is None else None


def _count_live(connection: sa.Connection, row: sa.Row[Any]) -> int:
    """Return how many operations that this backfill recorded are not final."""
    taken = sa.exists().where(
        _noted.backfill_id == row.id,
        _noted.occurrence == _run.occurrence,
        _noted.outcome.in_(TAKEN),
    )
    return connection.execute(
        sa.select(sa.func.count())
        .select_from(operations)
        .where(LIVE.of(), _run.action_uid == row.action_uid, taken)
    ).scalar_one()


def _take(
    connection: sa.Connection,
    row: sa.Row[Any],
    action: sa.Row[Any],
    chosen: Sequence[sa.Row[Any]],
    fence: int,
) -> None:
    """Record the operations of *chosen*, or make them pending again."""
    new = [
        make_operation(
            action,
            id=each.operation_id,
            trigger=Trigger.BACKFILL,
            triggered_by=make_backfilled_by(action.name, row.id, row.requested_by),
            # It is expected at once: it is the leader that finds out when it began.
            occurrence=each.occurrence,
        )
        for each in chosen
    ]
    outcomes: dict[UUID, str] = dict.fromkeys(
        record(connection, new, fence=fence), OccurrenceOutcome.RECORDED
    )
    known = [each.id for each in new if each.id not in outcomes]
    if known:
        outcomes |= _reopen(connection, known, Which(row.which))
    told = {each.occurrence: outcomes[each.operation_id] for each in chosen}
    given = json_rows(
        connection.dialect.name,
        {"occurrence": UtcDateTime, "outcome": sa.Text()},
        given=[{"occurrence": at, "outcome": word} for at, word in told.items()],
    )
    here = _noted.backfill_id == row.id, _noted.occurrence == given.c.occurrence
    noted = sa.update(backfill_occurrences).where(*here)
    connection.execute(noted.values(outcome=given.c.outcome))


def _reopen(
    connection: sa.Connection, ids: Sequence[UUID], which: Which
) -> Mapping[UUID, str]:
    """Make operations pending again if they did not run; say what became of each."""
    states = {s for s in BACKFILLED_STATES if Recorded(s.value) in RUNS[which]}
    reopened = reopen_each(connection, ids, states=states)
    outcomes: dict[UUID, str] = dict.fromkeys(reopened, OccurrenceOutcome.RETRIED)
    among = _run.id.in_(select_given(connection, ids))
    rows = sa.select(_run.id, _run.state).where(among)
    for operation_id, state in connection.execute(rows):
        outcomes.setdefault(operation_id, f"{LEFT}it is {state}")
    for operation_id in ids:
        # Maintenance took it meanwhile, so nobody knows whether it ran.
        outcomes.setdefault(operation_id, f"{LEFT}it is {Recorded.PRUNED}")
    return outcomes
