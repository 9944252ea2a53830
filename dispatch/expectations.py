"""
Tell what is late or takes too long, if its action expects otherwise (``expect``).

An operation of such an action has ``expected_at``: when the leader looks at it next.
That it is late is recorded in the transaction that adds it to the notice of its cause:
so it is told once, whichever scheduler leads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import sqlalchemy as sa
import structlog

from actions.leader import Leader
from dispatch.noticer import Noticer
from models.database.engine import db_now, json_rows, make_rows_json, reading, writing
from models.database.tables import (
    EXPECTED,
    IS_REVISION,
    operations,
    scheduled_action_revisions,
)
from models.expectations import RunTimes, judge, read_expectation
from operations.notices.grouping import NoticeKind, make_trouble
from telemetry import Event

log = structlog.get_logger()

#: Operations that one part looks at.
JUDGED_AT_ONCE = 500

_run = operations.c


@dataclass(slots=True)
class LateLook:
    """
    Looks at what should have ended.

    Args:
        engine: The leader's engine.
        leader: Everything is written under its fence.
        noticer: Tells of it.
    """

    engine: sa.Engine
    leader: Leader
    noticer: Noticer

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
