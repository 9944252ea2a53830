"""Occurrences of excluded days are moved, and never lost."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actions.occurrences import Schedule, find_due, make_schedule, next_due
from actions.when.excluding import DaysOff
from actions.when.moving import LONGEST_RUN, find_kept_or_moved, find_origins
from actions.when.searching import find_last, find_occurrences
from models.days_off import Instead
from models.timing import merge_days
from models.when import TimingModel
from tests.unit.actions.rules import CountingRule, GridRule
from tests.unit.actions.when.moved_by_hand import find_moved_by_hand

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
PARIS = ZoneInfo("Europe/Paris")
WEEKEND = (5, 6)

#: A zone, and a day around which something happens to its clocks.
NIGHTS = [
    ("Europe/Paris", date(2026, 3, 29)),  # a gap
    ("Europe/Paris", date(2026, 10, 25)),  # a repeated hour
    ("Europe/Paris", date(2026, 12, 25)),
    ("Africa/Cairo", date(2026, 4, 24)),  # a gap at midnight
    ("America/Havana", date(2024, 11, 3)),  # 01:00 back to midnight
    ("Australia/Lord_Howe", date(2026, 10, 4)),  # half an hour
    ("Australia/Lord_Howe", date(2026, 4, 5)),
    ("Asia/Tokyo", date(2026, 1, 1)),
]
RULES = [
    {"cron_rule": "30 2 * * *"},
    {"cron_rule": "0,30 0,2,7 * * *"},
    {"cron_rule": "*/20 2 * * *"},
    {"cron_rule": "15 * * * *"},
    {"cron_rule": "0 18 L * *"},
    {"cron_rule": "30 2 * * 0"},
    {"cron_rule": "0 9 25 * *"},
    {"calendar": "Sun *-*-* 02:15:30"},
    {"calendar": "02:00/30"},
    {"every": "PT7H", "anchor": "2020-01-01T00:00:00Z"},
    {"every": "PT50M", "anchor": "2020-01-01T00:20:00Z"},
    {"every": "P1M", "anchor": "2020-01-29T02:30:00"},
    {"working_day": 2, "at": "02:30"},
]
days_off = st.builds(
    lambda spans, weekdays: (spans, weekdays),
    st.lists(st.tuples(st.integers(-6, 6), st.integers(0, 3)), max_size=3),
    st.sets(st.integers(0, 6), max_size=4),
).filter(any)


def make(
    rules: list[dict[str, str]],
    night: tuple[str, date],
    off: tuple[list[tuple[int, int]], set[int]],
    instead: Instead,
) -> tuple[Schedule, TimingModel]:
    """Return a schedule around *night*, and what it was made of."""
    zone, day = night
    timing = TimingModel.model_validate(
        {
            "when": [{"timezone": zone, **rule} for rule in rules],
            "excluded": [
                (day + first * DAY, day + (first + more) * DAY)
                for first, more in off[0]
            ],
            "weekdays": sorted(off[1]),
            "instead": instead,
        }
    )
    return make_schedule(timing), timing


@given(
    st.lists(st.sampled_from(RULES), min_size=1, max_size=2),
    st.sampled_from(NIGHTS),
    days_off,
    st.sampled_from(["before", "after"]),
)
@settings(max_examples=8)
@example([{"cron_rule": "30 2 * * *"}], NIGHTS[0], ([(0, 0)], set()), "before")
@example([{"cron_rule": "30 2 * * *"}], NIGHTS[1], ([(1, 0)], set()), "before")
@example([{"cron_rule": "*/20 2 * * *"}], NIGHTS[1], ([(0, 0)], set()), "after")
@example(
    [{"every": "PT50M", "anchor": "2020-01-01T00:20:00Z"}],
    NIGHTS[1],
    ([(0, 0)], set()),
    "after",
)
def test_what_is_found_is_what_brute_force_finds(
    rules: list[dict[str, str]],
    night: tuple[str, date],
    off: tuple[list[tuple[int, int]], set[int]],
    instead: Instead,
) -> None:
    """Searching ahead, and back, gives each occurrence moved by hand, in any window."""
    schedule, timing = make(rules, night, off, instead)
    start = datetime.combine(night[1], datetime.min.time(), UTC) - 9 * DAY
    expected = find_moved_by_hand(timing, start, start + 18 * DAY)

    assert expected == find_occurrences(schedule, start, start + 18 * DAY)
    for hours in range(0, 18 * 24, 17):
        now = start + timedelta(hours=hours, minutes=7)
        past = [each for each in expected if each <= now]
        assert (past[-1] if past else None) == find_last(schedule, start - SECOND, now)
        later = [each for each in expected if each >= now]
        if later:
            assert later[0] == schedule.next_from(now)


def test_two_that_meet_count_once() -> None:
    """Of Saturday, Sunday and the Friday itself there is one, with the Friday's own."""
    schedule, _ = make(
        [{"cron_rule": "0 7 * * *"}], NIGHTS[2], ([], set(WEEKEND)), "before"
    )
    start = datetime(2026, 12, 14, tzinfo=UTC)

    found = find_occurrences(schedule, start, start + 7 * DAY)

    assert [14, 15, 16, 17, 18] == [each.day for each in found]
    placed = schedule.find_rule(found[4])
    assert placed is not None
    assert () == placed.origins


