"""Calendar rules as people write them; what systemd says is in test_calendar_oracle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import RuleError
from models.expressions.calendar import SHORTHANDS, CalendarExpression

EVERY_DAY = sum(1 << day for day in range(1, 32))


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("Mon..Fri 9:0", "Mon..Fri *-*-* 09:00:00"),
        ("sunday,MON 9:00", "Mon,Sun *-*-* 09:00:00"),
        ("Mon,Tue,Wed,Fri,Sat 1:0", "Mon..Wed,Fri,Sat *-*-* 01:00:00"),
        ("Mon, 9:00", "Mon *-*-* 09:00:00"),
        ("Mon-Fri", "Mon..Fri *-*-* 00:00:00"),
        ("12-25", "*-12-25 00:00:00"),
        ("26-1-1", "2026-01-01 00:00:00"),
        ("99-1-1", "1999-01-01 00:00:00"),
        ("5..5:0", "*-*-* 05:00:00"),
        ("*:*:1.0..2.5", "*-*-* *:*:01..02"),
        ("3,1,2,2:0", "*-*-* 01,02,03:00:00"),
        ("9:00 Europe/Paris", "*-*-* 09:00:00 Europe/Paris"),
        ("9:00   utc", "*-*-* 09:00:00 UTC"),
        ("Daily UTC", "*-*-* 00:00:00 UTC"),
        ("@86400", "1970-01-02 00:00:00 UTC"),
    ],
)
def test_text_is_normalized(text: str, normalized: str) -> None:
    """One rule has one text, that of systemd-analyze calendar."""
    assert normalized == str(CalendarExpression.parse(text))


def test_rules_with_the_same_text_are_equal() -> None:
    """Spellings of one rule share what is kept for it."""
    rule, same = (
        CalendarExpression.parse("daily"),
        CalendarExpression.parse("*-*-* 0:0:0"),
    )

    assert rule == same
    assert hash(rule) == hash(same)
    assert rule != CalendarExpression.parse("daily UTC")


def test_fields_are_written_out() -> None:
    """What finds occurrences needs no syntax any more."""
    rule = CalendarExpression.parse("2026..2030/2-1/6-* 9..11,20:0/20:30")

    assert (2026, 2028, 2030) == rule.years
    assert (1, 7) == rule.months
    assert EVERY_DAY == rule.days_in(2026, 1)
    assert (9, 10, 11, 20) == rule.hours
    assert (0, 20, 40) == rule.minutes
    assert (30,) == rule.seconds


@pytest.mark.parametrize(
    ("text", "year", "month", "days"),
    [
        ("*-*~01", 2026, 2, {28}),
        ("*-*~01", 2028, 2, {29}),
        ("*-*~03..05", 2026, 11, {26, 27, 28}),
        ("*-*~07/3", 2026, 12, {25, 28, 31}),
        ("*-*-31", 2026, 11, set()),
        ("*-*-29..31", 2028, 2, {29}),
        ("Mon *-*-1..7", 2026, 11, {2}),
        ("Mon *-*~07/1", 2026, 11, {30}),
        ("Sat,Sun", 2026, 2, {1, 7, 8, 14, 15, 21, 22, 28}),
    ],
)
def test_days_of_a_month(text: str, year: int, month: int, days: set[int]) -> None:
    """Days are counted from either end of the month, and weekdays choose among them."""
    mask = CalendarExpression.parse(text).days_in(year, month)

    assert days == {day for day in range(1, 32) if mask >> day & 1}


@pytest.mark.parametrize(
    ("text", "follows_clock"),
    [
        ("02:30", False),
        ("*:30", True),
        ("02:*", True),
        ("02:30:*", False),
        ("0/1:30", False),
        ("hourly", True),
        ("daily", False),
    ],
)
def test_a_star_in_hour_or_minute_follows_the_clock(
    text: str, *, follows_clock: bool
) -> None:
    """Only a star itself does; a repetition of all hours is a list of fixed times."""
    assert follows_clock is CalendarExpression.parse(text).follows_clock


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "is empty", "Mon..Fri"),
        (" 9:00", "spaces before or after", "'9:00'"),
        ("9" * 2000, "too many for a rule", "1000"),
        ("25:00", "hour 25; hours go from 0 to 23", "bounds"),
        ("9:60", "minute 60; minutes go from 0 to 59", "bounds"),
        ("9:00:60", "second 60; seconds go from 0 to 59", "bounds"),
        ("*-13-01", "month 13; months go from 1 to 12", "bounds"),
        ("*-*-32", "day 32; days go from 1 to 31", "bounds"),
        ("2200-01-01", "year 2200; years go from 1970 to 2199", "bounds"),
        ("*-*~29", "day before the end of the month 29", "bounds"),
        ("*:*/15", "'*/15' is not a valid minute.", "Write '0/15'"),
        ("9-17:00", "'9-17' is not a valid hour.", "'9..17'"),
        ("*:x", "'x' is not a valid minute.", "Write '*'"),
        ("9.5:00", "'9.5' is not a valid hour.", "Write '*'"),
        ("*:0/0", "step 0 for the minute", "'0/5'"),
        ("*:0/60", "step that is too large", "'0' alone"),
        ("22..6:00", "range that ends before it starts", "'22..23,0..6'"),
        ("*:*:00.5", "finer than a second", "without a fraction"),
        ("*:*:5..5", "range of less than a second", "'5' alone"),
        ("Sat..Mon", "run past Sunday", "'Sat,Sun,Mon'"),
        ("Fro 9:00", "'Fro' where a weekday is expected", "'Mon,Wed'"),
        ("Mon.. 9:00", "'Mon..' where a weekday is expected", "'Mon..Fri'"),
        ("Mon,,Tue", "'' where a weekday is expected", "'Mon..Fri'"),
        ("Mon Tue", "weekdays at its end, or separated", "'Mon,Tue 09:00'"),
        ("Mon daily", "'daily' where nothing more", "The order is"),
        ("9:00 10:00", "'10:00' where nothing more", "The order is"),
        ("2026-01-01T09:00", "is no", "Write"),
        ("9", "'9' where a date or a time is expected", "'9:00'"),
        ("1-2-3-4", "'1-2-3-4' where a date", "'*-12-24'"),
        ("1:2:3:4", "'1:2:3:4' where a time", "'09:00'"),
        ("9:00 Europe/Pari", "'Europe/Pari' is not a time zone", "'Europe/Paris'"),
        ("secondly", "'secondly' where a weekday is expected", "'Mon,Wed'"),
        ("@1.5", "not a number of seconds", "'@1796122800'"),
        ("@99999999999", "not a number of seconds", "'@1796122800'"),
        ("*-02-30", "never due", "last of February"),
        ("2027-02-29", "never due", "Check"),
        ("Mon 2026-12-01", "never due", "weekday"),
        ("\0", "where a date or a time is expected", "Write"),
        ("*:\u0665", "is not a valid minute", "Write"),
    ],
)
def test_what_is_no_rule_is_refused(text: str, message: str, hint: str) -> None:
    """The message has the value and why, the hint what to write instead."""
    with pytest.raises(RuleError) as caught:
        CalendarExpression.parse(text)

    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_rule_of_the_past_is_accepted() -> None:
    """It was due once; whether that is of use is not for the syntax to say."""
    assert (1999,) == CalendarExpression.parse("1999-12-31 23:59").years


@pytest.mark.parametrize("shorthand", SHORTHANDS)
def test_shorthands_are_written_in_normalized_form(shorthand: str) -> None:
    """The table says what systemd says."""
    assert SHORTHANDS[shorthand] == str(CalendarExpression.parse(shorthand))


@given(
    st.text(max_size=30)
    | st.text("0123456789*-~:,./@ MonTueSat", max_size=30)
    | st.lists(
        st.sampled_from(
            ["Mon", "Mon..Fri", "*-*-*", "2026-*~1", "9:00", "*:0/5", "daily", "UTC"]
        ),
        max_size=5,
    ).map(" ".join)
)
def test_parse_raises_nothing_but_rule_errors(text: str) -> None:
    """Whatever an author writes, the answer is a rule that reads back, or a message."""
    try:
        rule = CalendarExpression.parse(text)
    except RuleError:
        return

    assert rule == CalendarExpression.parse(str(rule))
