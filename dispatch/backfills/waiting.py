"""What keeps a backfill from recording more, for now."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from actions.occurrences import parse_timing
from actions.read_actions import get_action_state
from actions.read_rules import find_problem
from models.database.engine import read_clock
from models.database.tables import operations
from models.operation_state import Overlap, Queue
from operations.record import count_live
from operations.running.pace import read_taken, seconds_taken
from operations.sending.order import has_sendable

#: Latest runs that are asked how long a run takes.
_RUNS = 20

_SECOND = timedelta(seconds=1)


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
        due_at = f"{action.next_due_at:%F %T}Z"
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
    longest = _find_longest(connection, action.uid)
    due_at = action.next_due_at
    if read_clock(connection) + longest < due_at:
        return True
    schedule = parse_timing(action.timing)
    first = schedule.next_from(due_at)
    second = None if first is None else schedule.next_from(first + _SECOND)
    return first is not None and second is not None and second - first <= longest


def _find_longest(connection: sa.Connection, uid: str) -> timedelta:
    latest = connection.execute(
        sa.select(seconds_taken())
        .where(operations.c.action_uid == uid)
        .order_by(operations.c.occurrence.desc())
        .limit(_RUNS)
    )
    took = map(read_taken, latest.scalars())
    return max(filter(None, took), default=timedelta(0))
