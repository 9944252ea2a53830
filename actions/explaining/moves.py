"""What ``except`` did to the occurrences around an instant, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from actions.explaining.recorded import Revision, find_in_force
from actions.occurrences import Schedule, read_timing
from actions.previews.clock_words import join_words
from actions.previews.sentences import format_day
from actions.when.excluding import get_local_day
from actions.when.moving import find_goal
from models.units import show_instant


def describe_origin(schedule: Schedule, at: datetime) -> str:
    """
    Return from which days an occurrence was moved, to end a sentence.

    Args:
        at: Aware UTC, the occurrence.

    Returns:
        Empty if it was not moved.
    """
    placed = schedule.find_rule(at)
    if placed is None or not placed.origins:
        return ""
    days = join_words(format_day(local) for local in placed.origins)
    return f"; it was moved from {days} (except)"


def describe_origin_in(
    revisions: Sequence[Revision], at: datetime, decided_at: datetime
) -> str:
    """Return the same for an occurrence that was decided at *decided_at*."""
    in_force = find_in_force(revisions, decided_at)
    schedule = read_timing(in_force[-1].timing) if in_force else None
    # If it can no longer be read, what it decided says enough.
    return "" if schedule is None else describe_origin(schedule, at)


def describe_departure(schedule: Schedule, minute: datetime) -> str | None:
    """
    Return what became of an occurrence that *minute* would have, but for its day.

    Args:
        minute: Aware UTC, on a whole minute.

    Returns:
        None: no rule is due then, or its day is not excepted.
    """
    for rule in schedule.rules:
        at = rule.next_from(minute)
        if at is None or at >= minute + timedelta(minutes=1):
            continue
        day = get_local_day(at, rule.zone)
        if not schedule.excluded.covers(day):
            continue
        goal = None
        if schedule.instead is not None:
            goal = find_goal(rule, at, schedule.excluded, schedule.instead)
        became = "is left out"
        if goal is not None:
            became = f"is moved to {show_instant(goal, rule.zone)}"
        return f"{format_day(day)} is excepted, so its occurrence {became}"
    return None
