"""Cron rules are read as crontab(5) says, and mistakes are explained."""

from __future__ import annotations

import pytest
from cronsim import CronSim
from hypothesis import example, given
from hypothesis import strategies as st

from models.errors import RuleError
from models.expressions.cron import CronExpression
from tests.unit.models.expressions.cron_rules import (
    START,
    cron_rules,
    find_error,
    words_like_rules,
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0 7 * * 1", "0 7 * * 1"),
        ("  0\t7  * * 1 ", "0 7 * * 1"),
        ("00 07 * * 01", "0 7 * * 1"),
        ("0 7 * JAN-Mar mon,fri", "0 7 * 1-3 1,5"),
        ("0 7 * * SUN-TUE", "0 7 * * 0-2"),
        ("0 7 * * mon#2", "0 7 * * 1#2"),
        ("0 7 l * 5l", "0 7 L * 5L"),
        ("0 7 lw * *", "0 7 LW * *"),
        ("*/5,7 0-12/3 5/10 * *", "*/5,7 0-12/3 5/10 * *"),
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        (" @Annually ", "0 0 1 1 *"),
    ],
)
def test_text_has_one_canonical_form(text: str, canonical: str):
    """Names, macros, capitals and blanks are spelling; the canonical text has none."""
    rule = CronExpression.parse(text)

    assert canonical == rule.canonical
    assert text == rule.text
    assert rule == CronExpression.parse(canonical)
    assert hash(rule) == hash(CronExpression.parse(canonical))


