"""When a calendar rule is due; plain weeks are left to test_calendar_oracle."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.when.calendar import CalendarRule, make_calendar_rule
from actions.when.local_time import resolve_fixed
from actions.when.searching import find_occurrences
from models.expressions.calendar import CalendarExpression
from models.fields.zone import load_zone
from models.when import CalendarModel
from tests.unit.actions.when.zoned_rules import CHANGES

MINUTE = timedelta(minutes=1)


def find_between(rule: str, zone: str, start: str, end: str) -> list[str]:
    """Return the occurrences in ``[start, end)``, UTC, without seconds."""
    model = CalendarModel(calendar=rule, timezone=zone)
    bounds = map(datetime.fromisoformat, (start, end))
    found = find_occurrences(make_calendar_rule(model), *bounds)
    return [f"{due_at:%d %H:%M}" for due_at in found]


SPRING = ("Europe/Paris", "2026-03-29T00:00+00:00", "2026-03-29T03:00+00:00")
AUTUMN = ("Europe/Paris", "2026-10-24T23:30+00:00", "2026-10-25T02:30+00:00")


@pytest.mark.parametrize(
    ("rule", "span", "expected"),
    [
        # fixed times in the gap: the first instant after it, once for all of them
        ("02:30", SPRING, ["29 01:00"]),
        ("02:00", SPRING, ["29 01:00"]),
        ("02:15,30,45", SPRING, ["29 01:00"]),
        ("1..3:0,30", SPRING, ["29 00:00", "29 00:30", "29 01:00", "29 01:30"]),
        ("02:30:00..59", SPRING, ["29 01:00"]),
        # a star follows the clock: what does not exist does not happen
        ("02:*", SPRING, []),
        ("*:30", SPRING, ["29 00:30", "29 01:30", "29 02:30"]),
        # fixed times that repeat: the first pass
        ("02:30", AUTUMN, ["25 00:30"]),
        ("02:00", AUTUMN, ["25 00:00"]),
        ("03:00", AUTUMN, ["25 02:00"]),
        ("2,3:0,30", AUTUMN, ["25 00:00", "25 00:30", "25 02:00"]),
        # a star follows the clock: both passes
        ("*:30", AUTUMN, ["24 23:30", "25 00:30", "25 01:30"]),
        ("2026-10-25 02:0/30", AUTUMN, ["25 00:00", "25 00:30"]),
        ("2026-10-25 2:*:30 UTC", AUTUMN, [f"25 02:{n:02}" for n in range(30)]),
    ],
)
def test_clock_changes(
    rule: str, span: tuple[str, str, str], expected: list[str]
) -> None:
    """Fixed times happen once, stars follow the clock."""
    assert expected == find_between(rule, *span)


def test_the_second_pass_is_found_from_within_the_first() -> None:
    """The rule's own date ends before the clocks go back, but its times come again."""
    span = ("Europe/Paris", "2026-10-25T00:59+00:00", "2027-10-25T00:00+00:00")
    found = find_between("2026-10-25 02:*", *span)

    assert "25 00:59" == found[0]
    assert "25 01:59" == found[-1]
    assert 61 == len(found)


def test_the_day_of_a_midnight_gap_is_not_lost() -> None:
    """Midnight did not exist in São Paulo on 4 November 2018; daily ran at 01:00."""
    span = ("America/Sao_Paulo", "2018-11-03T00:00+00:00", "2018-11-06T00:00+00:00")

    assert ["03 03:00", "04 03:00", "05 02:00"] == find_between("daily", *span)


def test_a_date_that_never_came_is_not_made_up_for() -> None:
    """Samoa leapt over 30 December 2011."""
    span = ("Pacific/Apia", "2011-12-29T00:00+00:00", "2012-01-01T00:00+00:00")

    assert ["29 17:00", "30 17:00", "31 17:00"] == find_between("7:00", *span)
    assert [] == find_between("2011-12-30 7:00", *span)


def test_exactly_three_hours_back_is_a_clock_change() -> None:
    """As in Debian's daemon: Casey went back from 03:00 to 00:00 on 8 March 2020."""
    span = ("Antarctica/Casey", "2020-03-07T12:00+00:00", "2020-03-08T00:00+00:00")

    assert ["07 15:00"] == find_between("02:00", *span)


