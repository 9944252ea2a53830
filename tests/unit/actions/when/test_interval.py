"""When an interval is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import DAILY, MONTHLY, WEEKLY, rrule
from dateutil.tz import datetime_ambiguous, datetime_exists
from hypothesis import assume, given
from hypothesis import strategies as st

from actions.when.interval import IntervalRule, make_interval_rule
from actions.when.local_time import resolve_fixed
from actions.when.searching import find_last, find_occurrences
from models.errors import RuleError
from models.fields.zone import load_zone
from models.when import IntervalModel
from tests.unit.models.fields.moments import make_locals, zone_names

SECOND = timedelta(seconds=1)
PARIS, APIA = "Europe/Paris", "Pacific/Apia"
LATE = datetime(9990, 1, 1, tzinfo=UTC)
#: The independent calendar, by the letter of the unit.
CALENDARS = {
    "D": partial(rrule, DAILY),
    "W": partial(rrule, WEEKLY),
    "M": partial(rrule, MONTHLY),
}


def make_rule(every: str, anchor: str, timezone: str = "UTC") -> IntervalRule:
    """Read the rule as it stands in a document."""
    model = IntervalModel(every=every, anchor=anchor, timezone=timezone)
    return make_interval_rule(model)


@pytest.mark.parametrize(
    ("every", "anchor", "timezone", "expected"),
    [
        ("PT24H", "2026-03-28T12:00", PARIS, "260328T1100 260329T1100 260330T1100"),
        # a day is a day of the calendar: noon stays noon, in spring and autumn
        ("P1D", "2026-03-28T12:00", PARIS, "260328T1100 260329T1000 260330T1000"),
        ("P1D", "2026-10-24T12:00", PARIS, "261024T1000 261025T1100 261026T1100"),
        # every second Thursday at 16:00
        ("P2W", "2026-10-15T16:00", PARIS, "261015T1400 261029T1500 261112T1500"),
        # 02:30 does not exist on the 29th of March, and comes twice in October
        ("P1D", "2026-03-28T02:30", PARIS, "260328T0130 260329T0100 260330T0030"),
        ("P1D", "2026-10-24T02:30", PARIS, "261024T0030 261025T0030 261026T0130"),
        # the anchor in the second pass is an instant; the days after know no passes
        ("P1D", "2026-10-25T02:30+01:00", PARIS, "261025T0130 261026T0130 261027T0130"),
        # mixed: the days on the calendar first, then n times the hours
        ("P1DT12H", "2026-03-27T12:00", PARIS, "260327T1100 260328T2300 260330T1000"),
        # counted from the anchor each time, so the 31st comes back
        ("P1M", "2027-01-31T00:00:00Z", "UTC", "270131T0000 270228T0000 270331T0000"),
        (
            *("P1Y", "2024-02-29T06:00:00Z", "UTC"),
            "240229T0600 250228T0600 260228T0600 270228T0600 280229T0600",
        ),
        # mixed: the anchor plus n months plus n times the rest
        ("P1MT12H", "2027-01-31T00:00Z", "UTC", "270131T0000 270228T1200 270401T0000"),
        ("P1Y", "2025-03-29T02:30", PARIS, "250329T0130 260329T0100 270329T0030"),
        # 02:30 on the 25th of October 2026 comes twice: the first pass
        ("P1M", "2026-09-25T02:30", PARIS, "260925T0030 261025T0030 261125T0130"),
        # the 30th of December 2011 never came in Samoa
        ("P1M", "2011-11-30T12:00", APIA, "111130T2200 120129T2200 120228T2200"),
    ],
)
def test_grid(every: str, anchor: str, timezone: str, expected: str) -> None:
    """The grid starts with the anchor and is counted from it."""
    zoned = make_rule(every, anchor, timezone)
    start, count = datetime(1999, 1, 1, tzinfo=UTC), len(expected.split())

    found = find_occurrences(zoned, start, LATE, limit=count)

    assert expected == " ".join(f"{each:%y%m%dT%H%M}" for each in found)


def test_nothing_happens_before_the_anchor() -> None:
    """An anchor in the future waits."""
    zoned = make_rule("PT1M", "2040-01-01T00:00:00Z")

    assert zoned.anchor == zoned.next_from(datetime(2026, 1, 1, tzinfo=UTC))


def test_the_grid_ends_where_datetime_does() -> None:
    """Beyond the year 9990 nothing is due, and nothing overflows."""
    late = datetime(9989, 12, 31, tzinfo=UTC)

    assert make_rule("P100Y", "1970-01-01T00:00:01Z").next_from(late) is None
    assert make_rule("P36525D", "9950-01-01T00:00:00Z").next_from(late) is None


@pytest.mark.parametrize(
    ("every", "anchor", "timezone", "words"),
    [
        ("PT0.9S", "2026-01-01T00:00:00Z", "UTC", "PT1S"),
        ("PT1H", None, "UTC", "no anchor"),
        ("PT1H", "2026-03-29T02:30", "Europe/Paris", "does not exist"),
        ("PT1H", "2026-01-01T00:00:00Z", "Mars/Base", "'Mars/Base'"),
    ],
)
def test_what_makes_no_grid_is_refused(
    every: str, anchor: str | None, timezone: str, words: str
) -> None:
    """The error says what to write instead."""
    model = IntervalModel.model_construct(every=every, anchor=anchor, timezone=timezone)

    with pytest.raises(RuleError, match=words):
        make_interval_rule(model)


@given(
    st.integers(1, 40),
    st.sampled_from(("D", "W", "M")),
    make_locals(2009, 2030),
    zone_names,
    st.integers(0, 400),
)
def test_days_weeks_and_months_are_those_of_an_independent_calendar(
    step: int, unit: str, local: datetime, zone: str, count: int
) -> None:
    """
    The calendar rules of dateutil have the same dates at the same time of day.

    They leave out short months, and know neither gaps nor repeats.
    """
    local = local.replace(day=min(local.day, 28), microsecond=0)
    tz = load_zone(zone)
    wanted = CALENDARS[unit](interval=step, dtstart=local, count=count + 1)[count]
    assume(datetime_exists(local, tz))
    assume(datetime_exists(wanted, tz))
    assume(not count or not datetime_ambiguous(wanted, tz))
    zoned = make_rule(f"P{step}{unit}", local.isoformat(), zone)
    expected = wanted.replace(tzinfo=tz).astimezone(UTC)

    assert expected == zoned.next_from(expected)
    assert expected == find_last(zoned, expected - SECOND, expected)


@pytest.mark.parametrize("every", ["P1D", "P1W", "P1DT1S", "P1M1D"])
def test_cost_does_not_depend_on_the_age_of_the_anchor(
    every: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand years of days are not counted one by one."""
    asked: list[datetime] = []

    def resolve(local: datetime, zone: ZoneInfo) -> datetime | None:
        asked.append(local)
        return resolve_fixed(local, zone)

    monkeypatch.setattr("actions.when.interval.resolve_fixed", resolve)
    zoned = make_rule(every, "1971-03-28T02:30:00", "Europe/Paris")
    zoned.next_from(datetime(2971, 1, 1, tzinfo=UTC))

    assert len(asked) < 20
