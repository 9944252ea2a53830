"""
What a tick decides about a time-driven action: what runs, what not and why. Pure.

Every occurrence since the action was last looked at gets one decision here:
dispatched, or recorded as missed. (Overlaps are decided where they are recorded,
for that needs the operations that are live.)
"""

from __future__ import annotations

from datetime import datetime, timedelta

from actions.due_action import (
    CATCH_UP_LIMIT,
    DueAction,
    make_missed,
    make_operation,
    reach_back,
)
from actions.occurrences import CatchUp, Schedule, Tally, parse_timing, tally
from models.decision import Decision
from models.fields.duration import Duration

#: Of one tick: what becomes of a timing's occurrences since an instant.
Memo = dict[object, Tally]


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
    key = (action.timing, action.next_due_at)
    found = memo.get(key)
    if found is None:
        found = _sort_out(action, parse_timing(action.timing), now, lookback)
        if found.is_plain:
            memo[key] = found
    missed = tuple(make_missed(action, *each) for each in found.missed)
    run = tuple(make_operation(action, each) for each in found.run)
    return Decision(action.uid, action.revision, found.next_due_at, missed + run)


def _sort_out(
    action: DueAction, schedule: Schedule, now: datetime, lookback: timedelta
) -> Tally:
    """Part what the window holds from what an outage left behind."""
    since = action.next_due_at
    if action.catch_up_within is not None:
        since = reach_back(now, Duration.parse(action.catch_up_within))
    return tally(
        schedule,
        action.uid,
        start=action.next_due_at,
        now=now,
        effective_from=action.effective_from,
        catch_up=CatchUp(action.catch_up, since, now - lookback, CATCH_UP_LIMIT),
    )