def test_the_zone_of_the_rule_beats_that_of_the_action() -> None:
    """A rule that names a zone is read there."""
    model = CalendarModel(calendar="9:00 Asia/Tokyo", timezone="Europe/Paris")
    zoned = make_calendar_rule(model)

    assert "Asia/Tokyo" == zoned.zone.key
    assert datetime(2026, 11, 22, tzinfo=UTC) == zoned.next_from(
        datetime(2026, 11, 21, 0, 0, 1, tzinfo=UTC)
    )


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("1999-12-31 23:59", None),
        ("2027-02-28", datetime(2027, 2, 28, tzinfo=UTC)),
        ("*-02-29", datetime(2028, 2, 29, tzinfo=UTC)),
        ("Mon *-02-29", datetime(2044, 2, 29, tzinfo=UTC)),
        ("2199-12-31", datetime(2199, 12, 31, tzinfo=UTC)),
    ],
)
def test_rare_dates(rule: str, expected: datetime | None) -> None:
    """The search ends, with a date or without one."""
    zoned = CalendarRule(CalendarExpression.parse(rule), load_zone("UTC"))

    assert expected == zoned.next_from(datetime(2026, 11, 21, tzinfo=UTC))


def test_a_part_of_a_second_counts() -> None:
    """Just after an occurrence the next one is asked for."""
    zoned = CalendarRule(CalendarExpression.parse("minutely"), load_zone("UTC"))
    minute = datetime(2026, 11, 21, 12, tzinfo=UTC)

    assert minute + MINUTE == zoned.next_from(minute + timedelta(microseconds=1))


def is_match(rule: CalendarExpression, local: datetime) -> bool:
    """Read the fields of a rule one by one."""
    return (
        (rule.years is None or local.year in rule.years)
        and local.month in rule.months
        and bool(rule.days_in(local.year, local.month) >> local.day & 1)
        and (local.hour in rule.hours and local.minute in rule.minutes)
    )


def find_by_force(
    rule: CalendarExpression, zone: ZoneInfo, start: datetime, end: datetime
) -> list[datetime]:
    """Look at every minute: of UTC if *rule* follows the clock, else of the clock."""
    if rule.follows_clock:
        minutes = (start + n * MINUTE for n in range((end - start) // MINUTE))
        return [t for t in minutes if is_match(rule, t.astimezone(zone))]

    first = start.astimezone(zone).replace(tzinfo=None) - timedelta(hours=5)
    span = (end - start + timedelta(hours=10)) // MINUTE
    locals_ = (first + n * MINUTE for n in range(span))
    found = {resolve_fixed(local, zone) for local in locals_ if is_match(rule, local)}
    return sorted(t for t in found if t is not None and start <= t < end)


@given(
    st.sampled_from(["*-*-*", "Sun", "Mon..Sat", "*-*-1..8", "*-*-25/2", "*-*~07/3"]),
    st.sampled_from(["*", "1..3", "0..5", "0/1", "2", "23,0,1"]),
    st.sampled_from(["*", "0", "0/15", "7,29,30,31", "59"]),
    st.sampled_from(CHANGES[:-1]),  # Monrovia's was not on a minute
)
def test_every_minute_around_a_clock_change(
    date: str, hours: str, minutes: str, change: tuple[str, str]
) -> None:
    """The search finds what looking at each minute finds, near and on the change."""
    rule = CalendarExpression.parse(f"{date} {hours}:{minutes}")
    zone = load_zone(change[0])
    changed_at = datetime.fromisoformat(change[1])
    start, end = changed_at - timedelta(hours=14), changed_at + timedelta(hours=14)

    found = find_occurrences(CalendarRule(rule, zone), start, end)

    assert find_by_force(rule, zone, start, end) == found


def test_the_last_years_raise_nothing() -> None:
    """Where datetime ends, rules end before."""
    zoned = CalendarRule(CalendarExpression.parse("*-*-* 0:0"), load_zone("Asia/Tokyo"))

    assert zoned.next_from(datetime(9989, 12, 30, tzinfo=UTC)) is not None
    assert zoned.next_from(datetime(9991, 1, 1, tzinfo=UTC)) is None