@pytest.mark.parametrize(
    ("instead", "days"), [("before", [18, 25]), ("after", [21, 28])]
)
def test_bounds_are_those_of_where_it_arrives(
    instead: Instead, days: list[int]
) -> None:
    """A Sunday's run that is moved out of the bounds does not happen; one in does."""
    made, timing = make(
        [{"cron_rule": "0 7 * * 0"}], NIGHTS[2], ([], set(WEEKEND)), instead
    )
    first, last = (datetime(2026, 12, day, 6, tzinfo=PARIS) for day in days)

    bounded = make_schedule(
        timing.model_copy(update={"starts_at": first, "ends_at": last})
    )

    one = find_occurrences(bounded, first - 30 * DAY, last + 30 * DAY)
    assert [days[0]] == [each.day for each in one]
    effective = first.replace(hour=8)
    following = next_due(made, "uid", after=first, effective_from=effective)
    assert following is not None
    assert days[1] == following.occurrence.day


def test_jitter_follows_the_moved_occurrence() -> None:
    """It is sent within its jitter, and before the next occurrence."""
    _, timing = make([{"cron_rule": "0 7 * * 0,1"}], NIGHTS[2], ([], {6}), "before")
    schedule = make_schedule(timing.model_copy(update={"jitter": "PT24H"}))
    start = datetime(2026, 12, 18, tzinfo=UTC)

    found = find_due(schedule, "x", start=start, now=start + 8 * DAY)

    assert [19, 21] == [each.occurrence.day for each in found]
    for each in found:
        delay = each.due_at - each.occurrence
        assert timedelta(0) <= delay <= DAY


def test_a_quarter_of_excepted_days_is_moved_over_and_more_is_not() -> None:
    """The longest run is moved over; one day more, and its occurrences are left out."""
    first = date(2026, 12, 1)
    rule = GridRule(24 * 3600)
    start = datetime(2026, 11, 30, 1, tzinfo=UTC)
    for days, is_moved in [(LONGEST_RUN, True), (LONGEST_RUN + 1, False)]:
        last = first + (days - 1) * DAY
        off = DaysOff(merge_days([(first, last)]))
        after = datetime(last.year, last.month, last.day, tzinfo=UTC) + DAY

        assert after == find_kept_or_moved(rule, start, off, "after")
        assert is_moved == bool(find_origins(rule, after, off, "after"))


@pytest.mark.parametrize(
    ("every", "instead", "questions"),
    [(60, "before", 10), (60, "after", 10), (421, "before", 400), (421, "after", 400)],
)
def test_cost_follows_the_excepted_days_not_the_occurrences(
    every: int, instead: Instead, questions: int
) -> None:
    """A hundred thousand occurrences of an excepted quarter cost a few for each day."""
    rule = CountingRule(GridRule(every))
    quarter = (date(2027, 1, 1), date(2027, 3, 31))
    start = datetime(2026, 12, 31, 23, 30, tzinfo=UTC)

    find_kept_or_moved(rule, start, DaysOff((quarter,)), instead)

    assert rule.asked < questions


def test_rule_that_never_lands_is_never_due() -> None:
    """A century of excepted days is passed in a few questions."""
    rule = CountingRule(GridRule(60))
    century = (date(2000, 1, 1), date(2099, 12, 31))

    found = find_kept_or_moved(
        rule, datetime(2026, 6, 1, tzinfo=UTC), DaysOff((century,)), "after"
    )

    assert datetime(2100, 1, 1, tzinfo=UTC) == found
    assert rule.asked < 10
