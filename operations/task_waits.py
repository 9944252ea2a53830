"""
What operations wait for: the end of a task of the user's own, and who tells it.

An operation has one row here, made before its task is sent. The token in it goes with
the task and comes back with each answer. Whoever else uses the broker does not know it,
and an answer with a former token, or to what has been answered, changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from pydantic import JsonValue
from sqlalchemy.dialects.postgresql import insert

from models.database.engine import db_now, read_clock, reading, writing
from models.database.plain_json import make_plain
from models.database.tables import AWAITING, OPEN_WAITS, operations, task_waits
from operations.claiming.claim import guard
from operations.claiming.claimed import Claim
from operations.foreign_tasks import Answer, ForeignTask, Wait
from operations.running.step_records import AWAITED, remember

_kept = task_waits.c

#: How long after a deadline answers are still looked for: they are taken off the broker
#: then, and change nothing.
LISTEN_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class TaskWaits:
    """
    The wait of one step of one operation, under its claim; see ports.Waits.

    Args:
        memo: What the step remembers.
    """

    engine: sa.Engine
    claim: Claim
    step: str
    memo: dict[str, JsonValue] = field(default_factory=dict)

    def fetch(self) -> Wait | None:
        """Return what this step waits for; None: it has not begun to."""
        token = self.memo.get(AWAITED)
        if token is None:
            return None
        with reading(self.engine) as connection:
            row = connection.execute(
                sa.select(task_waits, (_kept.deadline <= db_now()).label("is_over"))
                .where(_kept.operation_id == self.claim.operation_id)
                .where(_kept.token == UUID(str(token)))
            ).one_or_none()
        return None if row is None else _make_wait(row)

    def begin(
        self, task: ForeignTask, within: timedelta, token: UUID | None = None
    ) -> Wait:
        """Commit that the end of *task* is waited for; *token* None: a new one."""
        # An answer may have come to what was sent before; it stays.
        kept = set() if token is None else {"answered_at", "answer"}
        token = token or uuid4()
        values: dict[str, Any] = {
            "token": token,
            "connection": task.connection,
            "queue": task.queue,
            "task": task.name,
            "deadline": db_now(within),
            **dict.fromkeys(("sent_at", "answered_at", "answer", "remark")),
        }
        with writing(self.engine) as connection:
            guard(connection, self.claim)
            connection.execute(
                insert(task_waits)
                .values(operation_id=self.claim.operation_id, **values)
                .on_conflict_do_update(
                    index_elements=[_kept.operation_id],
                    set_={key: values[key] for key in values.keys() - kept},
                )
            )
            self.memo[AWAITED] = str(token)
            remember(connection, self.claim, self.step, self.memo)
            deadline = read_clock(connection) + within
        return Wait(token, deadline, False, False, None, None)  # noqa: FBT003 - fields

    def mark_sent(self) -> None:
        """Commit that the task was sent."""
        with writing(self.engine) as connection:
            guard(connection, self.claim)
            connection.execute(
                sa.update(task_waits)
                .where(_kept.operation_id == self.claim.operation_id)
                .values(sent_at=db_now())
            )

    def keep(self, answer: Answer) -> None:
        """Commit *answer*, to whatever operation it is."""
        record_answer(self.engine, answer)


def _make_wait(row: sa.Row[Any]) -> Wait:
    told = row.answer
    answer = None
    if told is not None:
        answer = Answer(row.token, told["succeeded"], told["returned"], told["note"])
    return Wait(
        token=row.token,
        deadline=row.deadline,
        is_over=bool(row.is_over),
        is_sent=row.sent_at is not None,
        answer=answer,
        remark=row.remark,
    )


def record_answer(engine: sa.Engine, answer: Answer) -> bool:
    """
    Record how a task ended, and let its operation go on.

    Args:
        engine: In a transaction of its own.

        answer: Whoever it is from.

    Returns:
        False if nobody waits for it: its token is unknown, or it was answered before.
    """
    told = {
        "succeeded": answer.succeeded,
        "returned": make_plain(answer.returned),
        "note": make_plain(answer.note),
    }
    with writing(engine) as connection:
        operation_id = connection.execute(
            sa.select(_kept.operation_id).where(_kept.token == answer.token)
        ).scalar_one_or_none()
        if operation_id is None:
            return False
        # First the operation, then the wait: a worker locks them in this order.
        connection.execute(
            sa.select(operations.c.id)
            .where(operations.c.id == operation_id)
            .with_for_update()
        )
        answered = connection.execute(
            sa.update(task_waits)
            .where(_kept.token == answer.token, OPEN_WAITS.of("task_waits"))
            .values(answered_at=db_now(), answer=told)
        )
        if answered.rowcount == 0:
            return False
        # While its worker still holds it, that worker will see the answer.
        connection.execute(
            sa.update(operations)
            .where(operations.c.id == operation_id, AWAITING.of())
            .values(send_at=db_now())
        )
    return True


def fetch_listened(connection: sa.Connection) -> list[str | None]:
    """Return the connections from which answers may come; None is our own broker."""
    found = connection.execute(
        sa.select(_kept.connection)
        .where(OPEN_WAITS.of("task_waits"), _kept.deadline > db_now(-LISTEN_AFTER))
        .distinct()
    )
    return sorted(found.scalars(), key=lambda name: name or "")


@dataclass(frozen=True, slots=True)
class Silent:
    """
    A task that was sent a while ago, and has not answered.

    Args:
        since: When it was sent, aware UTC.
    """

    operation_id: UUID
    connection: str | None
    queue: str | None
    task: str
    since: datetime


def fetch_silent(
    connection: sa.Connection, *, older_than: timedelta, limit: int
) -> list[Silent]:
    """Return what was sent *older_than* ago, and of which nothing has been noticed."""
    rows = connection.execute(
        sa.select(task_waits)
        .join(operations, operations.c.id == _kept.operation_id)
        .where(
            OPEN_WAITS.of("task_waits"),
            _kept.deadline > db_now(),
            _kept.sent_at <= db_now(-older_than),
            _kept.remark.is_(None),
            AWAITING.of(),
        )
        .order_by(_kept.deadline)
        .limit(limit)
    )
    return [
        Silent(row.operation_id, row.connection, row.queue, row.task, row.sent_at)
        for row in rows
    ]


def note_remark(connection: sa.Connection, operation_id: UUID, remark: str) -> None:
    """Keep why perhaps nobody will answer; empty: somebody looked, and all is well."""
    connection.execute(
        sa.update(task_waits)
        .where(_kept.operation_id == operation_id, OPEN_WAITS.of("task_waits"))
        .values(remark=remark)
    )


def fetch_waits(
    connection: sa.Connection, operation_ids: list[UUID]
) -> Mapping[UUID, sa.Row[Any]]:
    """Return the rows of these operations, for people; the last task of each."""
    rows = connection.execute(
        sa.select(task_waits).where(_kept.operation_id.in_(operation_ids))
    )
    return {row.operation_id: row for row in rows}
