"""Whether a new time zone database moves occurrences or leaves rules unreadable."""

from __future__ import annotations

from collections.abc import Iterator

from actions.zone_changes import find_moved, find_unreadable
from models.units import show_instant
from overview.doctor.finding import Finding, Health, View


def look_at_zones(view: View) -> Iterator[Finding]:
    """Look for actions that the time zone database in use moves or cannot read."""
    moved = find_moved(view.connection, now=view.now)
    unreadable = find_unreadable(view.connection)
    for lost in unreadable:
        found = f"{lost.action_uid}: {lost.reason} Post it again."
        yield Finding("tzdata", Health.DOUBTFUL, found)
    for each in moved:
        found = (
            f"{each.action_uid}: the occurrence at {show_instant(each.before)} moves "
            f"to {show_instant(each.after)} ({each.zone})"
        )
        yield Finding("tzdata", Health.DOUBTFUL, found)
    if not moved and not unreadable:
        found = "it moves no occurrence of a stored action within a year"
        yield Finding("tzdata", Health.GOOD, found)
