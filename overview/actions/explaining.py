"""Why an action ran at an instant, or did not, and what its operations wait for."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import sqlalchemy as sa

from actions.explaining.history import fetch_history
from actions.explaining.why import Answer, History, explain
from models.operation_state import OperationState
from operations.sending.why_not_sent import find_hindrances
from overview.operations.beside import (
    PATIENCE,
    describe_program,
    fetch_last_taken,
)

#: Decisions this close to the instant are read; an explanation covers one minute.
_AROUND = timedelta(minutes=1)


def explain_instant(
    connection: sa.Connection, uid: str, at: datetime, *, app: str | None = None
) -> list[Answer]:
    """
    Explain why an action ran in the minute of *at*, or did not run.

    Args:
        uid: Of an action, deleted or not.
        at: Aware, past or future.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.

    Returns:
        One answer for each operation of that minute, else exactly one.

    Raises:
        NotFoundError: There has never been an action with this uid.
    """
    since, until = at - _AROUND, at + _AROUND
    history = fetch_history(connection, uid, since=since, until=until, app=app)
    hindrances = _find_hindrances(connection, history)
    waits = any(each.state == OperationState.QUEUED for each in history.operations)
    taken = fetch_last_taken(connection) if waits else None
    return explain(replace(history, hindrances=hindrances, taken=taken), at)


def _find_hindrances(connection: sa.Connection, history: History) -> dict[UUID, str]:
    """Return what keeps each waiting operation from running, in words."""
    waiting = [
        each
        for each in history.operations
        if each.state in {OperationState.PENDING, OperationState.QUEUED}
    ]
    if not waiting:
        return {}
    zone = history.zone
    program = describe_program(connection, zone)
    late = {
        each.id: program
        for each in waiting
        if each.state == OperationState.PENDING
        and history.now - each.send_at > PATIENCE
    }
    ids = [each.id for each in waiting]
    return late | find_hindrances(connection, ids, zone=zone)
