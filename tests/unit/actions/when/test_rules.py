"""Each time kind has a rule, and each rule keeps what is promised of it."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.when import RULES
from actions.when.cron import make_cron_rule
from actions.when.rule import Rule
from actions.when.searching import find_occurrences
from models.fields.zone import get_zone_names
from models.when import (
    CalendarModel,
    CronModel,
    DueDateModel,
    IntervalModel,
    TimeModel,
    WorkingDayModel,
)
from tests.unit.actions.when.zoned_rules import calendar_rules, instants, interval_rules
from tests.unit.models.expressions.cron_rules import cron_rules

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_every_time_kind_has_a_rule() -> None:
    """A kind that is added to the models and forgotten here fails this test."""
    assert set(get_args(TimeModel)) == {*RULES}


MODELS = [
    CronModel(cron_rule="0 13 * * *", timezone="Europe/Paris"),
    CalendarModel(calendar="13:00", timezone="Europe/Paris"),
    DueDateModel(due_date="2026-11-20T13:00", timezone="Europe/Paris"),
    IntervalModel(every="PT1H", anchor="2026-11-20T13:00", timezone="Europe/Paris"),
    WorkingDayModel(working_day=15, at="13:00", timezone="Europe/Paris"),
]

EACH_KIND = pytest.mark.parametrize("model", MODELS)


def test_every_time_kind_is_tried_here() -> None:
    """A kind that is added has a model among those of the tests below."""
    assert set(RULES) == {type(model) for model in MODELS}


@EACH_KIND
def test_rules_keep_the_promise_that_callers_rely_on(model: TimeModel) -> None:
    """A rule includes the instant it is asked about, knows its zone and is hashable."""
    rule = RULES[type(model)](model)

    assert NOON == rule.next_from(NOON)
    assert ZoneInfo("Europe/Paris").key == rule.zone.key
    assert hash(rule) == hash(RULES[type(model)](model))


@EACH_KIND
def test_rules_can_be_read_in_another_zone(model: TimeModel) -> None:
    """13:00 is 13:00 there, as if its author had written it for that zone."""
    tokyo = ZoneInfo("Asia/Tokyo")
    one_in_tokyo = datetime(2026, 11, 20, 4, tzinfo=UTC)

    rule = RULES[type(model)](model).in_zone(tokyo)

    assert one_in_tokyo == rule.next_from(one_in_tokyo)
    assert tokyo == rule.zone


@pytest.mark.parametrize(
    "model",
    [
        DueDateModel(due_date="2026-11-20T12:00Z", timezone="Europe/Paris"),
        IntervalModel(every="P1M", anchor="2026-11-20T12:00Z", timezone="Europe/Paris"),
    ],
)
def test_instants_are_the_same_in_every_zone(model: TimeModel) -> None:
    """What was written with its offset does not move with the zone."""
    rule = RULES[type(model)](model).in_zone(ZoneInfo("Asia/Tokyo"))

    assert NOON == rule.next_from(NOON)


@given(
    cron_rules().flatmap(
        lambda rule: st.sampled_from(sorted(get_zone_names())).map(
            lambda zone: make_cron_rule(CronModel(cron_rule=rule, timezone=zone))
        )
    )
    | interval_rules
    | calendar_rules
    | st.sampled_from(MODELS).map(lambda model: RULES[type(model)](model)),
    instants,
    instants,
)
def test_answers_are_the_first_and_in_order(
    rule: Rule, one: datetime, other: datetime
) -> None:
    """
    Each is the first from any instant before it, later than the one before it, and who
    asks later never gets an earlier one.
    """
    earlier, later = sorted((one, other))
    found = find_occurrences(rule, earlier, datetime(9990, 1, 1, tzinfo=UTC), limit=30)
    second = rule.next_from(later)

    assert sorted(set(found)) == found
    assert second is None or found[0] <= second
    for before, due_at in pairwise([earlier, *found]):
        assert before <= due_at
        assert not due_at.microsecond
        assert due_at == rule.next_from(due_at)
        assert due_at == rule.next_from(before + (due_at - before) / 2)
