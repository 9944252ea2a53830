"""An action that is due, and how what it missed is written down. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from actions.when.event import delay_bounds
from models.decision import NewOperation, make_triggered_by
from models.fields.duration import Duration
from models.occurrence import make_missed_id, make_operation_id
from models.operation_state import OperationState, Overlap, Queue, Reason, Trigger

#: Missed occurrences are counted exactly up to this, then said to be "more"; and
#: ``catch_up: all`` runs no more than this.
CATCH_UP_LIMIT = 1000


class ActionRevision(NamedTuple):
    """An action as it was read, by name: all that is known of one in quarantine."""

    uid: str
    revision: int


@dataclass(frozen=True, slots=True)
class DueAction:
    """
    What the tick reads of an action; no document is parsed for it.

    Args:
        timing: Canonical JSON of a TimingModel; None if event-driven.

        event: Name of the event that an event-driven action waits for.

        delay: ISO 8601 text, after the event; None: at once.

        zone: Of an event-driven action; its months step this calendar.

        next_due_at: The first instant not yet decided.

        starts_at: Bound of an event-driven action, inclusive. None: no bound.

        ends_at: The same, exclusive.

        wakes: See Decision.
    """

    uid: str
    app: str
    name: str
    revision: int
    queue: Queue
    overlap: Overlap
    timing: str | None
    event: str | None
    delay: str | None
    zone: str
    catch_up: str
    catch_up_within: str | None
    effective_from: datetime
    next_due_at: datetime
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    wakes: int = 0


def reach_back(now: datetime, duration: Duration) -> datetime:
    """Return the latest instant that *duration* takes to *now* or later."""
    _least, most = delay_bounds(duration)
    return now - most


def make_operation(
    action: DueAction,
    occurrence: datetime,
    *,
    user_id: str | None = None,
    event_at: datetime | None = None,
) -> NewOperation:
    """Return the run for *occurrence*, of the user and event behind it, if any."""
    return NewOperation(
        id=make_operation_id(action.uid, occurrence, user_id),
        action_uid=action.uid,
        action_revision=action.revision,
        app=action.app,
        trigger=_get_trigger(action),
        triggered_by=make_triggered_by(action.name),
        occurrence=occurrence,
        queue=action.queue,
        overlap=action.overlap,
        user_id=user_id,
        event_at=event_at,
    )


def make_missed(
    action: DueAction,
    first: datetime,
    last: datetime,
    count: int,
    more: bool,  # noqa: FBT001 - one of the four figures of a missed row
) -> NewOperation:
    """Return the one row for *count* occurrences from *first* to *last*, not run."""
    return NewOperation(
        id=make_missed_id(action.uid, first),
        action_uid=action.uid,
        action_revision=action.revision,
        app=action.app,
        trigger=_get_trigger(action),
        triggered_by=make_triggered_by(action.name),
        occurrence=first,
        queue=action.queue,
        overlap=action.overlap,
        state=OperationState.MISSED,
        reason=Reason.OUTAGE,
        details={
            "first": first.isoformat(),
            "last": last.isoformat(),
            "count": count,
            "more": more,
        },
    )


def _get_trigger(action: DueAction) -> Trigger:
    return Trigger.SCHEDULE if action.event is None else Trigger.EVENT
