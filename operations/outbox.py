"""
From the table to the broker: what may be sent now, and that it was sent.

A row that is recorded and not sent is found again by the same query, so a crash
anywhere between loses nothing; it is sent again under the same id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from operator import itemgetter
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database import Identifier, db_now, json_rows, make_rows_json
from models.operation_state import OperationState, Overlap, Queue
from models.tables import operations


@dataclass(frozen=True, slots=True)
class Message:
    """
    One operation on its way to the broker; ``id`` is the Celery task id.

    Args:
        send_at: When it was to be sent, UTC; for the lag only.
    """

    id: UUID
    queue: Queue
    triggered_by: str
    attempt: int
    send_at: datetime | None = field(default=None, compare=False)


#: By what is stored; calling an enum costs ten times as much.
_QUEUES = {queue.value: queue for queue in Queue}


@cache
def _sendable_statement() -> sa.Select[Any]:
    """What waits, oldest first, but for what would only wait in a worker's slot."""
    other = operations.alias("other")
    # Literal, word for word as in the indexes: SQLite proves nothing about a value
    # that is bound later, and would look through every operation there is.
    heavy_apps = sa.select(other.c.app).where(
        sa.text(
            "other.queue = 'heavy'"
            " AND (other.state = 'queued' OR other.claim_token IS NOT NULL)"
        )
    )
    same_under_way = sa.exists().where(
        other.c.action_uid == operations.c.action_uid,
        other.c.user_id.is_not_distinct_from(operations.c.user_id),
        sa.or_(
            other.c.state == OperationState.QUEUED, other.c.claim_token.is_not(None)
        ),
        sa.text(
            "(other.state IN ('pending', 'queued', 'running')"
            " OR other.claim_token IS NOT NULL)"
        ),
    )
    return (
        sa.select(
            operations.c.id,
            operations.c.queue,
            operations.c.triggered_by,
            operations.c.attempt,
            operations.c.send_at,
            operations.c.app,
            operations.c.action_uid,
            operations.c.user_id,
            operations.c.overlap,
        )
        .where(
            sa.text("operations.state = 'pending'"),
            operations.c.send_at <= db_now(),
            # canceled and tried again, while its worker has not noticed
            operations.c.claim_token.is_(None),
            sa.or_(
                operations.c.queue != Queue.HEAVY,
                operations.c.app.not_in(heavy_apps),
            ),
            sa.or_(operations.c.overlap != Overlap.QUEUE, ~same_under_way),
        )
        .order_by(
            operations.c.send_at, operations.c.recorded_at, operations.c.occurrence
        )
        .limit(sa.bindparam("limit", type_=sa.Integer))
    )


def fetch_sendable(
    connection: sa.Connection, *, limit: int
) -> tuple[list[Message], bool]:
    """
    Return what may be sent now, oldest first, *limit* rows looked at at most.

    At most one heavy operation of an app, and one ``overlap: queue`` operation of
    an action and user; the others follow when it is final. Of what waits equally
    long, as all that a tick records at once, the apps take turns.

    Returns:
        The messages, and whether another look may find more.
    """
    messages: list[tuple[datetime, int, Message]] = []
    turns: Counter[tuple[datetime, str]] = Counter()
    looked_at = 0
    taken: set[tuple[str, ...] | tuple[str, str | None]] = set()
    found = connection.execute(_sendable_statement(), {"limit": limit})
    for row in found.all():  # all at once: the driver takes twice as long row by row
        id_, queue, text, attempt, send_at, app, action_uid, user_id, overlap = row
        looked_at += 1
        keys: list[tuple[str, ...] | tuple[str, str | None]] = []
        if queue == Queue.HEAVY:
            keys.append((app,))
        if overlap == Overlap.QUEUE:
            keys.append((action_uid, user_id))
        if not taken.isdisjoint(keys):
            continue
        taken.update(keys)
        turns[send_at, app] += 1
        message = Message(id_, _QUEUES[queue], text, attempt, send_at)
        messages.append((send_at, turns[send_at, app], message))
    messages.sort(key=itemgetter(0, 1))  # stable: an app's own order stays
    more = looked_at == limit and bool(messages)
    return [message for _send_at, _turn, message in messages], more


@cache
def _sent_statement(dialect: str) -> sa.Executable:
    sent = json_rows(dialect, {"id": Identifier, "attempt": sa.Integer()}, "sent")
    return (
        sa.update(operations)
        .where(
            operations.c.id == sent.c.id,
            # A worker may have been faster: claimed already, or done, or waiting
            # for its next attempt. Then the row is past our message.
            operations.c.attempt == sent.c.attempt,
            operations.c.state == OperationState.PENDING,
        )
        .values(
            state=OperationState.QUEUED,
            sent_at=db_now(),
            sends=operations.c.sends + 1,
        )
    )


@cache
def _overtaken_statement(dialect: str) -> sa.Executable:
    sent = json_rows(dialect, {"id": Identifier}, "sent")
    return (
        sa.update(operations)
        .where(operations.c.id == sent.c.id, operations.c.sent_at.is_(None))
        .values(sent_at=db_now(), sends=operations.c.sends + 1)
    )


def mark_sent(connection: sa.Connection, messages: Sequence[Message]) -> int:
    """
    Mark *messages* as handed to the broker; return how many were still waiting.

    Those that a worker claimed before we could say so keep their state.
    """
    if not messages:
        return 0
    dialect = connection.dialect.name
    rows = make_rows_json([{"id": m.id, "attempt": m.attempt} for m in messages])
    queued = connection.execute(_sent_statement(dialect), {"sent": rows}).rowcount
    if queued < len(messages):
        connection.execute(_overtaken_statement(dialect), {"sent": rows})
    return queued
