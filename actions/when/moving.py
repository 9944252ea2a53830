"""
Occurrences of excluded days, moved to a day that is none (``instead``). Pure.

An occurrence goes to the same local time of the nearest day before, or after, that is
not excluded; as any fixed time, to the first instant after a gap and to the first pass
of a repeated hour. Which instants that gives depends neither on who asks nor from when,
so looking back finds what looking ahead promised.

Days in a row all move to the same day. So the first instant that they give is that of
the earliest time of day among them, which takes a question or two for each day with an
occurrence, however many it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta

from actions.when.excluding import DaysOff, find_day_start, get_local_day
from actions.when.local_time import Stretch, get_local_floor, get_stretch
from actions.when.rule import Rule
from models.days_off import Instead
from models.fields.zone import first_instant_at
from models.timing import DayRange

#: Days in a row, at most, that occurrences are moved over: a quarter. What lies on more
#: is left out, as without ``instead``. It bounds the cost of a search to some 2 ms.
LONGEST_RUN = 92

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)


def find_kept_or_moved(
    rule: Rule, instant: datetime, excluded: DaysOff, instead: Instead
) -> datetime | None:
    """
    Return the first occurrence at or after *instant*, once they have been moved.

    Args:
        rule: Its zone decides which local day an occurrence belongs to.
        instant: Aware UTC.
        excluded: Not empty.
        instead: Where the occurrences of excluded days go.

    Returns:
        Aware UTC, whole seconds. None: nothing is due any more.
    """
    if instant.microsecond:
        instant = instant.replace(microsecond=0) + _SECOND
    floor = get_local_floor(rule.zone, instant)
    earliest = None
    occurrence = rule.next_from(_find_first_source(rule, instant, excluded, instead))
    while occurrence is not None:
        day = get_local_day(occurrence, rule.zone)
        run = excluded.find_run(day)
        if run is None and occurrence < instant:
            occurrence = rule.next_from(instant)
            continue
        if run is None:
            ahead = excluded.find_run(day + _DAY) if instead == "before" else None
            moved = None if ahead is None else _move(rule, ahead, instead, floor)
            found = (occurrence, earliest, moved)
            return min(each for each in found if each is not None)
        if earliest is not None:
            return earliest  # what follows is at least a day later
        earliest = _move(rule, run, instead, floor)
        if run[1] == date.max or (earliest is not None and instead == "before"):
            return earliest
        beyond = find_day_start(run[1] + _DAY, rule.zone, after=occurrence)
        occurrence = rule.next_from(max(instant, beyond))
    return earliest


def find_origins(
    rule: Rule, at: datetime, excluded: DaysOff, instead: Instead
) -> list[datetime]:
    """
    Return the local times of excluded days that are moved to *at*.

    Args:
        rule: As for ``find_kept_or_moved``.
        at: Aware UTC, whole seconds; an occurrence or not.
        excluded: As for ``find_kept_or_moved``.
        instead: As for ``find_kept_or_moved``.

    Returns:
        Naive local times of the rule's zone, the first of each day; oldest first.
    """
    floor = get_local_floor(rule.zone, at)
    goal = floor.date()
    run = excluded.find_run(goal + (_DAY if instead == "before" else -_DAY))
    if run is None or goal != _find_goal_day(run, instead):
        return []
    return [
        datetime.combine(day, wall)
        for day, wall in _find_times(rule, run, floor.time())
        if first_instant_at(datetime.combine(goal, wall), rule.zone) == at
    ]


def find_goal(
    rule: Rule, occurrence: datetime, excluded: DaysOff, instead: Instead
) -> datetime | None:
    """
    Return to which instant an occurrence of an excluded day is moved.

    Args:
        rule: As for ``find_kept_or_moved``.
        occurrence: One of *rule* on an excluded day, aware UTC.
        excluded: As for ``find_kept_or_moved``.
        instead: As for ``find_kept_or_moved``.

    Returns:
        Aware UTC. None: it is left out, since there is no other day near enough.
    """
    run = excluded.find_run(get_local_day(occurrence, rule.zone))
    goal = None if run is None else _find_goal_day(run, instead)
    if goal is None:
        return None
    wall = get_wall_time(rule, occurrence).time()
    return first_instant_at(datetime.combine(goal, wall), rule.zone)


def _find_first_source(
    rule: Rule, instant: datetime, excluded: DaysOff, instead: Instead
) -> datetime:
    """Return from when on occurrences may be moved to *instant* or later."""
    if instead == "before":
        return instant
    today = get_local_floor(rule.zone, instant).date()
    run = excluded.find_run(today) or excluded.find_run(today - _DAY)
    if run is None or _find_goal_day(run, instead) is None:
        return instant
    return min(instant, first_instant_at(_midnight(run[0]), rule.zone))


def _find_goal_day(run: DayRange, instead: Instead) -> date | None:
    """Return the day to which *run* is moved; None: it is too long."""
    first, last = run
    if (last - first).days >= LONGEST_RUN:
        return None
    return first - _DAY if instead == "before" else last + _DAY


def _move(
    rule: Rule, run: DayRange, instead: Instead, floor: datetime
) -> datetime | None:
    """Return the first instant, from *floor* on (naive), to which *run* is moved."""
    goal = _find_goal_day(run, instead)
    if goal is None or goal < floor.date():
        return None
    earliest = floor.time() if goal == floor.date() else time()
    first = None
    for _, wall in _find_times(rule, run, earliest):
        first = wall if first is None else min(first, wall)
        if first == earliest:
            break
    if first is None:
        return None
    return first_instant_at(datetime.combine(goal, first), rule.zone)


def _find_times(
    rule: Rule, run: DayRange, earliest: time
) -> Iterator[tuple[date, time]]:
    """Yield for each day of *run* its first local time from *earliest* on, if any."""
    occurrence = rule.next_from(first_instant_at(_midnight(run[0]), rule.zone))
    while occurrence is not None:
        day = get_local_day(occurrence, rule.zone)
        if day > run[1]:
            return
        if day >= run[0]:
            times = list(_find_times_on(rule, day, earliest))
            if times:
                yield day, min(times)
        beyond = find_day_start(day + _DAY, rule.zone, after=occurrence)
        occurrence = rule.next_from(beyond)


def _find_times_on(rule: Rule, day: date, earliest: time) -> Iterator[time]:
    """Yield the first time of *day* from *earliest* on, after each clock change."""
    instant = first_instant_at(_midnight(day), rule.zone)
    while True:
        stretch = get_stretch(rule.zone, instant)
        wanted = (datetime.combine(day, earliest) - stretch.offset).replace(tzinfo=UTC)
        found = _find_time_in(rule, stretch, max(instant, wanted), day, earliest)
        if found is not None:
            yield found
        if stretch.following.date() > day:
            return
        instant = stretch.ends_at


def _find_time_in(
    rule: Rule, stretch: Stretch, start: datetime, day: date, earliest: time
) -> time | None:
    """Return the first time of *day* from *earliest* on within *stretch*."""
    occurrence = rule.next_from(start)
    while occurrence is not None and occurrence < stretch.ends_at:
        if get_local_day(occurrence, rule.zone) != day:
            return None
        wall = get_wall_time(rule, occurrence).time()
        if wall >= earliest:
            return wall
        occurrence = rule.next_from(occurrence + _SECOND)
    return None


def get_wall_time(rule: Rule, occurrence: datetime) -> datetime:
    """
    Return the local time that *rule* asks for at *occurrence*.

    That is what the clocks show then, unless *occurrence* stands for a time of the same
    day that a gap leaves out: then it is the first such time, so that 02:30 stays 02:30
    on another day.

    Args:
        rule: Any.
        occurrence: One of *rule*, aware UTC.

    Returns:
        Naive local time of the rule's zone.
    """
    shown = occurrence.astimezone(rule.zone).replace(tzinfo=None)
    stretch = get_stretch(rule.zone, occurrence)
    is_after_gap = stretch.left < stretch.first
    if not is_after_gap or occurrence - stretch.starts_at >= timedelta(minutes=1):
        return shown
    twin = rule.without_clock_changes()
    if twin is None or _is_due(twin, shown):
        return shown
    left_out = twin.next_from(stretch.left.replace(tzinfo=UTC))
    if left_out is None or left_out.date() != shown.date():
        return shown
    return min(shown, left_out.replace(tzinfo=None))


def _is_due(twin: Rule, local: datetime) -> bool:
    instant = local.replace(tzinfo=UTC)
    return twin.next_from(instant) == instant


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time())
