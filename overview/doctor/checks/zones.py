"""Whether a new time zone database moves occurrences or leaves rules unreadable."""

from __future__ import annotations

from collections.abc import Iterator

from actions.zone_changes import find_moved, find_reread, find_unreadable
from models.fields.zone import load_zone
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
        zone = load_zone(each.zone)
        found = (
            f"{each.action_uid}: the occurrence at {show_instant(each.before, zone)} "
            f"moves to {show_instant(each.after, zone)} ({each.zone})"
        )
        yield Finding("tzdata", Health.DOUBTFUL, found)
    reread = find_reread(view.connection, now=view.now)
    for uid, name in reread:
        found = (
            f"{uid}: as soon as a scheduler of this version leads, the days of its "
            f"interval keep their local time ({name}). To keep 24 hours, write PT24H."
        )
        yield Finding("tzdata", Health.DOUBTFUL, found)
    if not (moved or unreadable or reread):
        found = "it moves no occurrence of a stored action within a year"
        yield Finding("tzdata", Health.GOOD, found)
