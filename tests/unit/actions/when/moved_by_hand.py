"""Moved occurrences by their definition, one by one and without any search."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from actions.occurrences import make_rule
from actions.when.excluding import DaysOff
from actions.when.rule import Rule
from actions.when.searching import find_each
from models.timing import merge_days
from models.when import TimingModel

_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)
_MINUTE = timedelta(minutes=1)

#: More than the days in a row that the tests exclude.
_AROUND = 30 * _DAY


def find_moved_by_hand(
    timing: TimingModel, start: datetime, end: datetime
) -> list[datetime]:
    """Return the occurrences in ``[start, end)`` of *timing*, jitter apart."""
    excluded = DaysOff(merge_days(timing.excluded), timing.weekdays)
    found = set()
    for model in timing.when:
        rule = make_rule(model, excluded)
        for at in find_each(rule, start - _AROUND, end + _AROUND):
            found.add(_move(rule, at, timing))
    return sorted(each for each in found if start <= each < end)


def _move(rule: Rule, at: datetime, timing: TimingModel) -> datetime:
    zone = rule.zone
    day = at.astimezone(zone).date()
    if not _is_off(day, timing):
        return at
    wall = _find_wall(rule, at)
    while _is_off(day, timing):
        day += _DAY if timing.instead == "after" else -_DAY
    return _find_instant(datetime.combine(day, wall.time()), zone)


def _is_off(day: date, timing: TimingModel) -> bool:
    listed = any(first <= day <= last for first, last in timing.excluded)
    return listed or day.weekday() in timing.weekdays


def _find_wall(rule: Rule, at: datetime) -> datetime:
    """Return the local time that was meant: of times in a gap, the first."""
    shown = at.astimezone(rule.zone).replace(tzinfo=None)
    before = (at - _MINUTE).astimezone(rule.zone).replace(tzinfo=None)
    twin = rule.without_clock_changes()
    if twin is None or shown - before <= _MINUTE:
        return shown
    as_utc = shown.replace(tzinfo=UTC)
    if twin.next_from(as_utc) == as_utc:
        return shown
    meant = twin.next_from((before + _MINUTE).replace(tzinfo=UTC))
    assert meant is not None
    return meant.replace(tzinfo=None)


def _find_instant(local: datetime, zone: ZoneInfo) -> datetime:
    """Return when the clocks first show *local* or later."""
    instant = local.replace(tzinfo=UTC) - _DAY
    for step in (_HOUR, _MINUTE):
        while (instant + step).astimezone(zone).replace(tzinfo=None) < local:
            instant += step
    instant += _MINUTE
    seconds = timedelta(seconds=local.second)
    exact = instant - _MINUTE + seconds if seconds else instant
    shown = exact.astimezone(zone).replace(tzinfo=None)
    return exact if shown >= local else instant
