"""Which excepted days would have had occurrences, in words. Pure."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from actions.occurrences import Schedule
from actions.previews.clock_words import describe_weekdays
from actions.previews.sentences import format_day
from actions.when.excluding import find_day_start, get_local_day
from actions.when.moving import LONGEST_RUN
from actions.when.rule import Rule
from models.timing import DayRange

#: Excluded ranges of days that a preview mentions.
_EXCLUSIONS_SHOWN = 5

#: Days with occurrences that are looked at for excluded weekdays: a year and a month.
_DAYS_SEEN = 400

_DAY = timedelta(days=1)


def describe_left_out(
    schedule: Schedule, start: datetime, until: datetime
) -> list[str]:
    """
    Return notes on excluded days whose occurrences are left out.

    Args:
        start: Aware UTC; from where on.
        until: Aware UTC; up to where.

    Returns:
        A note for each of the first few ranges of dates, then one on weekdays. Days
        whose occurrences are moved are none of them.
    """
    notes: list[str] = []
    for first, last in schedule.excluded.ranges:
        if len(notes) == _EXCLUSIONS_SHOWN:
            break
        reason = _explain(schedule, first)
        if reason is None:
            continue
        leaves_out = (
            _has_occurrence(schedule, rule, (first, last), start, until)
            for rule in schedule.rules
        )
        if any(leaves_out):
            days = format_day(first)
            days += "" if first == last else f" to {format_day(last)}"
            notes.append(f"Left out by except: {days}{reason}.")
    return notes + _describe_weekdays(schedule, start, until)


def _explain(schedule: Schedule, day: date) -> str | None:
    """Return why *day* has no occurrence, if that needs words; None: it is moved."""
    if schedule.instead is None:
        return ""
    run = schedule.excluded.find_run(day)
    if run is None or (run[1] - run[0]).days < LONGEST_RUN:
        return None
    return f" (no occurrence is moved over more than {LONGEST_RUN} days)"


def _describe_weekdays(
    schedule: Schedule, start: datetime, until: datetime
) -> list[str]:
    """Return a note on the excluded weekdays on which a rule would be due."""
    if schedule.instead is not None or not schedule.excluded.weekdays:
        return []
    low = max(start, schedule.starts_at or start)
    high = min(until, schedule.ends_at or until)
    found: set[int] = set()
    for rule in schedule.rules:
        due_at = rule.next_from(low)
        for _ in range(_DAYS_SEEN):
            if due_at is None or due_at > high:
                break
            day = get_local_day(due_at, rule.zone)
            found.add(day.weekday())
            due_at = rule.next_from(find_day_start(day + _DAY, rule.zone, after=due_at))
    left_out = tuple(sorted(found.intersection(schedule.excluded.weekdays)))
    return [f"Left out by except: {describe_weekdays(left_out)}."] if left_out else []


def _has_occurrence(
    schedule: Schedule, rule: Rule, days: DayRange, start: datetime, until: datetime
) -> bool:
    """Tell whether *rule* is due on *days*, within [start, until] and its bounds."""
    first, last = days
    long_before = start - _DAY
    day_start = find_day_start(first, rule.zone, after=long_before)
    low = max(start, day_start, schedule.starts_at or start)
    if low > until or last < start.astimezone(rule.zone).date():
        return False
    due_at = rule.next_from(low)
    if due_at is None or due_at > until:
        return False
    if schedule.ends_at is not None and due_at >= schedule.ends_at:
        return False
    return first <= due_at.astimezone(rule.zone).date() <= last
