"""
What becomes of the occurrences that a tick finds: they run, or were missed. Pure.

Its cost does not grow with the number of occurrences that an outage overtook.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from actions.occurrences import Due, Schedule, find_due, walk_due
from actions.when.searching import count_occurrences, find_last

_RESOLUTION = timedelta.resolution
_SECOND = timedelta(seconds=1)


class CatchUp(NamedTuple):
    """
    Which occurrences of an outage still run.

    Args:
        runs: "none", "latest" or "all", as in an action.
        since: Occurrences due before this do not run, aware UTC.
        until: Occurrences due by this belong to the outage, aware UTC.
        limit: The most that run; also the most that are counted as missed.
    """

    runs: str
    since: datetime
    until: datetime
    limit: int


class MissedTally(NamedTuple):
    """A range of missed occurrences; *more*: there are more than *number*."""

    first: datetime
    last: datetime
    number: int
    more: bool


class Tally(NamedTuple):
    """
    The occurrences of one action, divided into those that run and those that do not.

    Args:
        run: Those that run, oldest first.
        missed: The occurrences of an outage that do not run: at most one range before
            and one after those that do.
        next_due_at: When the first later occurrence is due. None: there is none.
        is_plain: Whether neither jitter nor an outage mattered, so that the tally holds
            for every action with the same rules and the same start.
    """

    run: tuple[datetime, ...]
    missed: tuple[MissedTally, ...]
    next_due_at: datetime | None
    is_plain: bool = False


def tally(
    schedule: Schedule,
    uid: str,
    *,
    start: datetime,
    now: datetime,
    effective_from: datetime,
    catch_up: CatchUp,
) -> Tally:
    """
    Return what becomes of every occurrence that is due in ``[start, now]``.

    What is due after ``catch_up.until`` runs. *catch_up* decides about older
    occurrences, at a cost that does not grow with their number.

    Args:
        uid: Of the action; decides the jitter.
        start: The first instant not decided yet, aware UTC; not after *now*.
        now: Aware UTC.
        effective_from: Aware UTC; as for ``next_due``.
        catch_up: Its ``until`` must not be after *now*.
    """
    if not schedule.jitter and start > catch_up.until:
        return _tally_plain(schedule, start, now)
    window = []
    next_due_at = None
    since = max(start, catch_up.until + _RESOLUTION)
    for due in walk_due(schedule, uid, start=since, effective_from=effective_from):
        if due.due_at > now:
            next_due_at = due.due_at
            break
        window.append(due)
    chosen: list[Due] = []
    missed: list[MissedTally] = []
    if start <= catch_up.until:
        if window and catch_up.runs == "latest":
            catch_up = catch_up._replace(runs="none")  # a later one runs anyway
        chosen, missed = _make_up_for(schedule, uid, start, effective_from, catch_up)
    run = tuple(due.occurrence for due in chosen + window)
    return Tally(run, tuple(missed), next_due_at)


def _tally_plain(schedule: Schedule, start: datetime, now: datetime) -> Tally:
    """Return the tally without jitter and outage: every occurrence runs."""
    run = []
    occurrence = schedule.next_from(start)
    while occurrence is not None and occurrence <= now:
        run.append(occurrence)
        occurrence = schedule.next_from(occurrence + _SECOND)
    return Tally(tuple(run), (), occurrence, is_plain=True)


def _make_up_for(
    schedule: Schedule,
    uid: str,
    start: datetime,
    effective_from: datetime,
    catch_up: CatchUp,
) -> tuple[list[Due], list[MissedTally]]:
    """
    Return what runs and what is missed of ``[start, catch_up.until]``.

    Missed occurrences lie before or after those that run, so they are at most two
    ranges.
    """
    left = partial(
        find_due, schedule, uid, now=catch_up.until, effective_from=effective_from
    )
    first = left(start=start, limit=1)
    after = max(start - schedule.jitter, effective_from) - _SECOND
    last = _find_last_due(schedule, uid, after, catch_up.until)
    if not first or last is None:
        return [], []
    since = max(start, catch_up.since)
    chosen = []
    if catch_up.runs == "all":
        chosen = left(start=since, limit=catch_up.limit)
    elif catch_up.runs == "latest" and last.due_at >= since:
        chosen = [last]
    return chosen, _find_missed(schedule, first[0], last, chosen, catch_up.limit)


def _find_last_due(
    schedule: Schedule, uid: str, after: datetime, until: datetime
) -> Due | None:
    """Return the last occurrence after *after* that was to be sent by *until*."""
    occurrence = find_last(schedule, after, until)
    while occurrence is not None:  # twice at most: jitter keeps the order
        due_at = schedule.due_at(occurrence, uid)
        if due_at <= until:
            return Due(occurrence, due_at)
        occurrence = find_last(schedule, after, occurrence - _SECOND)
    return None


def _find_missed(
    schedule: Schedule, first: Due, last: Due, chosen: Sequence[Due], limit: int
) -> list[MissedTally]:
    """Return the ranges from *first* to *last* that lie before and after *chosen*."""
    if not chosen:
        return [_count(schedule, first.occurrence, last.occurrence, limit)]
    missed = []
    if first.occurrence < chosen[0].occurrence:
        before = find_last(
            schedule,
            first.occurrence - _SECOND,
            chosen[0].occurrence - _SECOND,
        )
        assert before is not None  # first itself lies there
        missed.append(_count(schedule, first.occurrence, before, limit))
    if chosen[-1].occurrence < last.occurrence:
        after = schedule.next_from(chosen[-1].occurrence + _SECOND)
        assert after is not None  # last itself lies there
        missed.append(_count(schedule, after, last.occurrence, limit))
    return missed


def _count(
    schedule: Schedule, first: datetime, last: datetime, limit: int
) -> MissedTally:
    count = count_occurrences(schedule, first, last + _SECOND, limit=limit + 1)
    return MissedTally(first, last, min(count, limit), count > limit)
