"""
What a tick decides about an action: what runs, what does not, and why. Pure.

Every occurrence since the action was last decided gets one decision here: it runs, or
it is recorded as missed. (Overlaps are decided when operations are recorded, since that
needs the live operations.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from actions.occurrences import Schedule, parse_timing
from actions.tally import CatchUp, RangeTally, Tally, tally
from actions.when.event import (
    earliest_occurrence,
    event_due_at,
    event_occurrence,
    is_recorded_late,
    longest_elapsed,
)
from models.back_off import ATTEMPTS
from models.decision import Decision, NewOperation, make_triggered_by
from models.expectations import expect_at
from models.fields.delay import Delay
from models.fields.duration import Duration
from models.fields.instants import format_instant
from models.fields.zone import load_zone
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
        trigger=Trigger.SCHEDULE if action.event is None else Trigger.EVENT,
        triggered_by=make_triggered_by(action.name),
        occurrence=occurrence,
        queue=action.queue,
        overlap=action.overlap,
        attempts_allowed=action.attempts_allowed,
        expected_at=expect_at(occurrence, action.expected_after_s),
        user_id=user_id,
        event_at=event_at,
    )


def make_missed(action: DueAction, lost: RangeTally) -> NewOperation:
    """Return the one row that records missed occurrences as a range."""
    return make_operation(action, lost.first)._replace(
        id=make_missed_id(action.uid, lost.first),
        attempts_allowed=ATTEMPTS,
        expected_at=None,
        state=OperationState.MISSED,
        reason=Reason.OUTAGE,
        details={
            "first": format_instant(lost.first),
            "last": format_instant(lost.last),
            "count": lost.number,
            "more": lost.more,
        },
    )


#: Shared within one tick: the tally for each timing and start.
Memo = dict[object, Tally]


def decide(
    action: DueAction,
    events: Sequence[EventCandidate],
    next_event_at: datetime | None,
    *,
    now: datetime,
    lookback: timedelta,
    memo: Memo,
) -> Decision:
    """Decide *action*, which may wait for *events*; the rest is as for what follows."""
    if action.event is None:
        return decide_time(action, now=now, lookback=lookback, memo=memo)
    return decide_event(
        action, events, now=now, lookback=lookback, next_event_at=next_event_at
    )


def decide_time(
    action: DueAction, *, now: datetime, lookback: timedelta, memo: Memo
) -> Decision:
    """
    Decide every occurrence of a time-driven action in ``[next_due_at, now]``.

    Args:
        action: As read from the database; has a timing.
        now: Aware UTC.
        lookback: Older occurrences are subject to ``catch_up``.
        memo: Lets actions with the same timing share the answer; filled here.

    Raises:
        RuleError: The timing can no longer be read.
    """
    assert action.timing is not None  # decide passes event-driven ones elsewhere
    key = (action.timing, action.next_due_at, action.queue is Queue.TASKS)
    found = memo.get(key)
    if found is None:
        found = _sort_out(action, parse_timing(action.timing), now, lookback)
        if found.is_plain:
            memo[key] = found
    missed = tuple(make_missed(action, each) for each in found.missed)
    if found.overtaken is not None:
        row = make_missed(action, found.overtaken)
        skipped = OperationState.SKIPPED
        missed += (row._replace(state=skipped, reason=Reason.OVERTAKEN),)
    run = tuple(make_operation(action, each) for each in found.run)
    return Decision(action.uid, action.revision, found.next_due_at, missed + run)


def _sort_out(
    action: DueAction, schedule: Schedule, now: datetime, lookback: timedelta
) -> Tally:
    """Separate the occurrences within the look-back from those of an outage."""
    since = action.next_due_at
    if action.catch_up_within is not None:
        since = reach_back(now, Duration.parse(action.catch_up_within))
    return tally(
        schedule,
        action.uid,
        start=action.next_due_at,
        now=now,
        effective_from=action.effective_from,
        catch_up=CatchUp(
            action.catch_up,
            since,
            now - lookback,
            CATCH_UP_LIMIT,
            latest_only=schedule.is_below_minute and action.queue is Queue.TASKS,
        ),
    )


@dataclass(frozen=True, slots=True)
class EventCandidate:
    """An event that may be due for an action; times are aware UTC."""

    user_id: str
    at: datetime
    recorded_at: datetime


def decide_event(
    action: DueAction,
    candidates: Sequence[EventCandidate],
    *,
    now: datetime,
    lookback: timedelta,
    next_event_at: datetime | None,
) -> Decision:
    """
    Decide an event-driven action: one occurrence for each event that is due by *now*.

    Args:
        action: As read from the database; has an event.
        candidates: Every event that can be due in ``[next_due_at, now]``, and every
            later event whose instant plus the shortest possible delay has passed.
        now: Aware UTC.
        lookback: Older occurrences are subject to ``catch_up``.
        next_event_at: The instant of the first event after all candidates, aware UTC.
            None: there is none.
    """
    delay = Delay.parse(action.delay)
    zone = load_zone(action.zone)
    due: list[tuple[datetime, datetime, EventCandidate]] = []
    waiting: list[datetime] = []
    for event in candidates:
        occurrence = event_occurrence(event.at, delay, zone)
        if not _is_within(action, occurrence):
            continue
        due_at = event_due_at(occurrence, event.recorded_at)
        if due_at > now:
            waiting.append(due_at)
        elif due_at >= max(action.next_due_at, action.effective_from):
            due.append((due_at, occurrence, event))
    due.sort(key=lambda each: (each[0], each[1], each[2].user_id))
    if next_event_at is not None:
        waiting.append(earliest_occurrence(next_event_at, delay, zone))
    operations = _sort_out_events(action, due, now, lookback)
    return Decision(
        action.uid,
        action.revision,
        max(min(waiting), now + timedelta.resolution) if waiting else None,
        tuple(operations),
        action.wakes,
    )


def _is_within(action: DueAction, occurrence: datetime) -> bool:
    """Return whether *occurrence* is within the bounds of an event-driven action."""
    if action.starts_at is not None and occurrence < action.starts_at:
        return False
    return action.ends_at is None or occurrence < action.ends_at


def _sort_out_events(
    action: DueAction,
    due: Sequence[tuple[datetime, datetime, EventCandidate]],
    now: datetime,
    lookback: timedelta,
) -> list[NewOperation]:
    """Run what is within the look-back; ``catch_up`` decides about the rest."""
    late, outage, window = [], [], []
    for each in due:
        due_at, occurrence, event = each
        if is_recorded_late(occurrence, event.recorded_at):
            late.append(each)
        elif due_at <= now - lookback:
            outage.append(each)
        else:
            window.append(each)
    # The occurrences of an outage that run are contiguous; the others are missed.
    begin, end = 0, 0
    if action.catch_up == "all":
        begin = _skip_older(outage, action, now)
        end = min(len(outage), begin + CATCH_UP_LIMIT)
    elif action.catch_up == "latest" and not window:
        end = len(outage)
        begin = max(end - 1, _skip_older(outage, action, now))
    chosen = outage[begin:end]
    lost = outage[:begin] + outage[end:]
    operations = [_make_late(action, *each[1:]) for each in late]
    if lost:
        occurrences = [each[1] for each in lost]
        first, last = min(occurrences), max(occurrences)
        count = min(len(lost), CATCH_UP_LIMIT)
        more = len(lost) > CATCH_UP_LIMIT
        row = make_missed(action, RangeTally(first, last, count, more))
        # Two outages may begin with the same occurrence (if its event was recorded
        # between them), but never with the same due_at.
        operations.append(row._replace(id=make_missed_id(action.uid, lost[0][0])))
    operations += [_make_operation(action, *each[1:]) for each in [*chosen, *window]]
    return operations


def _skip_older(
    outage: Sequence[tuple[datetime, datetime, EventCandidate]],
    action: DueAction,
    now: datetime,
) -> int:
    """Return where ``within`` begins in *outage*."""
    if action.catch_up_within is None:
        return 0
    start = reach_back(now, Duration.parse(action.catch_up_within))
    return sum(1 for due_at, _occurrence, _event in outage if due_at < start)


def _make_operation(
    action: DueAction, occurrence: datetime, event: EventCandidate
) -> NewOperation:
    return make_operation(action, occurrence, user_id=event.user_id, event_at=event.at)


def _make_late(
    action: DueAction, occurrence: datetime, event: EventCandidate
) -> NewOperation:
    row = _make_operation(action, occurrence, event)
    return row._replace(state=OperationState.MISSED, reason=Reason.RECORDED_LATE)
