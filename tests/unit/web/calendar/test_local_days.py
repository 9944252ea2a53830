"""A local day has the hours that a clock on the wall shows, and no gap between them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.calendar.local_days import find_hour, find_local_days

LONDON = ZoneInfo("Europe/London")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")


def test_most_days_have_24_hours():
    """Each once, and nothing to tell."""
    (day,) = find_local_days(date(2026, 10, 20), 1, LONDON)

    assert list(range(24)) == [each.shown for each in day.hours]
    assert day.change is None
    assert datetime(2026, 10, 19, 23, tzinfo=UTC) == day.starts_at


def test_the_hour_that_comes_twice_is_there_twice():
    """In the autumn, when the day has 25 hours."""
    (day,) = find_local_days(date(2026, 10, 25), 1, LONDON)

    assert 25 == len(day.hours)
    assert [0, 1, 1, 2] == [each.shown for each in day.hours[:4]]
    assert day.change is not None
    assert "clocks go back from 02:00 to 01:00" in day.change.describe()


def test_the_hour_that_is_left_out_is_not_there():
    """In the spring, when the day has 23 hours."""
    (day,) = find_local_days(date(2026, 3, 29), 1, LONDON)

    assert [0, *range(2, 24)] == [each.shown for each in day.hours]
    assert day.change is not None


def test_half_an_hour_is_told_as_it_is():
    """Where clocks are changed by less than an hour, an hour may be short."""
    (day,) = find_local_days(date(2026, 10, 4), 1, LORD_HOWE)

    (short,) = [
        each for each in day.hours if each.ends_at - each.starts_at < timedelta(hours=1)
    ]
    assert (2, timedelta(minutes=30)) == (short.shown, short.ends_at - short.starts_at)


def test_a_day_that_a_zone_left_out_is_not_there():
    """Samoa had no 30 December 2011."""
    days = find_local_days(date(2011, 12, 29), 3, ZoneInfo("Pacific/Apia"))

    assert [29, 31] == [each.day.day for each in days]


@given(
    st.sampled_from(
        [
            *("Europe/London", "America/Santiago", "Asia/Kathmandu", "America/Nuuk"),
            *("Australia/Lord_Howe", "America/Havana", "Africa/Casablanca", "UTC"),
        ]
    ),
    st.dates(date(1980, 1, 1), date(2037, 1, 1)),
)
def test_hours_leave_no_gap(zone: str, first: date):
    """So every instant has its hour, which shows what the clocks show then."""
    clocks = ZoneInfo(zone)
    days = find_local_days(first, 3, clocks)

    hours = [hour for day in days for hour in day.hours]

    for former, following in pairwise(hours):
        assert former.ends_at == following.starts_at
    for hour in hours:
        assert hour.starts_at.astimezone(clocks).hour == hour.shown
        last = hour.ends_at - timedelta.resolution
        assert last.astimezone(clocks).hour == hour.shown
        assert hour is find_hour(hours, hour.starts_at)
        assert hour is find_hour(hours, last)
    assert find_hour(hours, hours[-1].ends_at) is None
    assert find_hour(hours, hours[0].starts_at - timedelta.resolution) is None


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_days_follow_each_other(zone: str):
    """As many as were asked for."""
    days = find_local_days(date(2026, 2, 27), 4, ZoneInfo(zone))

    assert [27, 28, 1, 2] == [each.day.day for each in days]
