"""
What actions ask to be watched for: runs that are late, and failures in a row.

An operation whose action has ``expect`` has ``expected_at``: when the leader looks at
it next. That it is late is recorded in the transaction that adds it to the notice of
its cause: so it is told once, whichever scheduler leads.

Of actions with ``rest_after`` the leader looks every few seconds at what failed lately.
It pauses under its fence, and an action that is paused is not looked at: so each is
paused once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

import sqlalchemy as sa
import structlog

from actions.lease import Leader
from actions.pausing.pause_and_resume import pause_action
from actions.posting.revisions import SCHEDULER
from dispatch.noticer import Noticer
from models.database.engine import (
    Author,
    UtcDateTime,
    db_now,
    json_rows,
    make_rows_json,
    read_clock,
    reading,
    writing,
)
from models.database.tables import (
    EXPECTED,
    IS_REVISION,
    RESTING_ACTIONS,
    TROUBLED,
    operations,
    scheduled_action_revisions,
    scheduled_actions,
)
from models.expectations import RunTimes, judge, read_expectation
from models.operation_state import OperationState, Trigger
from models.requests.notes import PauseModel
from operations.notices.grouping import NoticeKind, make_trouble
from operations.notices.stored import OVERLAP
from operations.reasons import find_cause
from telemetry import Event

log = structlog.get_logger()

#: Operations that one part looks at.
JUDGED_AT_ONCE = 500

_run, _action = operations.c, scheduled_actions.c


@dataclass(slots=True)
class _Look:
    """
    What the leader looks at between ticks, a part at a time.

    Args:
        engine: The leader's engine.
        leader: Everything is written under its fence.
        noticer: Tells of it.
    """

    engine: sa.Engine
    leader: Leader
    noticer: Noticer


@dataclass(slots=True)
class LateLook(_Look):
    """Looks at what should have ended."""

    def look(self) -> int:
        """
        Judge a part of what is to be looked at now; return how much.

        Raises:
            LeadershipLostError, UnreachableError: Nothing was written.
        """
        is_due = sa.select(_run.id).where(EXPECTED.of(), _run.expected_at <= db_now())
        with reading(self.engine) as connection:
            if connection.execute(is_due.limit(1)).first() is None:
                return 0
        with writing(self.engine) as connection:
            self.leader.check(connection)
            return self._judge(connection)

    def _judge(self, connection: sa.Connection) -> int:
        rows = connection.execute(_SELECT_DUE).all()
        judged, troubles = [], []
        for row in rows:
            run = RunTimes(*(getattr(row, name) for name in RunTimes._fields))
            found = judge(read_expectation(row.document or {}), run, now=row.now)
            judged.append({"id": row.id, **found._asdict()})
            if found.late is not None:
                late = make_trouble(row, NoticeKind.LATE, cause=found.late, at=row.now)
                troubles.append(late)
        if rows:
            statement = _judged_statement(connection.dialect.name)
            connection.execute(statement, {"judged": make_rows_json(judged)})
            self.noticer.add(connection, troubles, now=rows[0].now)
        if troubles:
            log.warning(Event.OPERATIONS_LATE, operations=len(troubles))
        return len(rows)


_SELECT_DUE = (
    sa.select(operations, scheduled_action_revisions.c.document, db_now().label("now"))
    .outerjoin(scheduled_action_revisions, IS_REVISION)
    .where(EXPECTED.of(), _run.expected_at <= db_now())
    .order_by(_run.expected_at)
    .limit(JUDGED_AT_ONCE)
    # Whoever ends one now is not waited for: it is looked at again.
    .with_for_update(of=operations, skip_locked=True)
)


@cache
def _judged_statement(dialect: str) -> sa.Update:
    columns = {"id": _run.id, "late": _run.late, "look_at": _run.expected_at}
    kinds = {name: column.type for name, column in columns.items()}
    judged = json_rows(dialect, kinds, "judged")
    return (
        sa.update(operations)
        .where(_run.id == judged.c.id)
        .values(expected_at=judged.c.look_at, late=judged.c.late)
    )


#: Actions that one part pauses.
PAUSED_AT_ONCE = 100

#: How far back the first look of a leader goes.
FIRST_LOOK = timedelta(days=1)

_LONG_AGO = datetime.min.replace(tzinfo=UTC)

_ASKS = RESTING_ACTIONS.of(scheduled_actions.name)


@dataclass(slots=True)
class Rester(_Look):
    """Pauses what failed too often in a row."""

    _seen_until: datetime | None = None

    def look(self) -> int:
        """
        Pause a part of what failed too often in a row; return how many.

        Raises:
            LeadershipLostError, UnreachableError: Nothing was written.
        """
        # In the order of its own index: SQLite would walk all names instead.
        asks = sa.select(_action.uid).where(_ASKS).order_by(_action.uid).limit(1)
        with reading(self.engine) as connection:
            if connection.execute(asks).first() is None:
                return 0
            now = read_clock(connection)
            since = now - FIRST_LOOK
            if self._seen_until is not None:
                # a run may be committed a little later than it ended
                since = min(self._seen_until, now) - OVERLAP
            if connection.execute(_TIRED, {"since": since}).first() is None:
                self._seen_until = now
                return 0
        with writing(self.engine, author=Author(SCHEDULER)) as connection:
            self.leader.check(connection)
            # Again: one may have succeeded meanwhile, or have been paused.
            tired = connection.execute(_TIRED_AND_FREE, {"since": since}).all()
            for row in tired:
                self._rest(connection, row, now)
        return len(tired)

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
    lately = sa.select(_run.action_uid).where(
        TROUBLED.of(), _run.finished_at > sa.bindparam("since", type_=UtcDateTime)
    )
    return (
        sa.select(_action.uid, _action.rest_after)
        .where(_ASKS, _action.uid.in_(lately), failures >= _action.rest_after)
        .order_by(_action.uid)
        .limit(PAUSED_AT_ONCE)
    )


_TIRED = _make_tired_statement()

#: What somebody keeps locked is not waited for: it is looked at again.
_TIRED_AND_FREE = _TIRED.with_for_update(
    of=scheduled_actions, key_share=True, skip_locked=True
)

#: The last run that failed.
_LAST = (
    sa.select(operations)
    .join(scheduled_actions, _counts(operations, OperationState.FAILED))
    .where(_action.uid == sa.bindparam("uid"))
    .order_by(_run.occurrence.desc())
    .limit(1)
)
