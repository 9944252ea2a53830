"""The audit's own reading of an interval. Pure, and without the code of the tick."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from actions.explaining.date_reading import (
    ASTRAY,
    SET,
    count_from,
    find_instant,
    read_clocks,
)
from models.fields.duration import Duration
from models.fields.zone import load_zone
from models.when import IntervalModel

_SHORTEST_MONTH = timedelta(days=28)
_LONGEST_MONTH = timedelta(days=31)
_DAY = timedelta(days=1)


def read_interval(
    rule: IntervalModel, begin: datetime, end: datetime
) -> Iterator[datetime]:
    """
    Yield the occurrences of *rule* in ``[begin, end)``, oldest first, aware UTC.

    Args:
        rule: As it is stored, with an anchor.
        begin: Aware, any zone.
        end: Aware, any zone.
    """
    assert rule.anchor is not None  # filled in when the action was stored
    every, zone = Duration.parse(rule.every), load_zone(rule.timezone)
    anchor = datetime.fromisoformat(rule.anchor)
    anchor = anchor.replace(tzinfo=anchor.tzinfo or zone)
    local = anchor.astimezone(zone).replace(tzinfo=None)
    anchor = anchor.astimezone(UTC)
    # No step is longer, so this many of them end before *begin*.
    longest = every.months * _LONGEST_MONTH + every.elapsed
    count = max(0, (begin.astimezone(UTC) - ASTRAY - anchor) // longest)
    if not (every.months or every.days):
        yield from _read_even(anchor + count * every.rest, every.rest, begin, end)
        return

    # None of the dates is earlier, for no month is shorter.
    first = anchor + count * (every.months * _SHORTEST_MONTH + every.days * _DAY)
    clocks = read_clocks(zone, first - ASTRAY, end.astimezone(UTC) + ASTRAY)
    while True:
        months, days = count * every.months, count * every.days
        day = count_from(local.date(), months=months, days=days)
        at, leap = find_instant(datetime.combine(day, local.time()), clocks)
        if not count:
            at, leap = anchor, timedelta()  # an instant, whatever the clocks showed
        at += count * every.rest
        if at >= end:
            return
        if at >= begin and leap < SET:
            yield at
        count += 1


def _read_even(
    at: datetime, every: timedelta, begin: datetime, end: datetime
) -> Iterator[datetime]:
    """Yield *at*, and what follows each *every*, in ``[begin, end)``."""
    while at < end:
        if at >= begin:
            yield at
        at += every
