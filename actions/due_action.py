"""An action that is due, and the operations that are made from it. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from actions.when.event import longest_elapsed
from models.decision import NewOperation, make_triggered_by
from models.expectations import expect_at
from models.fields.duration import Duration
from models.occurrence import make_missed_id, make_operation_id
from models.operation_state import OperationState, Overlap, Queue, Reason, Trigger

#: Missed occurrences are counted exactly up to this number, beyond it "or more"; and
#: ``catch_up: all`` runs no more than this number.
CATCH_UP_LIMIT = 1000


class ActionRevision(NamedTuple):
    """The identity of an action as it was read, even if the rest is unreadable."""

    uid: str
    revision: int


class DueAction(NamedTuple):
    """
    The columns of an action that a tick reads; the document itself is not parsed.

    Args:
        timing: Canonical JSON of a TimingModel. None: the action is event-driven.
        event: Name of the event that the action waits for. None: it is time-driven.
        delay: Text of a Delay, counted from the event. None: no delay.
        zone: IANA name; an event-driven action's delay follows its calendar and
            clocks.
        next_due_at: The first instant not yet decided, aware UTC.
        starts_at: Bound of an event-driven action, inclusive. None: no bound.
        ends_at: Bound of an event-driven action, exclusive. None: no bound.
        wakes: See Decision.
    """

    uid: str
    app: str
    name: str
    revision: int
    queue: Queue
    overlap: Overlap
    attempts_allowed: int
    expected_after_s: float | None
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
    """Return the latest instant that is surely at least *duration* before *now*."""
    return now - longest_elapsed(duration)


def make_operation(
    action: DueAction,
    occurrence: datetime,
    *,
    user_id: str | None = None,
    event_at: datetime | None = None,
) -> NewOperation:
    """Return the run for *occurrence*, and for the user and event behind it, if any."""
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
        attempts_allowed=action.attempts_allowed,
        expected_at=expect_at(occurrence, action.expected_after_s),
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
    """Return the one row that records *count* missed occurrences as a range."""
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


def make_overtaken(
    action: DueAction,
    first: datetime,
    last: datetime,
    count: int,
    more: bool,  # noqa: FBT001 - as above
) -> NewOperation:
    """Return the one row that records occurrences overtaken by a later one."""
    return make_missed(action, first, last, count, more)._replace(
        state=OperationState.SKIPPED, reason=Reason.OVERTAKEN
    )


def _get_trigger(action: DueAction) -> Trigger:
    return Trigger.SCHEDULE if action.event is None else Trigger.EVENT
