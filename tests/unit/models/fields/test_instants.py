"""Tests of dates and times as people write them."""

from __future__ import annotations

import contextlib
import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import RuleError
from models.fields.instants import (
    format_instant,
    parse_date,
    parse_due_date,
    parse_instant,
)
from models.fields.zone import load_zone
from tests.unit.models.fields.moments import make_instants, zones

PARIS = load_zone("Europe/Paris")
SAMOA = load_zone("Pacific/Apia")
LORD_HOWE = load_zone("Australia/Lord_Howe")

NINE = datetime(2026, 12, 1, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-12-01T09:00:00", NINE),
        ("2026-12-01T09:00", NINE),
        ("2026-12-01 09:00:00", NINE),
        ("2026-12-01t09:00:00.000", NINE),
        ("2026-12-01T08:00:00Z", NINE),
        ("2026-12-01T08:00:00z", NINE),
        ("2026-12-01T09:00:00+01:00", NINE),
        ("2026-12-01T09:00:00+0100", NINE),
        ("2026-12-01T09:00:00+01", NINE),
        ("2026-11-30T18:30:00-13:30", NINE),
        ("2026-12-01T22:00:00+14:00", NINE),
    ],
)
def test_due_date_is_read(text: str, expected: datetime):
    """A due date is local time of its zone, or has an offset that wins over it."""
    assert expected == parse_due_date(text, PARIS)


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2027-03-28T01:59:59", PARIS, "2027-03-28T00:59:59+00:00"),
        ("2027-03-28T03:00:00", PARIS, "2027-03-28T01:00:00+00:00"),
        ("2026-10-25T01:59:59", PARIS, "2026-10-24T23:59:59+00:00"),
        ("2026-10-25T02:30:00", PARIS, "2026-10-25T00:30:00+00:00"),
        ("2026-10-25T03:00:00", PARIS, "2026-10-25T02:00:00+00:00"),
        # half an hour comes twice
        ("2027-04-04T01:45:00", LORD_HOWE, "2027-04-03T14:45:00+00:00"),
    ],
)
def test_time_near_a_clock_change(text: str, zone: ZoneInfo, expected: str):
    """A local time that comes twice means its first pass."""
    assert datetime.fromisoformat(expected) == parse_due_date(text, zone)


@pytest.mark.parametrize(
    ("text", "zone", "last", "first"),
    [
        ("2027-03-28T02:00", PARIS, "2027-03-28T01:59:59", "2027-03-28T03:00:00"),
        ("2027-03-28T02:59:59", PARIS, "2027-03-28T01:59:59", "2027-03-28T03:00:00"),
        ("2011-12-30T12:00:00", SAMOA, "2011-12-29T23:59:59", "2011-12-31T00:00:00"),
        ("2026-10-04T02:15", LORD_HOWE, "2026-10-04T01:59:59", "2026-10-04T02:30:00"),
    ],
)
def test_time_that_never_comes_is_refused(
    text: str, zone: ZoneInfo, last: str, first: str
):
    """A local time in a gap is refused, naming the times on both sides of it."""
    with pytest.raises(RuleError) as caught:
        parse_due_date(text, zone)

    assert f"Write '{last}' or '{first}'." == caught.value.hint


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "not an ISO 8601"),
        ("2026-12-01", "without a time of day"),
        ("20261201T090000", "not an ISO 8601"),
        ("2026-W49-2T09:00", "not an ISO 8601"),
        ("2026-12-01T09:00:00\n", "not an ISO 8601"),
        ("٢٠٢٦-12-01T09:00", "not an ISO 8601"),  # digits, but not ours
        ("2026-12-01T09:00:60", "second"),
        ("2026-12-01T24:00", "hour"),
        ("2026-00-01T09:00", "month"),
        ("2027-02-29T09:00", "day"),
        ("2026-12-01T09:00:00.001", "fraction"),
        ("2026-12-01T09:00+01:60", "+01:60"),
        ("2026-12-01T09:00-14:01", "-14:01"),
        ("1969-12-31T23:59:59Z", "1970 to 9990"),
        ("1970-01-01T00:30:00+01:00", "1970 to 9990"),
        ("9990-12-31T23:59:59-01:00", "1970 to 9990"),
    ],
)
def test_unreadable_due_date_is_refused(text: str, word: str):
    """What is no date and time is refused with the reason and a hint."""
    with pytest.raises(RuleError, match=r"Write|Midnight") as caught:
        parse_due_date(text, PARIS)

    assert word in caught.value.message


@pytest.mark.parametrize(
    "text",
    ["soon", "2026-12-01", "2026-13-01", "2026-12-01T09:00", "9991-01-01T00:00Z"],
)
def test_instants_that_hints_name_are_accepted(text: str):
    """Where there is no zone, no hint names a form that would be refused next."""
    with pytest.raises(RuleError) as caught:
        parse_instant(text)

    named = re.findall("'([^']+)'", caught.value.hint)
    assert named
    assert [parse_instant(each) for each in named]


def test_years_of_dates_are_explained_with_a_date():
    """The hint for a date names one, not an instant, which would be refused next."""
    with pytest.raises(RuleError) as caught:
        parse_date("1900-01-01")

    (named,) = re.findall("'([^']+)'", caught.value.hint)
    assert parse_date(named)


def test_instant_may_have_a_fraction():
    """What happened to users happened at any microsecond; the rest is cut."""
    expected = NINE + timedelta(microseconds=123_456)

    assert expected == parse_instant("2026-12-01T08:00:00,123456789Z")


@given(
    st.datetimes(
        # an offset of seconds, as Monrovia's was until 1972, has no text in ISO 8601
        datetime.fromisoformat("1973-01-01T00:00:00"),
        datetime.fromisoformat("9989-12-31T00:00:00"),
        timezones=zones,
        allow_imaginary=False,
    )
)
def test_any_instant_is_read_back(instant: datetime):
    """
    What isoformat writes is read as the same instant; without its offset as the
    first of the instants that look like it.
    """
    assert instant.astimezone(UTC) == parse_instant(instant.isoformat())

    local = instant.replace(tzinfo=None, microsecond=0)
    zone = instant.tzinfo
    assert isinstance(zone, ZoneInfo)
    first = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    assert first == parse_due_date(local.isoformat(), zone)


@given(make_instants(1970, 9990), zones)
def test_instant_is_written_in_utc_and_read_again(instant: datetime, zone: ZoneInfo):
    """Any zone is written as Z, to the microsecond."""
    text = format_instant(instant.astimezone(zone))

    assert text.endswith("Z")
    assert instant == parse_instant(text)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str):
    """No text makes the parsers raise anything but a refusal."""
    for parse in (lambda: parse_due_date(text, PARIS), lambda: parse_date(text)):
        with contextlib.suppress(RuleError):
            parse()


def test_date_is_read():
    """A day is written as ISO 8601 has it."""
    assert date(2028, 2, 29) == parse_date("2028-02-29")


@pytest.mark.parametrize(
    "text", ["", "2026-2-1", "2027-02-29", "1969-12-31", "0000-00-00"]
)
def test_unreadable_date_is_refused(text: str):
    """What is no day of the years 1970 to 9990 is refused."""
    with pytest.raises(RuleError, match="Write"):
        parse_date(text)
