"""Excluded days are local days, and are jumped over whole."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.when.excluding import (
    find_allowed,
    find_day_start,
    get_last_excluded_day,
)
from models.timing import DayRange, merge_days
from tests.unit.actions.rules import GridRule

DAY = timedelta(days=1)
FIRST = date(2026, 1, 1)

ranges = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 5)).map(
        lambda pair: (FIRST + pair[0] * DAY, FIRST + (pair[0] + pair[1]) * DAY)
    ),
    max_size=8,
)


def days_of(excluded: Iterable[DayRange]) -> set[date]:
    """Return the days that the ranges hold, one by one."""
    return {
        first + n * DAY
        for first, last in excluded
        for n in range((last - first).days + 1)
    }


@given(ranges)
def test_merging_keeps_the_days(excluded: list[DayRange]) -> None:
    """
    Merged ranges hold the same days, and leave at least one free day between them.
    """
    merged = merge_days(excluded)

    assert days_of(excluded) == days_of(merged)
    for before, after in pairwise(merged):
        assert after[0] - before[1] > DAY


@given(ranges, st.integers(-2, 50))
def test_last_excluded_day_is_that_of_the_range(
    excluded: list[DayRange], offset: int
) -> None:
    """
    A day is excluded if a range holds it, and the range ends before a free day.
    """
    merged = merge_days(excluded)
    day = FIRST + offset * DAY

    last = get_last_excluded_day(day, merged)

    assert (day in days_of(excluded)) == (last is not None)
    if last is not None:
        assert last + DAY not in days_of(excluded)


def test_last_day_of_the_calendar_can_be_excluded() -> None:
    """
    There is no day after it, so nothing is due any more.
    """
    forever = merge_days([(FIRST, date.max), (date.max, date.max)])

    assert ((FIRST, date.max),) == forever
    assert None is find_allowed(GridRule(60), datetime(2026, 6, 1, tzinfo=UTC), forever)


@pytest.mark.parametrize(
    ("zone", "day", "after", "start"),
    [
        ("Europe/Paris", "2026-11-21", "2026-11-20T12:00", "2026-11-20T23:00"),
        # clocks go from 24:00 to 01:00: the day begins at 01:00
        ("America/Havana", "2026-03-08", "2026-03-07T12:00", "2026-03-08T05:00"),
        # clocks go from 01:00 back to 00:00: midnight comes twice, the first counts
        ("America/Havana", "2026-11-01", "2026-10-31T12:00", "2026-11-01T04:00"),
        # this day was left out: the next one begins instead
        ("Pacific/Apia", "2011-12-30", "2011-12-29T12:00", "2011-12-30T10:00"),
        # clocks went from 00:01 back to 23:01: the date is entered twice
        ("America/St_Johns", "2010-11-07", "2010-11-06T12:00", "2010-11-07T02:30"),
        ("America/St_Johns", "2010-11-07", "2010-11-07T02:45", "2010-11-07T03:30"),
        # clocks went from 23:30 to 00:30: the day begins at 00:30
        ("America/Toronto", "1919-03-31", "1919-03-30T12:00", "1919-03-31T04:30"),
    ],
)
def test_day_begins_with_its_first_instant(
    zone: str, day: str, after: str, start: str
) -> None:
    """
    Midnight, the end of a gap, or the second entry into a date.
    """
    found = find_day_start(
        date.fromisoformat(day),
        ZoneInfo(zone),
        after=datetime.fromisoformat(after).replace(tzinfo=UTC),
    )

    assert datetime.fromisoformat(start).replace(tzinfo=UTC) == found


def test_date_entered_twice_is_excluded_twice() -> None:
    """
    On the night St. John's entered 7 November twice, the 6th stays excluded.
    """
    excluded = merge_days([(date(2010, 11, 6), date(2010, 11, 6))])
    rule = GridRule(900, zone=ZoneInfo("America/St_Johns"))
    half_past_two = datetime(2010, 11, 7, 2, 30, tzinfo=UTC)
    half_past_three = half_past_two + timedelta(hours=1)

    assert half_past_two == find_allowed(
        rule, datetime(2010, 11, 6, 12, tzinfo=UTC), excluded
    )
    assert half_past_three == find_allowed(
        rule, half_past_two + timedelta(minutes=1), excluded
    )
