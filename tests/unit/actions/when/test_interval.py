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
from models.fields.duration import Duration
from models.fields.zone import load_zone
from models.when import IntervalModel

SECOND = timedelta(seconds=1)
ZONES = (
    "UTC",
    "Europe/Paris",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Antarctica/Casey",
)

#: The independent calendar, by the letter of the unit.
CALENDARS = {
    "D": partial(rrule, DAILY),
    "W": partial(rrule, WEEKLY),
    "M": partial(rrule, MONTHLY),
}

days_with_changes = st.datetimes(
    datetime(2009, 1, 1),  # noqa: DTZ001 - hypothesis wants naive bounds
    datetime(2030, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
instants = days_with_changes | st.datetimes(
    datetime(1900, 1, 1),  # noqa: DTZ001
    datetime(9900, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
seconds = st.integers(0, 3_000_000).map(lambda count: timedelta(seconds=count))
zoned_rules = st.builds(
    IntervalRule,
    st.builds(
        Duration,
        st.integers(0, 30) | st.just(0),
        st.integers(0, 60) | st.just(0),
        seconds | st.just(timedelta()),
    ).filter(lambda every: every.is_calendar or every.rest >= timedelta(minutes=1)),
    days_with_changes.map(lambda anchor: anchor.replace(microsecond=0)),
    st.sampled_from(ZONES).map(load_zone),
)


def make_rule(every: str, anchor: str, timezone: str = "UTC") -> IntervalRule:
    """Read the rule as it stands in a document."""
    model = IntervalModel(every=every, anchor=anchor, timezone=timezone)
    return make_interval_rule(model)


def find_first(zoned: IntervalRule, start: datetime, count: int) -> list[str]:
    """Return the first occurrences from *start* on."""
    found: list[str] = []
    due_at = zoned.next_from(start)
    while due_at is not None and len(found) < count:
        found.append(f"{due_at:%Y-%m-%d %H:%M:%S}")
        due_at = zoned.next_from(due_at + SECOND)

    return found


@pytest.mark.parametrize(
    ("every", "anchor", "timezone", "expected"),
    [
        (
            "PT24H",
            "2026-03-28T12:00",
            "Europe/Paris",
            ["2026-03-28 11:00:00", "2026-03-29 11:00:00", "2026-03-30 11:00:00"],
        ),
        # a day is a day of the calendar: noon stays noon, in spring and autumn
        (
            "P1D",
            "2026-03-28T12:00",
            "Europe/Paris",
            ["2026-03-28 11:00:00", "2026-03-29 10:00:00", "2026-03-30 10:00:00"],
        ),
        (
            "P1D",
            "2026-10-24T12:00",
            "Europe/Paris",
            ["2026-10-24 10:00:00", "2026-10-25 11:00:00", "2026-10-26 11:00:00"],
        ),
        # every second Thursday at 16:00
        (
            "P2W",
            "2026-10-15T16:00",
            "Europe/Paris",
            ["2026-10-15 14:00:00", "2026-10-29 15:00:00", "2026-11-12 15:00:00"],
        ),
        # 02:30 does not exist on the 29th of March, and comes twice in October
        (
            "P1D",
            "2026-03-28T02:30",
            "Europe/Paris",
            ["2026-03-28 01:30:00", "2026-03-29 01:00:00", "2026-03-30 00:30:00"],
        ),
        (
            "P1D",
            "2026-10-24T02:30",
            "Europe/Paris",
            ["2026-10-24 00:30:00", "2026-10-25 00:30:00", "2026-10-26 01:30:00"],
        ),
        # the anchor in the second pass is an instant; the days after know no passes
        (
            "P1D",
            "2026-10-25T02:30:00+01:00",
            "Europe/Paris",
            ["2026-10-25 01:30:00", "2026-10-26 01:30:00", "2026-10-27 01:30:00"],
        ),
        # midnight in Cairo is left out once a year, its date is not
        (
            "P1D",
            "2026-04-23T00:00",
            "Africa/Cairo",
            ["2026-04-22 22:00:00", "2026-04-23 22:00:00", "2026-04-24 21:00:00"],
        ),
        # mixed: the days on the calendar first, then n times the hours
        (
            "P1DT12H",
            "2026-03-27T12:00",
            "Europe/Paris",
            ["2026-03-27 11:00:00", "2026-03-28 23:00:00", "2026-03-30 10:00:00"],
        ),
        # half a day has no date, so it is twelve hours
        (
            "P1.5D",
            "2026-03-27T12:00",
            "Europe/Paris",
            ["2026-03-27 11:00:00", "2026-03-28 23:00:00", "2026-03-30 10:00:00"],
        ),
        # months, then days: the 28th and a day
        (
            "P1M1D",
            "2027-01-31T00:00:00Z",
            "UTC",
            ["2027-01-31 00:00:00", "2027-03-01 00:00:00", "2027-04-02 00:00:00"],
        ),
        # Samoa had no 30th of December 2011, and loses a day but not the hour
        (
            "P1D",
            "2011-12-29T12:00",
            "Pacific/Apia",
            ["2011-12-29 22:00:00", "2011-12-30 22:00:00", "2011-12-31 22:00:00"],
        ),
        # months keep it
        (
            "P1M",
            "2026-03-10T12:00",
            "Europe/Paris",
            ["2026-03-10 11:00:00", "2026-04-10 10:00:00", "2026-05-10 10:00:00"],
        ),
        # counted from the anchor each time, so the 31st comes back
        (
            "P1M",
            "2027-01-31T00:00:00Z",
            "UTC",
            ["2027-01-31 00:00:00", "2027-02-28 00:00:00", "2027-03-31 00:00:00"],
        ),
        (
            "P1Y",
            "2024-02-29T06:00:00Z",
            "UTC",
            [
                "2024-02-29 06:00:00",
                "2025-02-28 06:00:00",
                "2026-02-28 06:00:00",
                "2027-02-28 06:00:00",
                "2028-02-29 06:00:00",
            ],
        ),
        # mixed: the anchor plus n months plus n times the rest
        (
            "P1MT12H",
            "2027-01-31T00:00:00Z",
            "UTC",
            ["2027-01-31 00:00:00", "2027-02-28 12:00:00", "2027-04-01 00:00:00"],
        ),
        # 02:30 on the 29th of March 2026 is left out: 03:00, and the grid holds
        (
            "P1M",
            "2026-02-28T02:30",
            "Europe/Paris",
            ["2026-02-28 01:30:00", "2026-03-28 01:30:00", "2026-04-28 00:30:00"],
        ),
        (
            "P1Y",
            "2025-03-29T02:30",
            "Europe/Paris",
            ["2025-03-29 01:30:00", "2026-03-29 01:00:00", "2027-03-29 00:30:00"],
        ),
        # 02:30 on the 25th of October 2026 comes twice: the first pass
        (
            "P1M",
            "2026-09-25T02:30",
            "Europe/Paris",
            ["2026-09-25 00:30:00", "2026-10-25 00:30:00", "2026-11-25 01:30:00"],
        ),
        # the anchor stands where its offset puts it, the second pass included
        (
            "P1M",
            "2026-10-25T02:30:00+01:00",
            "Europe/Paris",
            ["2026-10-25 01:30:00", "2026-11-25 01:30:00", "2026-12-25 01:30:00"],
        ),
        # the 30th of December 2011 never came in Samoa
        (
            "P1M",
            "2011-11-30T12:00",
            "Pacific/Apia",
            ["2011-11-30 22:00:00", "2012-01-29 22:00:00", "2012-02-28 22:00:00"],
        ),
    ],
)
def test_grid(every: str, anchor: str, timezone: str, expected: list[str]) -> None:
    """The grid starts with the anchor and is counted from it."""
    zoned = make_rule(every, anchor, timezone)
    start = datetime(1999, 1, 1, tzinfo=UTC)

    assert expected == find_first(zoned, start, len(expected))


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
        ("P0M", "2026-01-01T00:00:00Z", "UTC", "PT1S"),
        ("PT90.5S", "2026-01-01T00:00:00Z", "UTC", "fraction"),
        ("1 hour", "2026-01-01T00:00:00Z", "UTC", "Write PT1H."),
        ("PT1H", None, "UTC", "no anchor"),
        ("PT1H", "2026-01-01", "UTC", "2026-01-01T00:00:00"),
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


@given(zoned_rules, instants)
def test_next_from_is_on_time_and_idempotent(
    zoned: IntervalRule, instant: datetime
) -> None:
    """What is found is not before the instant, and is found from itself."""
    due_at = zoned.next_from(instant)
    if due_at is None:
        return

    assert due_at >= instant
    assert due_at == zoned.next_from(due_at)
    # nothing lies between the two
    assert due_at == zoned.next_from(instant + (due_at - instant) / 2)


@given(zoned_rules, instants)
def test_occurrences_strictly_increase(zoned: IntervalRule, instant: datetime) -> None:
    """Each occurrence is later than the one before, clock changes or not."""
    found: list[datetime] = []
    due_at = zoned.next_from(instant)
    while due_at is not None and len(found) < 30:
        found.append(due_at)
        due_at = zoned.next_from(due_at + SECOND)

    assert sorted(set(found)) == found


@given(zoned_rules, instants, instants)
def test_next_from_is_monotone(
    zoned: IntervalRule, one: datetime, other: datetime
) -> None:
    """Who asks later never gets an earlier answer."""
    earlier, later = sorted((one, other))
    first, second = zoned.next_from(earlier), zoned.next_from(later)

    assert second is None or (first is not None and first <= second)


@given(zoned_rules, st.integers(0, 60))
def test_grid_is_the_one_counted_from_the_anchor(
    zoned: IntervalRule, count: int
) -> None:
    """
    Every n-th step from the anchor is due, found by the duration's own arithmetic.
    """
    every = zoned.every
    steps = Duration(count * every.months, count * every.days, count * every.rest)
    expected = steps.added_to(zoned.anchor, zoned.zone)
    # A step in an hour that repeats may start in its second pass; the anchor never
    # moves, and what a leap of hours leaves out is another test.
    due_at = zoned.next_from(expected)

    left_out = zoned.zone.key in {"Pacific/Apia", "Antarctica/Casey"}
    assert left_out or expected == due_at


@given(zoned_rules, days_with_changes, st.timedeltas(SECOND, timedelta(days=400)))
def test_looking_back_finds_what_looking_ahead_promised(
    zoned: IntervalRule, start: datetime, length: timedelta
) -> None:
    """The latest of a window is the last of all that were listed one by one."""
    after, until = start.replace(microsecond=0), start + length
    if not zoned.every.is_calendar:
        after = max(after, until - 500 * zoned.every.rest)

    listed = find_occurrences(zoned, after + SECOND, until + SECOND / 2)

    assert (listed[-1] if listed else None) == find_last(zoned, after, until)


@given(
    st.integers(1, 40),
    st.sampled_from(("D", "W", "M")),
    st.datetimes(datetime(2009, 1, 1), datetime(2030, 1, 1)),  # noqa: DTZ001
    st.sampled_from((*ZONES, "Africa/Cairo", "America/Havana", "Asia/Tehran")),
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
