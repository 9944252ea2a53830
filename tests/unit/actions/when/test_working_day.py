"""The n-th working day of each month, whatever the holidays."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actions.occurrences import Schedule, make_schedule
from actions.when.excluding import DaysOff
from actions.when.searching import find_occurrences
from actions.when.working_day import WorkingDayRule, make_working_day_rule
from models.fields.zone import load_zone
from models.timing import merge_days
from models.when import TimingModel, WorkingDayModel

DAY = timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=UTC)


def make(number: int, at: str = "09:00", zone: str = "Europe/Paris") -> WorkingDayRule:
    """Return the rule of an action without exceptions."""
    return make_working_day_rule(
        WorkingDayModel(working_day=number, at=at, timezone=zone)
    )


def find_days(rule: WorkingDayRule | Schedule) -> list[str]:
    """Return the first three local days of 2026, in Paris."""
    found = find_occurrences(rule, START, START + 800 * DAY, limit=3)
    return [
        each.astimezone(load_zone("Europe/Paris")).date().isoformat() for each in found
    ]


@pytest.mark.parametrize(
    ("number", "days"),
    [
        (1, ["2026-01-01", "2026-02-02", "2026-03-02"]),
        (5, ["2026-01-07", "2026-02-06", "2026-03-06"]),
        (-1, ["2026-01-30", "2026-02-27", "2026-03-31"]),
        (-2, ["2026-01-29", "2026-02-26", "2026-03-30"]),
        # months with fewer have none
        (22, ["2026-01-30", "2026-03-31", "2026-04-30"]),
        (23, ["2026-07-31", "2026-12-31", "2027-03-31"]),
    ],
)
def test_weekends_are_no_working_days(number: int, days: list[str]) -> None:
    """Monday to Friday are counted, from the beginning or the end of each month."""
    assert days == find_days(make(number))


def test_days_of_an_action_are_those_that_it_excepts() -> None:
    """The schedule hands them to the rule, whatever stands beside it."""
    schedule = make_schedule(
        TimingModel.model_validate(
            {
                "when": [
                    {"working_day": 1, "at": "09:00", "timezone": "Europe/Paris"},
                    {"cron_rule": "0 9 3 * *", "timezone": "Europe/Paris"},
                ],
                "excluded": [["2026-01-01", "2026-01-02"]],
                "instead": "before",
            }
        )
    )

    # the 3rd is a Saturday, which is a day like any other to the cron rule
    assert ["2026-01-03", "2026-01-05", "2026-02-02"] == find_days(schedule)


FRIDAY_AND_SATURDAY = DaysOff(weekdays=(4, 5))


@pytest.mark.parametrize(
    ("rule", "since", "instant"),
    [
        # Sunday 29 March: clocks go from 02:00 to 03:00
        (
            make(-3, "02:30").without(FRIDAY_AND_SATURDAY),
            "2026-03-02",
            "2026-03-29T01:00:00",
        ),
        # Sunday 25 October: 02:30 comes twice
        (
            make(-5, "02:30").without(FRIDAY_AND_SATURDAY),
            "2026-10-02",
            "2026-10-25T00:30:00",
        ),
        # Friday 24 April: clocks go from midnight to one, and the day is not lost
        (make(18, "00:00", "Africa/Cairo"), "2026-04-02", "2026-04-23T22:00:00"),
    ],
)
def test_time_of_day_is_a_fixed_time(
    rule: WorkingDayRule, since: str, instant: str
) -> None:
    """After a gap, and in the first pass of a repeated hour."""
    start = datetime.fromisoformat(since).replace(tzinfo=UTC)

    assert datetime.fromisoformat(instant).replace(tzinfo=UTC) == rule.next_from(start)


@pytest.mark.parametrize(
    ("free", "year"),
    [
        (DaysOff(((date(2026, 1, 1), date(2999, 6, 30)),), (5, 6)), 2999),
        (DaysOff(((date(2026, 1, 1), date.max),), (5, 6)), None),
        # no month has eight Sundays; the door refuses it
        (DaysOff(weekdays=(0, 1, 2, 3, 4, 5)), None),
    ],
)
def test_search_ends(free: DaysOff, year: int | None) -> None:
    """Centuries of excepted days are leapt over, and what never comes is never due."""
    found = make(8).without(free).next_from(START)

    assert year == (None if found is None else found.year)


@given(
    st.integers(-27, 27).filter(bool),
    st.sampled_from(["Europe/Paris", "Africa/Cairo", "Pacific/Apia", "America/Havana"]),
    st.sampled_from(["00:00", "02:30", "23:59"]),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 20)), max_size=5),
    st.sets(st.integers(0, 6), max_size=5),
)
@settings(max_examples=8)
def test_search_finds_what_counting_finds(
    number: int, zone: str, at: str, spans: list[tuple[int, int]], weekdays: set[int]
) -> None:
    """Month by month, in several zones."""
    first = date(2026, 1, 1)
    ranges = merge_days((first + a * DAY, first + (a + n) * DAY) for a, n in spans)
    rule = make(number, at, zone).without(DaysOff(ranges, tuple(sorted(weekdays))))
    free = weekdays or {5, 6}
    expected = []
    for month in range(12):
        days = [
            d
            for d in map(first.__add__, map(timedelta, range(365)))
            if d.month == month + 1
            and d.weekday() not in free
            and not any(a <= d <= b for a, b in ranges)
        ]
        if len(days) >= abs(number):
            expected.append(days[number - (number > 0)])
    local = load_zone(zone)

    found = find_occurrences(rule, START - 2 * DAY, START + 366 * DAY)

    days_found = [each.astimezone(local).date() for each in found]
    assert expected == [day for day in days_found if day.year == 2026]