@pytest.mark.parametrize(
    ("text", "is_fixed"),
    [
        ("30 2 * * *", True),
        ("0-59 0-23 * * *", True),
        ("5,*/10 2 * * *", True),
        ("* 2 * * *", False),
        ("*/30 2 * * *", False),
        ("*,5 2 * * *", False),
        ("30 * * * *", False),
        ("30 */2 * * *", False),
        ("@hourly", False),
        ("@daily", True),
    ],
)
def test_star_at_the_start_makes_a_rule_follow_the_clock(text: str, *, is_fixed: bool):
    """What counts is the first character of the minute and the hour field."""
    assert is_fixed == CronExpression.parse(text).is_fixed


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        # Month of 31 days that starts on a Thursday.
        ("1 * *", [1]),
        ("* * 1", [5, 12, 19, 26]),
        ("* * 7", [4, 11, 18, 25]),
        ("* * 0", [4, 11, 18, 25]),
        ("* * 5-7", [2, 3, 4, 9, 10, 11, 16, 17, 18, 23, 24, 25, 30, 31]),
        ("13 * 5", [2, 9, 13, 16, 23, 30]),
        ("*/13 * 5", []),
        ("*/4 * 5", [9]),
        ("1-7 * */7", [4]),
        ("*,5 * 1", [5, 12, 19, 26]),
        ("5,* * 1-2", list(range(1, 32))),
        ("L * *", [31]),
        ("LW * *", [30]),
        ("1,L * *", [1, 31]),
        ("L * 1", [5, 12, 19, 26, 31]),
        ("* * 5L", [30]),
        ("* * 1L", [26]),
        ("* * 7L", [25]),
        ("* * 4#1,4#5", [1, 29]),
        ("* * 3#5", []),
        ("* * 7#2", [11]),
        ("10/10 * *", [10, 20, 30]),
        ("10-20/5 * *", [10, 15, 20]),
    ],
)
def test_days_of_a_month(days: str, expected: list[int]):
    """The day fields join by "or" unless one of them starts with a star."""
    mask = CronExpression.parse(f"0 0 {days}").day_mask(31, 3)

    assert expected == [day for day in range(32) if mask >> day & 1]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "61 * * * *",
            "has minute 61; minutes go from 0 to 59.",
            "Write a number from 0 to 59.",
        ),
        ("0 24 * * *", "has hour 24; hours go from 0 to 23.", "Midnight is hour 0."),
        ("0 0 0 * *", "has day of the month 0; days of the month go from 1 to 31.", ""),
        ("0 0 * 13 *", "has month 13; months go from 1 to 12.", ""),
        ("0 0 * * 8", "has day of the week 8; days of the week go from 0 to 7.", ""),
        ("0 7 * *", "has 4 fields; a cron rule has five.", "Write minute, hour"),
        ("* * * * * *", "has 6 fields; a cron rule has five.", "seconds: '* * * * *'."),
        ("0 0 7 * * 1 2027", "has 7 fields; a cron rule has five.", "Leave out"),
        ("0 7 * * 1 root /bin/true", "has 7 fields", "user and command: '0 7 * * 1'"),
        ("", "is empty.", "Write minute, hour"),
        ("   ", "is empty.", "Write minute, hour"),
        ("R * * * *", "random", "jitter"),
        ("H 7 * * *", "cron has no 'H'.", "jitter"),
        ("0 7 ? * 1", "cron has no '?'.", "Write '0 7 * * 1'."),
        ("0 7 15W * *", "the nearest working day is not supported.", "LW"),
        ("0 7 L-3 * *", "count days from the end", "*-*~04 07:00:00"),
        ("0 7 * * L", "needs its number.", "Write 5L"),
        ("0 7 * * 5-1", "runs backwards.", "Write '0 7 * * 5-6,0-1'."),
        ("0 22-2 * * *", "runs backwards.", "Write '0 22-23,0-2 * * *'."),
        ("*/0 * * * *", "has step 0 for minutes; a step is 1 or more.", "'*/5'"),
        ("*/90 * * * *", "has step 90 for minutes, of which there are 60.", "PT90M"),
        ("10-10/5 * * * *", "a range of one value has no steps.", "or 10/5"),
        ("0 0 * * 1#6", "numbers go from 1 to 5.", "'1L'"),
        ("0 0 * * 1#0", "numbers go from 1 to 5.", "'1L'"),
        ("0 0 30 2 *", "is never due: there is no day 30 in month 2.", "write L"),
        ("0 0 30,31 FEB *", "is never due: there is no day 30 in month 2.", "write L"),
        ("0 0 */31 * 1#2", "no date matches both of its day fields.", "both"),
        ("@reboot", "is due when a machine starts", "'@daily'"),
        ("@every 5m", "is not a cron rule.", "PT5M"),
        ("@dayly", "is not a macro of cron.", "Did you mean '@daily'?"),
        ("@x", "is not a macro of cron.", "@hourly"),
        ("@daily root", "has more than @daily in it.", "alone"),
        ("CRON_TZ=Europe/Paris 0 7 * * 1", "sets a time zone", "timezone"),
        ("0 7 * * MONDAY", "neither a number nor a name.", "Write '0 7 * * MON'."),
        ("0 7 * JNA *", "neither a number nor a name.", "Months are JAN to DEC"),
        ("JAN 7 * * *", "which is not a number.", "Minutes go from 0 to 59"),
        ("1,,2 * * * *", "has an empty minute in '1,,2'.", "comma"),
        ("-1 * * * *", "has '-1' as minute", "Minutes go from 0 to 59"),
        ("*-5 * * * *", "has '*-5' as minute", "Minutes go from 0 to 59"),
        ("1-5-7 * * * *", "has '1-5-7' as minute", "Minutes go from 0 to 59"),
        ("*/2/3 * * * *", "has '*/2/3' as minute", "Minutes go from 0 to 59"),
        ("0 0 L/2 * *", "has 'L/2' as day of the month", "Write L"),
        ("0 7 * * 1\0", "has the character '\\x00'.", "plain text"),
        ("0 7\n* * 1", "has the character '\\n'.", "Write '0 7 * * 1'."),
        ("0 7\N{NO-BREAK SPACE}* * 1", "has the character '\\xa0'.", "Write '0 7"),
        ("\N{ARABIC-INDIC DIGIT THREE} 7 * * 1", "has the character", "plain text"),
        ("0 7 * * 1" + " " * 1000, "is too long: 1009 characters.", "1000"),
        ("9" * 999 + " 7 * * 1", "is too long", "1000"),
        ("9" * 900 + " 7 * * 1", "minutes go from 0 to 59.", ""),
    ],
)
def test_mistake_is_refused_with_the_way_out(text: str, message: str, hint: str):
    """The message quotes the rule and says why; the hint what to write instead."""
    with pytest.raises(RuleError) as caught:
        CronExpression.parse(text)

    assert caught.value.message.startswith(repr(text[:60])[:60])
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "0 0 29 2 *",
        "0 0 29 2 */7",
        "0 0 * 2 MON#5",
        "0 0 30 2 1",
        "0 0 31 2,3 *",
        "0 0 31 * *",
        "0 0 L 2 *",
        ",".join(map(str, range(60))) + " * * * *",
    ],
)
def test_rare_date_is_no_mistake(text: str):
    """What comes once in 28 years still comes."""
    assert CronExpression.parse(text).is_ever_due()


@given(cron_rules())
def test_cronsim_reads_every_rule_we_read(text: str):
    """Nothing is accepted that the oracle refuses, names in any case included."""
    assert CronSim(CronExpression.parse(text).canonical, START)
    assert CronSim(text, START)


@given(words_like_rules())
@example("0 0 * * 0,0#1")
@example("*/1 1 1 1 1")
def test_whatever_is_written_is_read_or_refused(text: str):
    """Each text parses or raises RuleError; what parses, cronsim reads."""
    if find_error(text) is not None:
        return

    rule = CronExpression.parse(text)
    if not text.strip().startswith("@"):
        assert CronSim(text, START)
    assert rule == CronExpression.parse(rule.canonical)


@given(st.text())
def test_any_text_is_read_or_refused(text: str):
    """Arbitrary text raises RuleError, and its message stays short."""
    assert len(str(find_error(text))) < 600
