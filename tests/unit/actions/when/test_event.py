"""An event and a delay make an occurrence, to the second."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.when.event import (
    delay_bounds,
    event_due_at,
    event_occurrence,
    is_recorded_late,
)
from models.fields.duration import Duration

UTC_ZONE = ZoneInfo("UTC")
PARIS = ZoneInfo("Europe/Paris")
APIA = ZoneInfo("Pacific/Apia")  # left out 30 December 2011
SEEN_AT = datetime(2025, 6, 1, 10, tzinfo=UTC)
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("event_at", "delay", "zone", "occurrence"),
    [
        ("2025-06-01T10:00:00", "P7DT30S", UTC_ZONE, "2025-06-08T10:00:30"),
        ("2025-06-01T10:00:00.999999", "P7DT30S", UTC_ZONE, "2025-06-08T10:00:30"),
        ("2027-01-31T12:00:00", "P1M", UTC_ZONE, "2027-02-28T12:00:00"),
        # 31 January in Paris, still 30 January in UTC
        ("2027-01-30T23:30:00", "P1M", PARIS, "2027-02-27T23:30:00"),
        # noon in Paris stays noon in Paris over both clock changes
        ("2026-03-01T11:00:00", "P1M", PARIS, "2026-04-01T10:00:00"),
        ("2026-10-01T10:00:00", "P1M", PARIS, "2026-11-01T11:00:00"),
        # 02:30 on 29 March does not exist: the first instant after the gap
        ("2026-02-28T01:30:00", "P1M", PARIS, "2026-03-28T01:30:00"),
        ("2026-01-29T01:30:00", "P2M", PARIS, "2026-03-29T01:00:00"),
        # 02:30 on 25 October comes twice: the first pass
        ("2026-09-25T00:30:00", "P1M", PARIS, "2026-10-25T00:30:00"),
        # days have 24 hours, whatever the clocks do
        ("2026-03-28T11:00:00", "P1D", PARIS, "2026-03-29T11:00:00"),
    ],
)
def test_delay_is_added_to_the_event(
    event_at: str, delay: str, zone: ZoneInfo, occurrence: str
) -> None:
    """
    Months step the local calendar, all else is elapsed time, cut to the second.
    """
    start = datetime.fromisoformat(event_at).replace(tzinfo=UTC)

    found = event_occurrence(start, Duration.parse(delay), zone)

    assert datetime.fromisoformat(occurrence).replace(tzinfo=UTC) == found


def test_no_delay_is_the_event_itself() -> None:
    """
    ``on`` is due the moment the event happens.
    """
    assert SEEN_AT == event_occurrence(SEEN_AT, Duration(0, timedelta()), PARIS)


def test_late_record_delays_the_run_and_not_the_occurrence() -> None:
    """
    An event that is recorded after it was due is sent when it is recorded.
    """
    assert SEEN_AT + DAY == event_due_at(SEEN_AT, recorded_at=SEEN_AT + DAY)
    assert SEEN_AT + DAY == event_due_at(SEEN_AT + DAY, recorded_at=SEEN_AT)


def test_record_is_late_after_more_than_a_day() -> None:
    """
    A day late still runs, a second more is missed.
    """
    assert not is_recorded_late(SEEN_AT, SEEN_AT + DAY)
    assert is_recorded_late(SEEN_AT, SEEN_AT + DAY + SECOND)


def test_bounds_of_elapsed_time_are_exact_to_the_second() -> None:
    """
    Without months only the cut to the second is uncertain.
    """
    least, most = delay_bounds(Duration.parse("P7DT30S"))

    assert (7 * DAY + 29 * SECOND, 7 * DAY + 30 * SECOND) == (least, most)


def test_bounds_of_a_month_are_its_lengths_and_a_clock_change() -> None:
    """
    A month has 28 to 31 days, and no two offsets differ by more than 26 hours.
    """
    least, most = delay_bounds(Duration.parse("P1M"))

    spread = timedelta(hours=26)
    assert (28 * DAY - spread - SECOND, 31 * DAY + spread) == (least, most)


@given(
    st.datetimes(datetime(1975, 1, 1), datetime(2150, 1, 1)),  # noqa: DTZ001
    st.integers(0, 1200),
    st.timedeltas(timedelta(), 9 * DAY),
    st.sampled_from([UTC_ZONE, PARIS, APIA, ZoneInfo("America/St_Johns")]),
)
def test_every_occurrence_is_within_the_bounds(
    event_at: datetime, months: int, rest: timedelta, zone: ZoneInfo
) -> None:
    """
    No event that is due escapes the candidates that SQL selects.
    """
    delay = Duration(months, rest)
    start = event_at.replace(tzinfo=UTC)

    least, most = delay_bounds(delay)

    assert least <= event_occurrence(start, delay, zone) - start <= most
