"""
What an edit changes in the near future of an action. Pure.

It is shown before the edit is saved, so that nobody has to learn from a missing mail
that the new rule leaves out Fridays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice, zip_longest

from actions.occurrences import Schedule
from actions.when.searching import find_each

#: How far ahead an edit is compared unless the caller says otherwise.
COMPARED = timedelta(days=30)

#: Occurrences of each schedule that are compared: a week of a rule that is due every
#: minute.
MOST_COMPARED = 10_000

#: If nothing differs, how much further the first run that does is looked for: rules of
#: a year and a day, as in the notes of previews.
_BEYOND = timedelta(days=400)

_LATEST = datetime(9990, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class MovedRun:
    """A run that comes at another instant of its day; aware UTC."""

    was: datetime = field(metadata={"serialization_alias": "from"})
    is_now: datetime = field(metadata={"serialization_alias": "to"})


@dataclass(frozen=True, slots=True)
class RunChanges:
    """
    How the runs of two rules differ; times are aware UTC, in their order.

    Args:
        moved: Those that come at another instant of the same day, or for the same user.
        until: Up to when they were compared, exclusive.
        later: If nothing differs until then, the first run that does. None: none was
            found within 400 days more.
    """

    added: tuple[datetime, ...]
    removed: tuple[datetime, ...]
    moved: tuple[MovedRun, ...]
    until: datetime
    later: datetime | None

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes until *until*."""
        return not (self.added or self.removed or self.moved)


#: How many runs of each kind are named where many actions are listed.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class CountedChanges:
    """How many runs differ until *until*, and the first of each kind."""

    until: datetime
    counts: Mapping[str, int]
    added: tuple[datetime, ...]
    removed: tuple[datetime, ...]
    moved: tuple[MovedRun, ...]


def count_changes(changes: RunChanges) -> CountedChanges:
    """Return *changes* in brief, for lists of many actions."""
    added, removed, moved = changes.added, changes.removed, changes.moved
    counts = {"added": len(added), "removed": len(removed), "moved": len(moved)}
    first = (added[:_NAMED], removed[:_NAMED], moved[:_NAMED])
    return CountedChanges(changes.until, counts, *first)


@dataclass(frozen=True, slots=True)
class ForeseenRuns:
    """
    When an action will run, as far as anybody knows.

    Args:
        schedule: Its rules of time. None: it has none, or is not active.
        by_user: The occurrences to which the events so far will lead, by the id of
            their user; aware UTC.
        complete_until: Up to when *by_user* is complete. None: as far as one looks.
    """

    schedule: Schedule | None = None
    by_user: Mapping[str, Collection[datetime]] = field(default_factory=dict)
    complete_until: datetime | None = None


#: A run: its instant, and the id of its user or "".
_Run = tuple[datetime, str]


def compare_runs(
    old: ForeseenRuns, new: ForeseenRuns, uid: str, *, start: datetime, end: datetime
) -> RunChanges:
    """
    Return how the runs of *new* differ from those of *old*.

    Runs that both have are not changes. Of the others, the first old run of a local day
    has moved to the first new run of that day, the second to the second, and so on; in
    the same way those of one user, and due dates. The rest are added or removed.

    Args:
        old: Before the edit.
        new: After the edit.
        uid: Of the action; decides the jitter.
        start: Aware, any zone; the first occurrence may be here.
        end: Aware, any zone; occurrences are before this.
    """
    if old == new:
        # A document that is opened, or edited elsewhere: no need to find every minute
        # of a month twice.
        return RunChanges((), (), (), min(old.complete_until or end, end), None)
    schedules = [each.schedule for each in (old, new) if each.schedule is not None]
    only_dates = len(schedules) == 2 and all(each.has_dates_only for each in schedules)
    last = _LATEST if only_dates else end
    before, before_until = _find_runs(old, uid, start, last)
    after, after_until = _find_runs(new, uid, start, last)
    until = min(before_until, after_until)
    was, is_now = old.schedule or new.schedule, new.schedule or old.schedule
    removed = _group(before - after, was, until, once=only_dates)
    added = _group(after - before, is_now, until, once=only_dates)

    moved: list[tuple[datetime, datetime]] = []
    for key in removed.keys() & added.keys():
        pairs = list(zip(removed[key], added[key], strict=False))
        moved += pairs
        removed[key], added[key] = removed[key][len(pairs) :], added[key][len(pairs) :]
    pairs_in_order = tuple(MovedRun(*each) for each in sorted(moved))
    runs = (_flatten(added), _flatten(removed), pairs_in_order)
    changes = RunChanges(*runs, min(until, end), None)
    if not (changes.is_empty and until == end):
        return changes
    later = _find_later(old.schedule, new.schedule, uid, end)
    return RunChanges((), (), (), end, later)


def _find_runs(
    foreseen: ForeseenRuns, uid: str, start: datetime, end: datetime
) -> tuple[set[_Run], datetime]:
    """Return when an action runs, and up to when the answer is complete."""
    runs = {
        (at, user)
        for user, instants in foreseen.by_user.items()
        for at in instants
        if start <= at < end
    }
    until = min(foreseen.complete_until or end, end)
    if foreseen.schedule is not None:
        schedule = foreseen.schedule
        found = list(islice(find_each(schedule, start, end), MOST_COMPARED + 1))
        if len(found) > MOST_COMPARED:
            until = min(until, found.pop())
        runs |= {(schedule.due_at(at, uid), "") for at in found}
    return runs, until


def _group(
    runs: set[_Run], schedule: Schedule | None, until: datetime, *, once: bool
) -> dict[Hashable, list[datetime]]:
    """Return *runs* before *until* by what they have in common with those they were."""
    groups: defaultdict[Hashable, list[datetime]] = defaultdict(list)
    for at, user in sorted(runs):
        if at >= until:
            continue
        key: Hashable = user
        if not user and not once and schedule is not None:
            key = at.astimezone(schedule.rules[0].zone).date()
        groups[key].append(at)
    return groups


def _find_later(
    old: Schedule | None, new: Schedule | None, uid: str, start: datetime
) -> datetime | None:
    """Return the first run from *start* on that only one of the two has."""

    def find(schedule: Schedule | None) -> Iterator[datetime]:
        if schedule is None:
            return iter(())
        found = islice(find_each(schedule, start, start + _BEYOND), MOST_COMPARED)
        return (schedule.due_at(at, uid) for at in found)

    for before, after in zip_longest(find(old), find(new)):
        if before != after:
            return min(at for at in (before, after) if at is not None)
    return None


def _flatten(groups: dict[Hashable, list[datetime]]) -> tuple[datetime, ...]:
    return tuple(sorted(instant for each in groups.values() for instant in each))
