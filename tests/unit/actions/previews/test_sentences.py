"""Rules read as sentences, and never say less than they mean."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.previews.clock_words import describe_calendar, describe_cron
from actions.previews.sentences import describe
from models.errors import RuleError
from models.when import (
    AfterActionModel,
    AfterEventModel,
    CalendarModel,
    CronModel,
    DueDateModel,
    EventModel,
    IntervalModel,
    OnEventModel,
    TimeModel,
    TimingModel,
)
from tests.unit.actions.rules import make_action

SEVEN = CronModel(cron_rule="0 7 * * 1", timezone="Europe/Paris")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("0 7 * * 1", "Mondays at 07:00"),
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("0,15,30,45 * * * *", "every 15 minutes"),
        ("0 * * * *", "every hour, on the hour"),
        ("17 * * * *", "every hour, at minute 17"),
        ("3-59/20 * * * *", "every hour, at minutes 3, 23 and 43"),
        ("30 */2 * * *", "every 2 hours, from 00:30 on"),
        (
            "*/15 9-17 * * MON-FRI",
            "every 15 minutes, from 09:00 to 17:45, Monday to Friday",
        ),
        ("0 0,8-18 * * *", "every hour, on the hour, during the hours 00 and 08 to 18"),
        ("5,10 3,4 * * *", "every day at 03:05, 03:10, 04:05 and 04:10"),
        ("0 9 1 * *", "on day 1 of the month at 09:00"),
        ("0 9 1,15 * *", "on days 1 and 15 of the month at 09:00"),
        ("0 9 */2 * *", "every 2 days of the month from day 1 on at 09:00"),
        ("0 9 L * *", "on the last day of the month at 09:00"),
        ("0 9 LW * *", "on the last weekday of the month at 09:00"),
        ("0 9 1,L * *", "on day 1 and the last day of the month at 09:00"),
        ("0 9 * * 5#2", "on the second Friday of the month at 09:00"),
        ("0 9 * * 5L", "on the last Friday of the month at 09:00"),
        ("0 9 25 12 *", "on 25 December at 09:00"),
        ("0 9 * 1,7 0,6", "Saturdays and Sundays in January and July at 09:00"),
        ("0 9 * 6-8 *", "every day in June to August at 09:00"),
        # both day fields: either is enough, unless one starts with a star
        ("0 9 13 * 5", "on day 13 of the month and also Fridays at 09:00"),
        ("0 9 25 12 5", "on day 25 of the month and also Fridays in December at 09:00"),
        (
            "0 9 */2 * 1",
            "every 2 days of the month from day 1 on, but only Mondays at 09:00",
        ),
        ("@weekly", "Sundays at 00:00"),
    ],
)
def test_cron_rule_reads_as_it_runs(rule: str, words: str) -> None:
    """Values are described, not their spelling."""
    assert words == describe_cron(rule)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("Mon..Fri *-*-* 09:00:00", "Monday to Friday at 09:00"),
        ("Mon,Wed..Fri 12:30", "Monday and Wednesday to Friday at 12:30"),
        ("daily", "every day at 00:00"),
        ("hourly", "every hour, on the hour"),
        ("*:0/15", "every 15 minutes"),
        ("*-12-25", "on 25 December at 00:00"),
        ("Mon *-7-1..7 9:00", "on 1 to 7 July, but only Mondays at 09:00"),
        ("*-*-1/10 9:00", "every 10 days of the month from day 1 on at 09:00"),
        # what has no words is quoted
        ("2026-12-25 10:00", "as the calendar rule '2026-12-25 10:00' says"),
        ("*-*~1 03:00", "as the calendar rule '*-*~1 03:00' says"),
        ("*:*:0/10", "as the calendar rule '*:*:0/10' says"),
    ],
)
def test_calendar_rule_reads_as_it_runs(rule: str, words: str) -> None:
    """Common shapes have words, the rest is quoted whole."""
    assert (words, None) == describe_calendar(rule)


@pytest.mark.parametrize(
    ("subject", "sentence"),
    [
        (SEVEN, "Mondays at 07:00, Europe/Paris"),
        (CalendarModel(calendar="9:00"), "Every day at 09:00, UTC"),
        (
            CalendarModel(calendar="Mon 9:00 Asia/Tokyo", timezone="Europe/Paris"),
            "Mondays at 09:00, Asia/Tokyo",
        ),
        (
            IntervalModel(every="PT24H", anchor="2026-01-01T00:00:00Z"),
            "Every 24 hours from 2026-01-01 00:00 UTC",
        ),
        (
            IntervalModel(
                every="P1M", anchor="2026-01-31T09:00", timezone="Europe/Paris"
            ),
            "Every month from 2026-01-31 09:00, Europe/Paris",
        ),
        (
            IntervalModel(every="PT90M"),
            "Every 1 hour and 30 minutes, counted from its creation",
        ),
        (
            IntervalModel(
                every="P2W", anchor="2026-10-01T16:00", timezone="Europe/Paris"
            ),
            "Every 2 weeks from Thursday 2026-10-01 16:00, Europe/Paris",
        ),
        (
            IntervalModel(every="P1WT12H", anchor="2026-10-01T16:00:00Z"),
            "Every 1 week and 12 hours from 2026-10-01 16:00 UTC",
        ),
        (IntervalModel(every="PT36H"), "Every 36 hours, counted from its creation"),
        (IntervalModel(every="P7D"), "Every 7 days, counted from its creation"),
        (
            IntervalModel(every="P1Y", anchor="2026-01-01T00:00:30Z"),
            "Every year from 2026-01-01 00:00:30 UTC",
        ),
        (
            DueDateModel(due_date="2026-12-01T09:00:00", timezone="Europe/Paris"),
            "Once, on Tuesday 1 December 2026 at 09:00, Europe/Paris",
        ),
        (
            DueDateModel(due_date="2026-12-01T09:00+01:00"),
            "Once, on Tuesday 1 December 2026 at 08:00, UTC",
        ),
        (OnEventModel(on="instance.user.created"), "When a user is created"),
        (OnEventModel(on="instance.user.last_seen"), "When a user is seen"),
        (OnEventModel(on="app.order"), "When the event app.order is sent for a user"),
        (AfterActionModel(after_action="nightly"), "After 'nightly' succeeded"),
        (
            AfterActionModel(after_action="nightly", on="end", delay="PT10M"),
            "10 minutes after 'nightly' ended",
        ),
        (
            AfterEventModel(after="instance.user.last_seen", delay="P7DT30S"),
            "7 days and 30 seconds after a user was last seen",
        ),
        (
            AfterEventModel(
                after="instance.user.last_seen",
                delay="P30D",
                at="09:00",
                timezone="Europe/Paris",
            ),
            "30 days after a user was last seen, at the next 09:00, Europe/Paris",
        ),
        (
            OnEventModel(on="app.order", at="09:00"),
            "When the event app.order is sent for a user, at the next 09:00, UTC",
        ),
        (
            AfterEventModel(after="app.order", delay="PT0S"),
            "0 seconds after the event app.order was sent for a user",
        ),
    ],
)
def test_every_kind_has_a_sentence(
    subject: TimeModel | EventModel, sentence: str
) -> None:
    """Each kind says when, and in which zone."""
    assert sentence == describe(subject)


def test_action_says_all_that_bounds_it() -> None:
    """Lists, bounds (of rules of several zones, so in UTC), excluded days, jitter."""
    action = make_action(
        [
            {"cron_rule": "0 7 * * 1", "timezone": "Europe/Paris"},
            {"cron_rule": "0 9 * * 5"},
        ],
        starts_at="2026-12-01T00:00:00Z",
        ends_at="2027-12-01T00:00:00Z",
        jitter="PT5M",
        **{
            "except": [
                "2026-12-21",
                {"from": "2026-12-24", "until": "2027-01-03"},
                {"calendar": "fr"},
            ]
        },
    )

    assert (
        "Mondays at 07:00, Europe/Paris; also Fridays at 09:00, UTC"
        "; not before 2026-12-01 00:00 UTC; until 2027-12-01 00:00 UTC"
        "; except 21 December 2026, 24 December 2026 to 3 January 2027"
        " and the days of 'fr'; up to 5 minutes later"
    ) == describe(action)


def test_bounds_are_told_by_the_clocks_of_the_rules() -> None:
    """As they were written: half past midnight in Paris is another day in UTC."""
    seven = {"cron_rule": "0 7 * * 1", "timezone": "Europe/Paris"}
    action = make_action(seven, ends_at="2027-07-01T00:30:00")

    assert describe(action).endswith("; until 2027-07-01 00:30 Europe/Paris")


def test_timing_counts_the_days_it_cannot_list() -> None:
    """A year of holidays is not read out."""
    days = tuple((date(2027, month, 1), date(2027, month, 1)) for month in range(1, 9))

    sentence = describe(TimingModel(when=(SEVEN,), excluded=days))

    assert sentence.endswith("1 May 2027 and 3 more")


@given(st.text(alphabet="0123456789*/-,#LW ", max_size=20))
def test_every_rule_that_is_accepted_has_words(rule: str) -> None:
    """Describing a rule fails only for what is none."""
    try:
        words = describe_cron(rule)
    except RuleError:
        return

    assert words
