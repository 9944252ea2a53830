"""
The audit's own reading of a cron rule. Pure, and without the code of the tick.

cronsim finds the times that match a rule on a clock that never changes. What happens
when a zone's clocks change is added here, following docs/time.md. cronsim has such a
rule as well, but not for changes by other than whole hours, nor for a date that a zone
left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim

from models.fields.zone import load_zone
from models.when import CronModel

#: Macros that cronsim leaves to its callers.
_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

#: The rule for clock changes covers smaller leaps forward, and leaps back up to this.
_LARGEST = timedelta(hours=3)

#: The distance between two looks at a zone's offset; none has changed twice within it.
_STEP = timedelta(hours=3)

_NONE = timedelta(0)
_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)


class CronTime(NamedTuple):
    """
    An occurrence of a cron rule.

    Args:
        at: Aware UTC.
        wall: Naive local time that the rule names. It differs from what the clocks show
            if they left it out: *at* is then the first minute after the gap.
    """

    at: datetime
    wall: datetime


class OffsetChange(NamedTuple):
    """At this instant, aware UTC, a zone goes from one offset to another."""

    at: datetime
    before: timedelta
    after: timedelta


def read_cron(rule: CronModel, begin: datetime, end: datetime) -> Iterator[CronTime]:
    """
    Yield the occurrences of *rule* in ``[begin, end)``, oldest first.

    Args:
        rule: As the door accepted it.
        begin: Aware, any zone.
        end: Aware, any zone.

    Raises:
        CronSimError: cronsim cannot read the rule.
    """
    text = _MACROS.get(rule.cron_rule.strip().lower(), rule.cron_rule)
    is_fixed = not any(field.startswith("*") for field in text.split()[:2])
    zone = load_zone(rule.timezone)
    # The times that a change shortly before *begin* repeats must not be due again.
    start = begin.astimezone(UTC).replace(microsecond=0) - _LARGEST - _SECOND
    end = end.astimezone(UTC)
    offset = get_offset(zone, start)
    changes = find_changes(zone, start, end)
    ends = [*(change.at for change in changes), end]
    starts = [OffsetChange(start, offset, offset), *changes]
    for change, stop in zip(starts, ends, strict=True):
        for occurrence in _read_stretch(text, change, stop, is_fixed=is_fixed):
            if occurrence.at >= begin:
                yield occurrence


def _read_stretch(
    text: str, change: OffsetChange, stop: datetime, *, is_fixed: bool
) -> Iterator[CronTime]:
    """Yield the occurrences from *change* until the next one, at *stop*."""
    # What the local clock shows, as if it were UTC.
    was, now = change.at + change.before, change.at + change.after
    if is_fixed and was < now < was + _LARGEST:
        first = now + (-timedelta(seconds=now.second) % _MINUTE)
        left_out = next(_find_even(text, was, first), None)
        if left_out is not None:
            # What the gap left out is due in the first minute after it, but only once.
            itself = next(_find_even(text, first, first + _MINUTE), left_out)
            wall = itself if itself.date() == first.date() else first
            yield CronTime(first - change.after, wall.replace(tzinfo=None))
            now = first + _MINUTE
    elif is_fixed and now < was <= now + _LARGEST:
        now = was  # repeated times were due in their first pass
    for local in _find_even(text, now, stop + change.after):
        yield CronTime(local - change.after, local.replace(tzinfo=None))


def _find_even(text: str, start: datetime, end: datetime) -> Iterator[datetime]:
    """Yield the matching times in ``[start, end)`` on a clock that never changes."""
    for local in CronSim(text, start - _SECOND):
        if local >= end:
            return
        yield local


@lru_cache(maxsize=256)
def find_changes(
    zone: ZoneInfo, start: datetime, end: datetime
) -> tuple[OffsetChange, ...]:
    """Return the changes of *zone* in ``(start, end)``, in order; both aware UTC."""
    found = []
    here, before = start, get_offset(zone, start)
    while here < end:
        there = min(here + _STEP, end)
        after = get_offset(zone, there)
        if after != before:
            at = _find_change(zone, here, there)
            if at < end:
                found.append(OffsetChange(at, before, after))
        here, before = there, after
    return tuple(found)


def _find_change(zone: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """Return the first second of ``(low, high]`` with the offset of *high*."""
    before = get_offset(zone, low)
    while high - low > _SECOND:
        middle = low + (high - low) // _SECOND // 2 * _SECOND
        if get_offset(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)


def get_offset(zone: ZoneInfo, instant: datetime) -> timedelta:
    """Return the offset from UTC of the clocks of *zone* at *instant*."""
    return instant.astimezone(zone).utcoffset() or _NONE
