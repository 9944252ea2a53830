"""Minutes that are counted by days are those that the rule itself finds."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.load.days import Days
from actions.occurrences import parse_timing
from actions.when.searching import find_each

#: A week without a clock change, and weeks in which the clocks of a zone change.
WEEKS = [
    datetime(2026, 1, 28, 11, 17, tzinfo=UTC),
    datetime(2026, 3, 27, tzinfo=UTC),  # Europe
    datetime(2026, 10, 22, 22, 1, tzinfo=UTC),
    datetime(2026, 3, 6, 23, tzinfo=UTC),  # America/New_York
    datetime(2026, 10, 30, tzinfo=UTC),
    datetime(2026, 10, 3, tzinfo=UTC),  # Lord Howe: half an hour
    datetime(2026, 9, 4, tzinfo=UTC),  # Santiago: midnight does not exist
    datetime(2027, 2, 26, tzinfo=UTC),
    datetime(2024, 2, 27, tzinfo=UTC),
    datetime(2025, 12, 29, 12, tzinfo=UTC),
    datetime(2011, 12, 28, tzinfo=UTC),  # Apia left out a day
]
ZONES = [
    *("UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe"),
    *("America/Santiago", "Asia/Kathmandu", "Pacific/Apia"),
]
RULES = [
    *("* * * * *", "*/5 * * * *", "0 * * * *", "30 2 * * *", "0 0 * * *"),
    *("15,45 1-3 * * *", "30 */2 * * *", "5 0 1 * *", "0 7 L * *", "10 6 * * 1#1"),
    *("59 23 28,29,31 * 5", "20 4 13 2 1-5", "* 0 * 3,9,10 0", "0 0 29 2 *"),
]


def make_timing(rule: str, zone: str) -> str:
    return json.dumps(
        {"when": [{"cron_rule": rule, "timezone": zone}]}, separators=(",", ":")
    )


def find_one_by_one(timing: str, since: datetime, until: datetime) -> list[int]:
    found = find_each(parse_timing(timing), since, until)
    return [(each - since) // timedelta(minutes=1) for each in found]


@pytest.mark.parametrize("since", WEEKS, ids=str)
@pytest.mark.parametrize("zone", ZONES)
def test_each_rule_has_the_minutes_that_a_search_finds(zone: str, since: datetime):
    """
    In a week, also if the clocks change in it.
    """
    until = since + timedelta(days=7, minutes=3)
    days = Days(since, until)
    for rule in RULES:
        timing = make_timing(rule, zone)

        found = days.find_minutes(timing)

        assert found is not None
        assert find_one_by_one(timing, since, until) == sorted(found), rule


_FIELD = st.sampled_from(["*", "*/7", "0", "13", "1-5", "2,3"])


@given(
    st.sampled_from(ZONES),
    st.integers(0, 40 * 366 * 24 * 60),
    st.integers(1, 200 * 60),
    st.tuples(_FIELD, _FIELD, st.sampled_from(["*", "1", "15-20", "L"])),
)
def test_any_period_is_counted_exactly(
    zone: str, minutes: int, seconds: int, fields: tuple[str, str, str]
):
    """
    From a whole minute to any second, each minute once.
    """
    since = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    until = since + timedelta(seconds=seconds)
    timing = make_timing(" ".join([*fields, "* *"]), zone)

    found = Days(since, until).find_minutes(timing)

    assert found is not None
    assert find_one_by_one(timing, since, until) == sorted(found)


@pytest.mark.parametrize(
    "timing",
    [
        '{"when":[{"calendar":"*-*-* 07:00:00","timezone":"UTC"}]}',
        '{"jitter":"PT5M","when":[{"cron_rule":"0 7 * * *","timezone":"UTC"}]}',
        '{"when":[{"cron_rule":"@daily","timezone":"UTC"}]}',
        '{"when":[{"cron_rule":"0 7 31 2 *","timezone":"UTC"}]}',
        '{"when":[{"cron_rule":"0 7 * * *","timezone":"Europe/Pari"}]}',
        '{"when": 1}',
    ],
)
def test_what_is_not_plain_is_left_to_its_rule(timing: str):
    """
    Also what cannot be read, which the rule says better.
    """
    begin = WEEKS[0]

    assert Days(begin, begin + timedelta(days=1)).find_minutes(timing) is None
