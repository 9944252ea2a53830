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

_SECOND = timedelta(seconds=1)


class CatchUp(NamedTuple):
    """
    Which occurrences of an outage still run.

    Args:
        runs: "none", "latest" or "all", as in an action.
        since: Occurrences due before this do not run, aware UTC.
        until: Occurrences due by this belong to the outage, aware UTC.
        limit: The most that run; also the most that are counted as missed.
        latest_only: Whether only the last of those runs that are due after *until*.
    """

    runs: str
    since: datetime
    until: datetime
    limit: int
    latest_only: bool = False


class RangeTally(NamedTuple):
    """A range of occurrences that do not run; *more*: it has more than *number*."""

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
        overtaken: The occurrences that a later one of the same look spares. None: it
            spares none.
        is_plain: Whether neither jitter nor an outage mattered, so that the tally holds
            for every action with the same rules and the same start.
    """

    run: tuple[datetime, ...]
    missed: tuple[RangeTally, ...]
    next_due_at: datetime | None
    overtaken: RangeTally | None = None
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
        return _tally_plain(schedule, start, now, latest_only=catch_up.latest_only)
    window = []
    next_due_at = None
    since = max(start, catch_up.until + timedelta.resolution)
    for due in walk_due(schedule, uid, start=since, effective_from=effective_from):
        if due.due_at > now:
            next_due_at = due.due_at
            break
        window.append(due)
    chosen: list[Due] = []
    missed: list[RangeTally] = []
    if start <= catch_up.until:
        if window and catch_up.runs == "latest":
            catch_up = catch_up._replace(runs="none")  # a later one runs anyway
        chosen, missed = _make_up_for(schedule, uid, start, effective_from, catch_up)
    run = [due.occurrence for due in window]
    overtaken = _overtake(run) if catch_up.latest_only else None
    run = [due.occurrence for due in chosen] + run[0 if overtaken is None else -1 :]
    return Tally(tuple(run), tuple(missed), next_due_at, overtaken)


def _tally_plain(
    schedule: Schedule, start: datetime, now: datetime, *, latest_only: bool
) -> Tally:
    """Return the tally without jitter and outage: every occurrence runs, or one."""
    run = []
    occurrence = schedule.next_from(start)
    while occurrence is not None and occurrence <= now:
        run.append(occurrence)
        occurrence = schedule.next_from(occurrence + _SECOND)
    overtaken = _overtake(run) if latest_only else None
    run = run[0 if overtaken is None else -1 :]
    return Tally(tuple(run), (), occurrence, overtaken, is_plain=True)


def _overtake(run: Sequence[datetime]) -> RangeTally | None:
    """Return all of *run* but the last, as one range; None: there is no other."""
    if len(run) < 2:
        return None
    return RangeTally(run[0], run[-2], len(run) - 1, more=False)


def _make_up_for(
    schedule: Schedule,
    uid: str,
    start: datetime,
    effective_from: datetime,
    catch_up: CatchUp,
) -> tuple[list[Due], list[RangeTally]]:
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
) -> list[RangeTally]:
    """Return the ranges from *first* to *last* that lie before and after *chosen*."""
    if not chosen:
        return [_count(schedule, first.occurrence, last.occurrence, limit)]
    missed = []
    if first.occurrence < chosen[0].occurrence:
        before = find_last(
            schedule, first.occurrence - _SECOND, chosen[0].occurrence - _SECOND
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
) -> RangeTally:
    count = count_occurrences(schedule, first, last + _SECOND, limit=limit + 1)
    return RangeTally(first, last, min(count, limit), count > limit)
