"""
What operations wait for: the end of a task of the user's own, and who tells it.

An operation has one row here, made before its task is sent. The token in it goes with
the task and comes back with each answer. Whoever else uses the broker does not know it,
and an answer with a former token, or to what has been answered, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from operations.claiming.obstacles import AWAITED
from operations.foreign_tasks import LISTEN_AFTER, Answer, ForeignTask, Wait
from operations.running.step_records import remember

_kept = task_waits.c


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

    def keep(self, answers: Sequence[Answer]) -> None:
        """Commit *answers*, to whatever operations they are."""
        record_answers(self.engine, answers)


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


def record_answers(engine: sa.Engine, answers: Sequence[Answer]) -> int:
    """
    Record how tasks ended, and let their operations go on.

    Args:
        engine: In transactions of its own.

        answers: Whoever they are from.

    Returns:
        How many of them somebody waited for; the tokens of the others are unknown, or
        were answered before.
    """
    with writing(engine) as connection:
        count, busy = _record(connection, answers, skip_locked=True)
    for each in busy:
        # Alone: a transaction that waits for one operation must hold no other.
        with writing(engine) as connection:
            count += _record(connection, [each], skip_locked=False)[0]
    return count


def _record(
    connection: sa.Connection, answers: Sequence[Answer], *, skip_locked: bool
) -> tuple[int, list[Answer]]:
    """Record *answers*; return how many, and those whose operations are locked."""
    # The first to a token counts.
    by_token = {answer.token: answer for answer in reversed(answers)}
    owners = _fetch_open(connection, by_token)
    # First the operations, then the waits: a worker locks them in this order.
    locked = connection.execute(
        sa.select(operations.c.id)
        .where(operations.c.id.in_(owners.values()))
        .order_by(operations.c.id)
        .with_for_update(skip_locked=skip_locked)
    )
    ours = set(locked.scalars())
    busy = [by_token[token] for token, owner in owners.items() if owner not in ours]
    mine = (token for token, owner in owners.items() if owner in ours)
    # Another may have recorded one of them before we had the lock.
    due = _fetch_open(connection, mine)
    if due:
        connection.execute(
            sa.update(task_waits)
            .where(_kept.token == sa.bindparam("answered"))
            .values(answered_at=db_now(), answer=sa.bindparam("told")),
            [{"answered": token, "told": _make_told(by_token[token])} for token in due],
        )
        # While its worker still holds one, that worker will see the answer.
        connection.execute(
            sa.update(operations)
            .where(operations.c.id.in_(due.values()), AWAITING.of())
            .values(send_at=db_now())
        )
    return len(due), busy


def _fetch_open(connection: sa.Connection, tokens: Iterable[UUID]) -> dict[UUID, UUID]:
    """Return the operations that wait for an answer with one of *tokens*."""
    rows = connection.execute(
        sa.select(_kept.token, _kept.operation_id).where(
            _kept.token.in_(list(tokens)), OPEN_WAITS.of("task_waits")
        )
    )
    return {row.token: row.operation_id for row in rows}


def _make_told(answer: Answer) -> dict[str, object]:
    return {
        "succeeded": answer.succeeded,
        "returned": make_plain(answer.returned),
        "note": make_plain(answer.note),
    }


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
