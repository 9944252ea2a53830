"""
What an edit changes in the near future of an action. Pure.

It is shown before the edit is saved, so that nobody has to learn from a missing mail
that the new rule leaves out Fridays.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import islice

from typing_extensions import TypedDict

from actions.occurrences import Schedule
from actions.when.searching import find_each
from models.fields.instants import format_instant

#: How far ahead an edit is compared unless the caller says otherwise.
COMPARED = timedelta(days=30)

#: Occurrences of each schedule that are compared: a week of a rule that is due every
#: minute.
MOST_COMPARED = 10_000


#: From one instant to another. Not a class, since "from" is a keyword.
MoveJson = TypedDict("MoveJson", {"from": str, "to": str})


class ChangesJson(TypedDict):
    """Runs that differ, in RFC 3339; ``until`` is the end of what was compared."""

    added: list[str]
    removed: list[str]
    moved: list[MoveJson]
    until: str


@dataclass(frozen=True, slots=True)
class Changes:
    """
    Runs that differ: instants with jitter included, all aware UTC, oldest first.

    Args:
        added: Only the new schedule has these.

        removed: Only the old schedule has these.

        moved: Pairs of old and new on the same local day.

        until: The end of what was compared, exclusive; earlier than asked for if
            there were more than MOST_COMPARED occurrences.
    """

    added: tuple[datetime, ...]
    removed: tuple[datetime, ...]
    moved: tuple[tuple[datetime, datetime], ...]
    until: datetime

    def as_json(self) -> ChangesJson:
        """Return what ``--json`` prints for an edit."""
        return {
            "added": [format_instant(at) for at in self.added],
            "removed": [format_instant(at) for at in self.removed],
            "moved": [
                {"from": format_instant(old), "to": format_instant(new)}
                for old, new in self.moved
            ],
            "until": format_instant(self.until),
        }


def compare_schedules(
    old: Schedule | None,
    new: Schedule | None,
    uid: str,
    *,
    start: datetime,
    end: datetime,
) -> Changes:
    """
    Return how the runs of *new* differ from those of *old*.

    Runs that both have are not changes. Of the others, the first old run of a local day
    has moved to the first new run of that day, the second to the second, and so on. The
    rest are added or removed.

    Args:
        old: Before the edit; None if there was no action, or events drove it.

        new: After the edit; None likewise.

        uid: Of the action; decides the jitter.

        start: Aware, any zone; the first occurrence may be here.

        end: Aware, any zone; occurrences are before this.
    """
    before, before_until = _find_dispatches(old, uid, start, end)
    after, after_until = _find_dispatches(new, uid, start, end)
    until = min(before_until, after_until)
    removed = _group_by_day(old or new, before - after, until)
    added = _group_by_day(new or old, after - before, until)

    moved: list[tuple[datetime, datetime]] = []
    for day in removed.keys() & added.keys():
        pairs = list(zip(removed[day], added[day], strict=False))
        moved += pairs
        removed[day], added[day] = removed[day][len(pairs) :], added[day][len(pairs) :]
    return Changes(_flatten(added), _flatten(removed), tuple(sorted(moved)), until)


def _find_dispatches(
    schedule: Schedule | None, uid: str, start: datetime, end: datetime
) -> tuple[set[datetime], datetime]:
    """Return when *schedule* runs, and up to when the answer is complete."""
    if schedule is None:
        return set(), end
    found = list(islice(find_each(schedule, start, end), MOST_COMPARED + 1))
    until = found.pop() if len(found) > MOST_COMPARED else end
    return {schedule.due_at(at, uid) for at in found}, until


def _group_by_day(
    schedule: Schedule | None, instants: set[datetime], until: datetime
) -> dict[date, list[datetime]]:
    """Return *instants* before *until* by local day in the zone of the first rule."""
    by_day: defaultdict[date, list[datetime]] = defaultdict(list)
    if schedule is not None:
        zone = schedule.rules[0].zone
        for instant in sorted(instants):
            if instant < until:
                by_day[instant.astimezone(zone).date()].append(instant)
    return by_day


def _flatten(by_day: dict[date, list[datetime]]) -> tuple[datetime, ...]:
    return tuple(sorted(instant for each in by_day.values() for instant in each))
