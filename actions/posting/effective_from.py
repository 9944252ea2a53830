"""When a rule takes effect: on being posted, or after a pause. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from actions.occurrences import Schedule, next_due

_RESOLUTION = timedelta.resolution


def start_from(
    uid: str, schedule: Schedule | None, now: datetime, lookback: timedelta
) -> dict[str, object]:
    """
    Return the columns of an action whose rule takes effect *now*.

    An action that is posted at 07:02 never runs for 07:00. Due dates are exempt: one
    that passed a moment ago is due at once. A quarantine ends.

    Args:
        uid: Of the action; decides the jitter.
        schedule: None: events drive the action.
        now: Aware UTC.
        lookback: A due date that is no older than this is still due.
    """
    if schedule is None:
        effective = now
        next_due_at: datetime | None = now  # the tick works it out from the events
    else:
        exempt = schedule.has_dates_only
        effective = now - lookback + _RESOLUTION if exempt else now
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
