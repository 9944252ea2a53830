"""
What a tick decides about an action, on its way to operations. Pure.

Named tuples, because thousands of them are made in a tick, and a frozen dataclass takes
four times as long to make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from models.back_off import ATTEMPTS
from models.operation_state import OperationState, Overlap, Queue, Trigger


class NewOperation(NamedTuple):
    """
    A row of ``operations`` that is to be recorded.

    Args:
        state: PENDING to run it; SKIPPED or MISSED record why it does not run.
        occurrence: Aware UTC; for a missed row, the first occurrence missed; for a
            manual run, the instant at which it was requested; for a backfill, the past
            occurrence that runs after all.
        expected_at: When the leader looks whether it has ended. None: it does not.
        event_at: The instant of the event that caused the occurrence, if one did.
        details: JSON: ``{"first", "last", "count"}`` of a row for several occurrences,
            ``{"force": true}`` of a manual one.
    """

    id: UUID
    action_uid: str
    action_revision: int
    app: str
    trigger: Trigger
    triggered_by: str
    occurrence: datetime
    queue: Queue
    overlap: Overlap
    attempts_allowed: int = ATTEMPTS
    expected_at: datetime | None = None
    state: OperationState = OperationState.PENDING
    reason: str | None = None
    user_id: str | None = None
    event_at: datetime | None = None
    details: dict[str, Any] | None = None


class Decision(NamedTuple):
    """
    What a tick decides about one action.

    Args:
        revision: The revision that was read; nothing is written if it has changed.
        next_due_at: The first instant that is still undecided; None: never due again.
        operations: In order of their occurrence.
        wakes: How many events had woken the action when it was read; if there are more
            by now, this decision does not know all events.
    """

    action_uid: str
    revision: int
    next_due_at: datetime | None
    operations: tuple[NewOperation, ...] = ()
    wakes: int = 0


#: What decides about occurrences before their time.
EARLY_TICK = "a tick for a later instant (minutehand tick --at)"


def make_triggered_by(action_name: str) -> str:
    """Return the text that messages call ``triggerrer``: see docs/origin.md."""
    return f'Scheduled action "{action_name}"'


@dataclass(frozen=True, slots=True)
class MissedRange:
    """
    The occurrences that one row stands for, at least *count*; aware UTC.

    Args:
        is_more: Whether there may be more than *count*.
    """

    count: int
    is_more: bool
    first: datetime
    last: datetime


def read_missed(details: Mapping[str, Any] | None) -> MissedRange | None:
    """Return the occurrences that the row with *details* stands for. None: its own."""
    if not details or "first" not in details:
        return None
    first, last = (datetime.fromisoformat(details[name]) for name in ("first", "last"))
    return MissedRange(details.get("count", 1), bool(details.get("more")), first, last)


#: Key in the details of what follows another action: which operation of that ended,
#: and how.
AFTER_KEY = "after"


def tell_cause(details: Mapping[str, Any] | None) -> str | None:
    """
    Return what had ended for an operation to begin. None: it follows no other one.

    >>> ended = {"operation": "3771f246", "name": "nightly", "state": "succeeded"}
    >>> tell_cause({"after": ended})
    "'nightly' succeeded (operation 3771f246)"
    """
    after = (details or {}).get(AFTER_KEY)
    if after is None:
        return None
    how = tell_end(after["state"])
    return f"{after['name']!r} {how} (operation {after['operation']})"


def tell_end(state: str) -> str:
    """
    Return what became of a run, as what its action did.

    >>> tell_end("failed"), tell_end("canceled")
    ('failed', 'was canceled')
    """
    return f"was {state}" if state in _BY_OTHERS else state


_BY_OTHERS = {OperationState.CANCELED, OperationState.SKIPPED, OperationState.MISSED}


def make_backfilled_by(action_name: str, backfill_id: UUID, by: str) -> str:
    """Return that text for a run of a backfill, and who asked for it."""
    return f"{_BACKFILL}{backfill_id} by {by}: {make_triggered_by(action_name)}"


#: How the text of a backfill begins.
_BACKFILL = "Backfill "


def get_action_name(triggered_by: str) -> str:
    """
    Return the name in a text of the functions above; other texts unchanged.

    >>> get_action_name(make_backfilled_by("daily", UUID(int=1), "root@host"))
    'daily'
    """
    before, after = make_triggered_by("\n").split("\n")
    if triggered_by.startswith(_BACKFILL) and f": {before}" in triggered_by:
        triggered_by = before + triggered_by.partition(f": {before}")[2]
    if not (triggered_by.startswith(before) and triggered_by.endswith(after)):
        return triggered_by
    return triggered_by[len(before) : -len(after)]
