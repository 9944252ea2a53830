"""Durations as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import RuleError
from models.fields.duration import Duration, parse_elapsed, parse_interval
from tests.unit.models.fields.moments import make_instants, zones

PARIS = ZoneInfo("Europe/Paris")

durations = st.builds(
    Duration,
    st.integers(0, 400),
    st.integers(0, 10_000),
    st.timedeltas(timedelta(0), timedelta(days=10_000)),
)


@pytest.mark.parametrize(
    ("text", "months", "days", "rest"),
    [
        ("P1M", 1, 0, timedelta()),
        ("P1Y", 12, 0, timedelta()),
        ("P1Y2M", 14, 0, timedelta()),
        ("P7DT30S", 0, 7, timedelta(seconds=30)),
        ("PT24H", 0, 0, timedelta(hours=24)),
        ("P2W", 0, 14, timedelta()),
        ("P1W1D", 0, 8, timedelta()),
        ("P1.5W", 0, 10, timedelta(hours=12)),
        ("P0.5D", 0, 0, timedelta(hours=12)),
        ("P0,5W0.5D", 0, 4, timedelta()),
        ("PT1,5H", 0, 0, timedelta(minutes=90)),
        ("PT0.25S", 0, 0, timedelta(milliseconds=250)),
        ("P1MT12H", 1, 0, timedelta(hours=12)),
        ("P1DT36H", 0, 1, timedelta(hours=36)),
        ("P100Y", 1200, 0, timedelta()),
        ("PT0S", 0, 0, timedelta()),
    ],
)
def test_what_stands_before_the_t_is_of_the_calendar(
    text: str, months: int, days: int, rest: timedelta
) -> None:
    """Months and whole days are counted; a fraction of a day is elapsed time."""
    duration = Duration.parse(text)

    assert Duration(months, days, rest) == duration


def test_elapsed_time_is_written_with_days() -> None:
    """An age or a setting of seven times 24 hours is seven days to people."""
    week = timedelta(days=7, hours=3)

    assert "P7DT3H" == str(Duration.from_elapsed(week))
    assert week == Duration.from_elapsed(week).elapsed


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("7 days", "'7 days' is not an ISO 8601 duration.", "Write P7D."),
        ("1 month", "'1 month' is not an ISO 8601 duration.", "Write P1M."),
        ("P1H", "'P1H' is not an ISO 8601 duration.", "Write PT1H."),
        ("p7d", "'p7d' is not an ISO 8601 duration.", "Write P7D."),
        ("1h 30m", "'1h 30m' is not an ISO 8601 duration.", "Write PT1H30M."),
        ("999999 years", "is not an ISO 8601 duration.", "Write P7D for seven"),
        ("P7D\n", "'P7D\\n' is not an ISO 8601 duration.", "Write P7D."),
        ("7 moons", "'7 moons' is not an ISO 8601 duration.", "Write P7D for seven"),
        ("", "'' is not an ISO 8601 duration.", "Write P7D for seven"),
        ("P1DT", "'P1DT' is not an ISO 8601 duration.", "Write P7D for seven"),
        ("\0", "'\\x00' is not an ISO 8601 duration.", "Write P7D for seven"),
        ("P\u0661D", "'P\u0661D' is not an ISO 8601 duration.", "Write P7D for seven"),
        ("P0003-06-04T12:30:05", "is not an ISO 8601 duration.", "Write P7D for"),
        ("-P1D", "'-P1D' has a sign;", "Write it without the sign."),
        ("P1.5M", "'P1.5M' has a fraction of a month or year", "P45D"),
        ("P101Y", "'P101Y' is longer than 100 years.", "P1Y"),
        (f"P{'9' * 60}D", "is longer than 100 years.", "P1Y"),
        (f"P{'9' * 9000}D", "'P999999999999999999... is far too long", "Write P7D"),
        (7, "7 is not text", "Write P7D for seven"),
        (None, "None is not text", "Write P7D for seven"),
    ],
)
def test_what_is_no_duration_is_refused_with_the_right_one(
    text: Any, message: str, hint: str
) -> None:
    """The message has the value, and the hint what to write instead."""
    with pytest.raises(RuleError) as caught:
        Duration.parse(text)

    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (Duration(0, 0, timedelta()), "PT0S"),
        (Duration(14, 3, timedelta(seconds=3725)), "P1Y2M3DT1H2M5S"),
        (Duration(0, 14, timedelta()), "P14D"),
        (Duration(0, 0, timedelta(hours=24)), "PT24H"),
        (Duration(0, 0, timedelta(microseconds=500_000)), "PT0.5S"),
    ],
)
def test_text_is_canonical(duration: Duration, text: str) -> None:
    """One duration has one text."""
    assert text == str(duration)


@given(durations)
def test_text_reads_back_as_the_same_duration(duration: Duration) -> None:
    """Nothing is lost on the way through JSON."""
    assert duration == Duration.parse(str(duration))


@given(st.text(max_size=20) | st.text("P0123456789YMWDTHS.,-", max_size=20))
def test_parse_raises_nothing_but_rule_errors(text: str) -> None:
    """Whatever an author writes, the answer is a duration or a message."""
    try:
        duration = Duration.parse(text)
    except RuleError:
        return

    assert duration == Duration.parse(str(duration))


@pytest.mark.parametrize(
    ("text", "start", "zone", "end"),
    [
        # clamped to the end of the month
        ("P1M", "2027-01-31T12:00+00:00", "UTC", "2027-02-28T12:00+00:00"),
        ("P1M", "2028-01-31T12:00+00:00", "UTC", "2028-02-29T12:00+00:00"),
        ("P1Y", "2028-02-29T12:00+00:00", "UTC", "2029-02-28T12:00+00:00"),
        # 23:30 UTC on the 31st is the 1st in Paris, so the months start there
        ("P1M", "2027-01-31T23:30+00:00", "Europe/Paris", "2027-02-28T23:30+00:00"),
        # months and days keep the local time over a clock change, hours do not
        ("P1M", "2026-03-10T11:00+00:00", "Europe/Paris", "2026-04-10T10:00+00:00"),
        ("P31D", "2026-03-10T11:00+00:00", "Europe/Paris", "2026-04-10T10:00+00:00"),
        ("P1W", "2026-10-22T14:00+00:00", "Europe/Paris", "2026-10-29T15:00+00:00"),
        ("PT744H", "2026-03-10T11:00+00:00", "Europe/Paris", "2026-04-10T11:00+00:00"),
        ("P1D", "2026-03-28T01:30+00:00", "Europe/Paris", "2026-03-29T01:00+00:00"),
        ("P1D", "2026-10-24T00:30+00:00", "Europe/Paris", "2026-10-25T00:30+00:00"),
        ("P1DT1H", "2026-03-28T01:30+00:00", "Europe/Paris", "2026-03-29T02:00+00:00"),
        ("PT24H", "2026-10-24T10:00+00:00", "Europe/Paris", "2026-10-25T10:00+00:00"),
        # into the gap of March: 02:30 does not exist, so 03:00; in October: first pass
        ("P1M", "2026-02-28T01:30+00:00", "Europe/Paris", "2026-03-28T01:30+00:00"),
        ("P1M", "2026-03-01T01:30+00:00", "Europe/Paris", "2026-04-01T00:30+00:00"),
        ("P1Y", "2025-03-29T01:30+00:00", "Europe/Paris", "2026-03-29T01:00+00:00"),
        ("P1M", "2026-09-25T00:30+00:00", "Europe/Paris", "2026-10-25T00:30+00:00"),
        # the months first, then the days, then the rest
        ("P1M1D", "2027-01-31T12:00+00:00", "UTC", "2027-03-01T12:00+00:00"),
        ("P1MT12H", "2027-01-31T12:00+00:00", "UTC", "2027-03-01T00:00+00:00"),
        # 30 December 2011 never came in Samoa
        ("P1M", "2011-11-30T22:00+00:00", "Pacific/Apia", "2011-12-30T10:00+00:00"),
    ],
)
def test_added_to(text: str, start: str, zone: str, end: str) -> None:
    """Months step the local calendar; the rest is elapsed time."""
    instant = datetime.fromisoformat(start)

    actual = Duration.parse(text).added_to(instant, ZoneInfo(zone))

    assert datetime.fromisoformat(end) == actual
    assert UTC is actual.tzinfo


@given(durations, make_instants(1970, 9800), zones)
def test_adding_never_goes_back(
    duration: Duration, instant: datetime, zone: ZoneInfo
) -> None:
    """A duration that is not zero ends later than it starts."""
    later = duration.added_to(instant, zone)

    assert duration.is_zero == (later == instant)
    assert later >= instant


def test_adding_beyond_the_last_year_is_an_overflow() -> None:
    """What a datetime cannot hold is told, and not cut."""
    with pytest.raises(OverflowError):
        Duration(1200, 0, timedelta()).added_to(datetime(9950, 1, 1, tzinfo=UTC), PARIS)


@pytest.mark.parametrize("text", ["PT1M", "P1M", "PT61S", "P1DT1S", "PT60.000S"])
def test_an_interval_may_be_a_minute_or_more(text: str) -> None:
    """Any grid that a tick can follow is accepted."""
    assert Duration.parse(text) == parse_interval(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PT0.9S", "'PT0.9S' is shorter than a second"),
        ("PT0S", "'PT0S' is shorter than a second"),
        ("PT90.5S", "'PT90.5S' has a fraction of a second"),
        ("1h", "'1h' is not an ISO 8601 duration."),
    ],
)
def test_an_interval_finer_than_a_minute_is_refused(text: str, message: str) -> None:
    """The tick could not follow it."""
    with pytest.raises(RuleError) as caught:
        parse_interval(text)

    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1S", timedelta(seconds=1)),
        ("PT36H", timedelta(hours=36)),
        ("PT744H", timedelta(days=31)),
    ],
)
def test_hours_minutes_and_seconds_are_read(text: str, expected: timedelta):
    """Up to a month."""
    assert expected == parse_elapsed(text)


@pytest.mark.parametrize("text", ["P1D", "P1W", "P1M", "P1DT1H", "PT0M", "PT745H", ""])
def test_anything_else_is_refused(text: str):
    """Days as well: how long they are depends on the date."""
    with pytest.raises(RuleError):
        parse_elapsed(text)
