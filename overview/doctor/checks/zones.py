"""What a new time zone database moves."""

from __future__ import annotations

from collections.abc import Iterator

from actions.zone_changes import find_moved, find_unreadable
from models.units import show_instant
from overview.doctor.finding import Finding, Health, View


def look_at_zones(view: View) -> Iterator[Finding]:
    """Look for actions whose instants a new tz database moves, or cannot tell."""
    moved = find_moved(view.connection, now=view.now)
    unreadable = find_unreadable(view.connection)
    for lost in unreadable:
        found = f"{lost.action_uid}: {lost.reason} Post it again."
        yield Finding("tzdata", Health.DOUBTFUL, found)
    for each in moved:
        found = (
            f"{each.action_uid}: {show_instant(each.before)} becomes "
            f"{show_instant(each.after)} ({each.zone})"
        )
        yield Finding("tzdata", Health.DOUBTFUL, found)
    if not moved and not unreadable:
        found = "moves no instant of a stored action within a year"
        yield Finding("tzdata", Health.GOOD, found)
