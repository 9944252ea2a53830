"""Excluded days are local days, and are jumped over whole."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.when.cron import make_cron_rule
from actions.when.excluding import DaysOff, find_allowed, find_day_start
from models.timing import DayRange, merge_days
from models.when import CronModel
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
    """Merged ranges hold the same days, with at least one free day between them."""
    merged = merge_days(excluded)

    assert days_of(excluded) == days_of(merged)
    for before, after in pairwise(merged):
        assert after[0] - before[1] > DAY


@given(ranges, st.sets(st.integers(0, 6), max_size=6), st.integers(-2, 50))
def test_run_of_a_day_is_all_excluded_days_in_a_row(
    excluded: list[DayRange], weekdays: set[int], offset: int
) -> None:
    """Each day of it is excluded, by date or weekday, and neither neighbour is."""
    listed = days_of(excluded)
    off = DaysOff(merge_days(excluded), tuple(sorted(weekdays)))
    day = FIRST + offset * DAY

    run = off.find_run(day)

    assert (day in listed or day.weekday() in weekdays) == (run is not None)
    assert off.covers(day) == (run is not None)
    if run is not None:
        assert all(off.covers(each) for each in days_of([run]))
        assert not off.covers(run[0] - DAY)
        assert not off.covers(run[1] + DAY)


def test_rule_of_excluded_weekdays_alone_is_never_due() -> None:
    """Sundays without Sundays end the search; so does no 29 February on any weekday."""
    start = datetime(2026, 11, 22, tzinfo=UTC)
    sundays = make_cron_rule(CronModel(cron_rule="0 9 * * 0"))
    leap_day = make_cron_rule(CronModel(cron_rule="0 9 29 2 *"))
    no_sunday, only_sunday = DaysOff(weekdays=(6,)), DaysOff(weekdays=tuple(range(6)))

    assert None is find_allowed(sundays, start, no_sunday)
    # 40 years after that of 2032, since 2100 is no leap year
    found = find_allowed(leap_day, datetime(2088, 3, 1, tzinfo=UTC), only_sunday)
    assert datetime(2128, 2, 29, 9, tzinfo=UTC) == found


def test_last_day_of_the_calendar_can_be_excluded() -> None:
    """There is no day after it, so nothing is due any more."""
    forever = merge_days([(FIRST, date.max), (date.max, date.max)])

    assert ((FIRST, date.max),) == forever
    assert None is find_allowed(
        GridRule(60), datetime(2026, 6, 1, tzinfo=UTC), DaysOff(forever)
    )


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
    """Midnight, the end of a gap, or the second entry into a date."""
    found = find_day_start(
        date.fromisoformat(day),
        ZoneInfo(zone),
        after=datetime.fromisoformat(after).replace(tzinfo=UTC),
    )

    assert datetime.fromisoformat(start).replace(tzinfo=UTC) == found


def test_date_entered_twice_is_excluded_twice() -> None:
    """On the night St. John's entered 7 November twice, the 6th stays excluded."""
    excluded = DaysOff(merge_days([(date(2010, 11, 6), date(2010, 11, 6))]))
    rule = GridRule(900, zone=ZoneInfo("America/St_Johns"))
    half_past_two = datetime(2010, 11, 7, 2, 30, tzinfo=UTC)
    half_past_three = half_past_two + timedelta(hours=1)

    assert half_past_two == find_allowed(
        rule, datetime(2010, 11, 6, 12, tzinfo=UTC), excluded
    )
    assert half_past_three == find_allowed(
        rule, half_past_two + timedelta(minutes=1), excluded
    )
