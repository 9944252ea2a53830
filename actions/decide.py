"""
What a tick decides about a time-driven action: what runs, what does not, and why. Pure.

Every occurrence since the action was last decided gets one decision here: it runs, or
it is recorded as missed. (Overlaps are decided when operations are recorded, since that
needs the live operations.)
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
from actions.occurrences import Schedule, parse_timing
from actions.tally import CatchUp, Tally, tally
from models.decision import Decision
from models.fields.duration import Duration

#: Shared within one tick: the tally for each timing and start.
Memo = dict[object, Tally]


def decide_time(
    action: DueAction,
    *,
    now: datetime,
    lookback: timedelta,
    memo: Memo,
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
    assert action.timing is not None  # run_tick passes event-driven ones elsewhere
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
        catch_up=CatchUp(action.catch_up, since, now - lookback, CATCH_UP_LIMIT),
    )
