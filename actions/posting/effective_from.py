"""From when on a rule is in effect: what is posted, or goes on after a pause. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from actions.occurrences import next_due, parse_timing
from models.timing import timing_text
from models.when import DueDateModel, TimingModel

_RESOLUTION = timedelta.resolution


def start_from(
    uid: str, timing: TimingModel | None, now: datetime, lookback: timedelta
) -> dict[str, object]:
    """
    Return the columns of an action whose rule takes effect *now*.

    Saving at 07:02 never runs the 07:00 job. Due dates are exempt: one that passed
    a moment ago is due at once. Whatever was wrong with the older rule is past.
    """
    if timing is None:
        effective = now
        next_due_at: datetime | None = now  # the tick finds out from the events
    else:
        dates_only = all(isinstance(rule, DueDateModel) for rule in timing.when)
        effective = now - lookback + _RESOLUTION if dates_only else now
        schedule = parse_timing(timing_text(timing))
        due = next_due(
            schedule, uid, after=effective - _RESOLUTION, effective_from=effective
        )
        next_due_at = None if due is None else due.due_at
    return {
        "effective_from": effective,
        "next_due_at": next_due_at,
        "quarantined_at": None,
        "quarantine_reason": None,
    }
