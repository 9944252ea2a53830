"""What a tick decides about an action, on its way to operations. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from models.operation_state import OperationState, Overlap, Queue, Trigger


@dataclass(frozen=True, slots=True)
class NewOperation:
    """
    A row of ``operations`` to be.

    Args:
        state: PENDING to run it; SKIPPED or MISSED record why it does not run.

        occurrence: Aware UTC; for a missed row the first one missed; for a manual
            run the instant it was asked for.

        event_at: The instant of the event behind the occurrence, if there is one.

        details: JSON: ``{"first", "last", "count"}`` of a missed row,
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
    state: OperationState = OperationState.PENDING
    reason: str | None = None
    user_id: str | None = None
    event_at: datetime | None = None
    details: dict[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """
    What one action gets out of a tick.

    Args:
        revision: The revision that was read; nothing is written if it has changed.

        next_due_at: The first instant not decided by this; None: never again.

        operations: In order of their occurrence.

        wakes: How many events the action had been woken for when it was read; one
            more by now means that there are events this knows nothing of.
    """

    action_uid: str
    revision: int
    next_due_at: datetime | None
    operations: tuple[NewOperation, ...] = field(default=())
    wakes: int = 0


def make_triggered_by(action_name: str) -> str:
    """Return the text that messages call ``triggerrer`` (docs/origin.md)."""
    return f'Scheduled action "{action_name}"'


def get_action_name(triggered_by: str) -> str:
    """Return the name in what ``make_triggered_by`` made; other texts as they are."""
    before, after = make_triggered_by("\n").split("\n")
    if not (triggered_by.startswith(before) and triggered_by.endswith(after)):
        return triggered_by
    return triggered_by[len(before) : -len(after)]
