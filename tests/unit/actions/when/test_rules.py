"""Each time kind has a rule, and each rule keeps what is promised of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args
from zoneinfo import ZoneInfo

import pytest

from actions.when import RULES
from models.when import CalendarModel, CronModel, DueDateModel, IntervalModel, TimeModel

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_every_time_kind_has_a_rule() -> None:
    """
    A kind that is added to the models and forgotten here fails this test.
    """
    assert set(get_args(TimeModel)) == set(RULES)


@pytest.mark.parametrize(
    "model",
    [
        CronModel(cron_rule="0 13 * * *", timezone="Europe/Paris"),
        CalendarModel(calendar="13:00", timezone="Europe/Paris"),
        DueDateModel(due_date="2026-11-21T13:00", timezone="Europe/Paris"),
        IntervalModel(every="PT1H", anchor="2026-11-21T13:00", timezone="Europe/Paris"),
    ],
)
def test_rules_keep_the_promise_that_callers_rely_on(model: TimeModel) -> None:
    """
    A rule includes the instant it is asked about, knows its zone and is hashable.
    """
    rule = RULES[type(model)](model)

    assert NOON == rule.next_from(NOON)
    assert ZoneInfo("Europe/Paris").key == rule.zone.key
    assert hash(rule) == hash(RULES[type(model)](model))
