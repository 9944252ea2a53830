"""An event and a delay make an occurrence, to the second."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.explaining.own_readings import read_delay
from actions.when.event import (
    earliest_occurrence,
    event_due_at,
    event_occurrence,
    event_window,
    longest_elapsed,
)
from models.fields.delay import Delay
from models.fields.duration import Duration
from tests.unit.models.fields.moments import make_instants, zones

UTC_ZONE = ZoneInfo("UTC")
PARIS = ZoneInfo("Europe/Paris")
APIA = ZoneInfo("Pacific/Apia")  # left out 30 December 2011
CAIRO = ZoneInfo("Africa/Cairo")
SEEN_AT = datetime(2025, 6, 1, 10, tzinfo=UTC)
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("event_at", "delay", "zone", "occurrence"),
    [
        ("2025-06-01T10:00:00", "P7DT30S", UTC_ZONE, "2025-06-08T10:00:30"),
        ("2025-06-01T10:00:00.999999", "P7DT30S", UTC_ZONE, "2025-06-08T10:00:30"),
        # 31 January in Paris, still 30 January in UTC
        ("2027-01-30T23:30:00", "P1M", PARIS, "2027-02-27T23:30:00"),
        # then the next time of day, at this very second or later
        ("2026-06-01T10:00:00", "P30D 09:00", PARIS, "2026-07-02T07:00:00"),
        ("2026-06-01T07:00:00", "P30D 09:00", PARIS, "2026-07-01T07:00:00"),
        ("2026-06-01T07:00:00.9", "P30D 09:00", PARIS, "2026-07-01T07:00:00"),
        ("2026-06-01T07:00:01", "P30D 09:00", PARIS, "2026-07-02T07:00:00"),
        ("2026-06-01T06:59:59", "09:00", PARIS, "2026-06-01T07:00:00"),
        ("2026-06-01T10:00:00", "PT0S 09:00", UTC_ZONE, "2026-06-02T09:00:00"),
        # not in the gap of March, but right after it
        ("2026-03-29T00:30:00", "02:30", PARIS, "2026-03-29T01:00:00"),
        ("2026-03-29T01:00:00", "02:30", PARIS, "2026-03-29T01:00:00"),
        ("2026-03-29T01:00:01", "02:30", PARIS, "2026-03-30T00:30:00"),
        # in October the first pass, and from the second pass on the next day
        ("2026-10-25T00:30:00", "02:30", PARIS, "2026-10-25T00:30:00"),
        ("2026-10-25T00:30:01", "02:30", PARIS, "2026-10-26T01:30:00"),
        # a date that never was has no 09:00
        ("2011-12-29T20:00:00", "09:00", APIA, "2011-12-30T19:00:00"),
        # midnight is left out once a year in Cairo, its date is not
        ("2026-04-23T22:00:00", "00:00", CAIRO, "2026-04-23T22:00:00"),
    ],
)
def test_delay_is_added_to_the_event(
    event_at: str, delay: str, zone: ZoneInfo, occurrence: str
) -> None:
    """Months and days step the local calendar; cut to the second, then to the time."""
    start = datetime.fromisoformat(event_at).replace(tzinfo=UTC)

    found = event_occurrence(start, Delay.parse(delay), zone)

    assert datetime.fromisoformat(occurrence).replace(tzinfo=UTC) == found


def test_late_record_delays_the_run_and_not_the_occurrence() -> None:
    """An event that is recorded after it was due is sent when it is recorded."""
    assert SEEN_AT + DAY == event_due_at(SEEN_AT, recorded_at=SEEN_AT + DAY)
    assert SEEN_AT + DAY == event_due_at(SEEN_AT + DAY, recorded_at=SEEN_AT)


@pytest.mark.parametrize("delay", ["P7DT30S", "PT0S", "PT90M"])
def test_window_is_exact_to_the_second_between_clock_changes(delay: str) -> None:
    """Only the cut to the second is uncertain: no more events are read than are due."""
    until = SEEN_AT + timedelta(minutes=1)
    length = Delay.parse(delay)

    found = event_window(length, PARIS, SEEN_AT, until)

    back = length.duration.elapsed
    assert (SEEN_AT - back, until - back + SECOND) == found


def test_window_of_a_time_of_day_has_the_days_that_wait_for_it() -> None:
    """The events of yesterday are due at 09:00, too."""
    first, last = event_window(Delay.parse("P7D 09:00"), PARIS, SEEN_AT, SEEN_AT)

    assert (SEEN_AT - 10 * DAY, SEEN_AT - 7 * DAY + SECOND) == (first, last)


def test_earliest_occurrence_waits_for_the_time_of_day() -> None:
    """A tick is not woken for each event before the time that all of them wait for."""
    found = earliest_occurrence(SEEN_AT, Delay.parse("P7D 09:00"), PARIS)

    assert SEEN_AT.replace(hour=7) + 8 * DAY == found


@pytest.mark.parametrize("delay", ["P9Y", "P100Y", "P100Y 09:00", "PT876000H"])
def test_event_of_the_last_year_is_never_due(delay: str) -> None:
    """A mistaken date stops neither the recording of events nor a tick."""
    last = datetime(9990, 12, 31, 23, tzinfo=UTC)

    assert earliest_occurrence(last, Delay.parse(delay), PARIS) >= last + 8 * 365 * DAY


def test_days_of_a_catch_up_have_24_hours() -> None:
    """How far back is an age, not a date; months are at their longest."""
    assert DAY == longest_elapsed(Duration.parse("P1D"))
    assert 31 * DAY + timedelta(hours=26) == longest_elapsed(Duration.parse("P1M"))


DELAYS = st.builds(
    Delay,
    st.builds(
        Duration,
        st.integers(0, 1200) | st.just(0),
        st.integers(0, 400) | st.just(0),
        st.timedeltas(timedelta(), 9 * DAY) | st.just(timedelta()),
    ),
    st.none() | st.times().map(lambda at: at.replace(second=0, microsecond=0)),
)
#: Around clock changes, and the day that Samoa left out.
EVENTFUL = st.one_of(
    make_instants(1975, 2150),
    st.sampled_from(
        [
            datetime(2011, 12, 30, 10, tzinfo=UTC),
            datetime(2026, 3, 29, 1, tzinfo=UTC),
            datetime(2026, 10, 25, 1, tzinfo=UTC),
            datetime(2026, 4, 23, 22, tzinfo=UTC),
        ]
    ).flatmap(
        lambda change: st.timedeltas(-3 * DAY, 3 * DAY).map(lambda by: change + by)
    ),
)


@given(EVENTFUL, DELAYS, zones, st.timedeltas(timedelta(), DAY))
def test_every_event_is_within_the_window_of_its_occurrence(
    event_at: datetime, delay: Delay, zone: ZoneInfo, longer: timedelta
) -> None:
    """No event that is due escapes the candidates that SQL selects."""
    occurrence = event_occurrence(event_at, delay, zone)

    for since, until in (
        (occurrence, occurrence),
        (occurrence - longer, occurrence),
        (occurrence, occurrence + longer),
    ):
        first, last = event_window(delay, zone, since, until)
        assert first <= event_at <= last


@given(EVENTFUL, DELAYS, zones, st.timedeltas(timedelta(), 9 * DAY))
def test_no_later_event_is_due_before_the_earliest_occurrence(
    event_at: datetime, delay: Delay, zone: ZoneInfo, later: timedelta
) -> None:
    """The bound that wakes the tick is never too late, whatever the clocks do."""
    bound = earliest_occurrence(event_at, delay, zone)

    assert bound <= event_occurrence(event_at, delay, zone)
    assert bound <= event_occurrence(event_at + later, delay, zone)


@given(EVENTFUL, DELAYS, zones)
def test_the_audit_comes_to_the_same_occurrence(
    event_at: datetime, delay: Delay, zone: ZoneInfo
) -> None:
    """It counts on its own, by the listed changes of the clocks."""
    assert event_occurrence(event_at, delay, zone) == read_delay(event_at, delay, zone)


@given(EVENTFUL, DELAYS, zones)
def test_no_occurrence_is_further_than_the_longest(
    event_at: datetime, delay: Delay, zone: ZoneInfo
) -> None:
    """Events are kept as long as an action may wait for them."""
    assert event_occurrence(event_at, delay, zone) - event_at <= delay.longest
