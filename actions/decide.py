"""
What a tick decides about a time-driven action: what runs, what not and why. Pure.

Every occurrence since the action was last looked at gets one decision here:
dispatched, or recorded as missed. (Overlaps are decided where they are recorded,
for that needs the operations that are live.)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from actions.due_action import (
    CATCH_UP_LIMIT,
    DueAction,
    make_missed,
    make_operation,
    reach_back,
)
from actions.occurrences import Due, Schedule, find_due, next_due, parse_timing
from actions.when.searching import count_occurrences, find_last
from models.decision import Decision
from models.fields.duration import Duration

_RESOLUTION = timedelta.resolution
_SECOND = timedelta(seconds=1)


#: Of one tick: the occurrences of a timing since an instant, and the next one.
Memo = dict[object, tuple[tuple[datetime, ...], datetime | None]]


@dataclass(slots=True)
class Tally:
    """The occurrences of one action, sorted by what becomes of them."""

    run: list[Due]
    missed: list[tuple[datetime, datetime, int, bool]]


def decide_time(
    action: DueAction,
    *,
    now: datetime,
    lookback: timedelta,
    memo: Memo,
) -> Decision:
    """
    Decide a time-driven action: every occurrence due in ``[next_due_at, now]``.

    Args:
        action: As read.

        now: Aware UTC.

        lookback: What is older goes to ``catch_up``.

        memo: Actions with the same rule share the answer.

    Raises:
        RuleError: The timing cannot be read any more.
    """
    assert action.timing is not None  # the caller sends event-driven ones elsewhere
    schedule = parse_timing(action.timing)
    if schedule.jitter or action.next_due_at <= now - lookback:
        tally = _sort_out(action, schedule, now, lookback)
        following = next_due(
            schedule, action.uid, after=now, effective_from=action.effective_from
        )
        operations = tuple(make_missed(action, *each) for each in tally.missed) + tuple(
            make_operation(action, due.occurrence) for due in tally.run
        )
        next_due_at = None if following is None else following.due_at
        return Decision(action.uid, action.revision, next_due_at, operations)

    key = (action.timing, action.next_due_at)
    found = memo.get(key)
    if found is None:
        found = memo[key] = _find_plain(schedule, action.next_due_at, now)
    occurrences, next_occurrence = found
    return Decision(
        action.uid,
        action.revision,
        next_occurrence,
        tuple(make_operation(action, occurrence) for occurrence in occurrences),
    )


def _find_plain(
    schedule: Schedule, start: datetime, now: datetime
) -> tuple[tuple[datetime, ...], datetime | None]:
    """Find the occurrences in [start, now] and the next one, without jitter."""
    occurrences = []
    occurrence = schedule.next_from(start)
    while occurrence is not None and occurrence <= now:
        occurrences.append(occurrence)
        occurrence = schedule.next_from(occurrence + _SECOND)
    return tuple(occurrences), occurrence


def _sort_out(
    action: DueAction, schedule: Schedule, now: datetime, lookback: timedelta
) -> Tally:
    """Part what the window holds from what an outage left behind."""
    start = action.next_due_at
    outage_end = now - lookback
    window = find_due(
        schedule,
        action.uid,
        start=max(start, outage_end + _RESOLUTION),
        now=now,
        effective_from=action.effective_from,
    )
    if start > outage_end:
        return Tally(window, [])
    caught_up, missed = _catch_up(
        action, schedule, now, outage_end, window_is_empty=not window
    )
    return Tally(caught_up + window, missed)


def _catch_up(
    action: DueAction,
    schedule: Schedule,
    now: datetime,
    until: datetime,
    *,
    window_is_empty: bool,
) -> tuple[list[Due], list[tuple[datetime, datetime, int, bool]]]:
    """
    Choose what runs of ``[next_due_at, until]``; the rest is missed.

    What is missed lies before or after what runs, so it is at most two ranges. Its
    cost does not depend on how many there are.
    """
    first = find_due(
        schedule,
        action.uid,
        start=action.next_due_at,
        now=until,
        limit=1,
        effective_from=action.effective_from,
    )
    last = _find_last_due(schedule, action, until)
    if not first or last is None:
        return [], []
    start = action.next_due_at
    if action.catch_up_within is not None:
        within = Duration.parse(action.catch_up_within)
        start = max(start, reach_back(now, within))
    chosen: list[Due] = []
    if action.catch_up == "all":
        chosen = find_due(
            schedule,
            action.uid,
            start=start,
            now=until,
            limit=CATCH_UP_LIMIT,
            effective_from=action.effective_from,
        )
    elif action.catch_up == "latest" and window_is_empty and last.due_at >= start:
        chosen = [last]
    if not chosen:
        return [], [_count(schedule, first[0].occurrence, last.occurrence)]
    missed = []
    if first[0].occurrence < chosen[0].occurrence:
        before = find_last(
            schedule,
            first[0].occurrence - _SECOND,
            chosen[0].occurrence - _SECOND,
        )
        assert before is not None  # first itself lies there
        missed.append(_count(schedule, first[0].occurrence, before))
    if chosen[-1].occurrence < last.occurrence:
        after = schedule.next_from(chosen[-1].occurrence + _SECOND)
        assert after is not None  # last itself lies there
        missed.append(_count(schedule, after, last.occurrence))
    return chosen, missed


def _find_last_due(
    schedule: Schedule, action: DueAction, until: datetime
) -> Due | None:
    """Return the last occurrence that was to be dispatched by *until*."""
    after = max(action.next_due_at - schedule.jitter, action.effective_from) - _SECOND
    occurrence = find_last(schedule, after, until)
    while occurrence is not None:  # twice at most: jitter keeps the order
        due_at = schedule.due_at(occurrence, action.uid)
        if due_at <= until:
            return Due(occurrence, due_at)
        occurrence = find_last(schedule, after, occurrence - _SECOND)
    return None


def _count(
    schedule: Schedule, first: datetime, last: datetime
) -> tuple[datetime, datetime, int, bool]:
    count = count_occurrences(schedule, first, last + _SECOND, limit=CATCH_UP_LIMIT + 1)
    return first, last, min(count, CATCH_UP_LIMIT), count > CATCH_UP_LIMIT
