"""
Pause what fails again and again, if its action asks for that (``rest_after``).

The leader looks every few seconds at what failed lately. It pauses under its fence, and
an action that is paused is not looked at: so each is paused once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
import structlog

from actions.leader import Leader
from actions.pausing.pause_and_resume import pause_action
from actions.posting.revisions import SCHEDULER
from dispatch.noticer import Noticer
from models.database.engine import Author, UtcDateTime, read_clock, reading, writing
from models.database.tables import (
    RESTING_ACTIONS,
    TROUBLED,
    operations,
    scheduled_actions,
)
from models.operation_state import OperationState, Trigger
from models.requests.notes import PauseModel
from operations.notices.grouping import NoticeKind, make_trouble
from operations.notices.stored import OVERLAP
from operations.reasons import find_cause
from telemetry import Event

log = structlog.get_logger()

#: Actions that one part pauses.
PAUSED_AT_ONCE = 100

#: How far back the first look of a leader goes.
FIRST_LOOK = timedelta(days=1)

_LONG_AGO = datetime.min.replace(tzinfo=UTC)

_kept, _action = operations.c, scheduled_actions.c
_ASKS = RESTING_ACTIONS.of(scheduled_actions.name)


@dataclass(slots=True)
class Rester:
    """
    Pauses what failed too often in a row.

    Args:
        engine: The leader's engine.
        leader: Everything is written under its fence.
        noticer: Tells of it.
    """

    engine: sa.Engine
    leader: Leader
    noticer: Noticer
    _seen_until: datetime | None = None

    def look(self) -> int:
        """
        Pause a part of what failed too often in a row; return how many.

        Raises:
            LeadershipLostError, UnreachableError: Nothing was written.
        """
        with reading(self.engine) as connection:
            if connection.execute(sa.select(_action.uid).where(_ASKS).limit(1)).first():
                now = read_clock(connection)
                tired = self._fetch_tired(connection, now)
            else:
                return 0
        if tired:
            with writing(self.engine, author=Author(SCHEDULER)) as connection:
                self.leader.check(connection)
                # Again: one may have succeeded meanwhile, or have been paused.
                tired = self._fetch_tired(connection, now)
                for row in tired:
                    self._rest(connection, row, now)
        if len(tired) < PAUSED_AT_ONCE:
            self._seen_until = now
        return len(tired)

    def _fetch_tired(
        self, connection: sa.Connection, now: datetime
    ) -> list[sa.Row[tuple[str, int]]]:
        since = now - FIRST_LOOK
        if self._seen_until is not None:  # it may have been committed a little later
            since = min(self._seen_until, now) - OVERLAP
        return list(connection.execute(_TIRED, {"since": since}).all())

    def _rest(
        self, connection: sa.Connection, row: sa.Row[tuple[str, int]], now: datetime
    ) -> None:
        last = connection.execute(_LAST, {"uid": row.uid}).one()
        times = "a failure" if row.rest_after == 1 else f"{row.rest_after} failures"
        in_a_row = "" if row.rest_after == 1 else " in a row"
        cause = find_cause(last.reason, last.error)
        note = f"paused after {times}{in_a_row}; last: {cause}"
        if not pause_action(connection, row.uid, PauseModel.model_construct(note=note)):
            return
        trouble = make_trouble(last, NoticeKind.RESTED, cause=note, at=now)
        self.noticer.add(connection, [trouble], now=now)
        log.warning(Event.ACTION_RESTS, action_uid=row.uid, failures=row.rest_after)


def _counts(kept: sa.FromClause, state: OperationState) -> sa.ColumnElement[bool]:
    """
    Match the runs in *state* that count: of the schedule or an event, as it is now.

    What ran before an edit, a pause or a resume says nothing of what the action is now.
    """
    return sa.and_(
        kept.c.action_uid == _action.uid,
        kept.c.action_revision == _action.revision,
        kept.c.trigger.in_([Trigger.SCHEDULE, Trigger.EVENT]),
        kept.c.state == state,
    )


def _make_tired_statement() -> sa.Select[tuple[str, int]]:
    """Select actions that failed lately, and so often since they last succeeded."""
    well, ill = operations.alias("well"), operations.alias("ill")
    succeeded_at = (
        sa.select(sa.func.max(well.c.occurrence))
        .where(_counts(well, OperationState.SUCCEEDED))
        .correlate(scheduled_actions)
        .scalar_subquery()
    )
    failures = (
        sa.select(sa.func.count())
        .where(
            _counts(ill, OperationState.FAILED),
            ill.c.occurrence
            > sa.func.coalesce(succeeded_at, sa.literal(_LONG_AGO, UtcDateTime)),
        )
        .correlate(scheduled_actions)
        .scalar_subquery()
    )
    lately = sa.select(_kept.action_uid).where(
        TROUBLED.of(), _kept.finished_at > sa.bindparam("since", type_=UtcDateTime)
    )
    return (
        sa.select(_action.uid, _action.rest_after)
        .where(_ASKS, _action.uid.in_(lately), failures >= _action.rest_after)
        .order_by(_action.uid)
        .limit(PAUSED_AT_ONCE)
    )


_TIRED = _make_tired_statement()

#: The last run that failed.
_LAST = (
    sa.select(operations)
    .join(scheduled_actions, _counts(operations, OperationState.FAILED))
    .where(_action.uid == sa.bindparam("uid"))
    .order_by(_kept.occurrence.desc())
    .limit(1)
)
