"""What became of an action on each day, from both databases."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from tests.database import read_by
from tests.scheduling import (
    MINUTE,
    MONDAY,
    add_app,
    edit_action,
    post,
    put,
    tell_missed,
)
from web.actions.fetch_days import ActionDays, Missed, fetch_action_days

PARIS = ZoneInfo("Europe/Paris")
#: A Wednesday.
NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
TODAY = NOW.date()

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def _action(engine: sa.Engine) -> None:
    """Give every test an action that is read in Paris."""
    add_app(engine)
    post(engine, uid="daily", when={"cron_rule": "0 2 * * *", "timezone": PARIS.key})


def ask(engine: sa.Engine, **options: Any) -> ActionDays:
    return read_by(engine, fetch_action_days, "daily", now=NOW, **options)


def record(engine: sa.Engine, occurrence: datetime, **values: Any) -> UUID:
    minutes = (occurrence - MONDAY) // MINUTE
    given = {"state": "succeeded", "occurrence": occurrence, **values}
    return put(engine, minutes, **given)


def count(found: ActionDays) -> dict[date, dict[str, int]]:
    """Return the days that have anything."""
    return {day: dict(counts) for day, counts in found.days if counts}


def begin_of(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=PARIS).astimezone(UTC)


def test_days_are_those_of_the_zone_of_the_rule(engine: sa.Engine):
    """A run at half past midnight in Paris is of that day, though not yet in UTC."""
    begin = begin_of(TODAY - 3 * DAY)
    record(engine, begin + HOUR / 2)
    record(engine, begin + 2 * HOUR, state="failed")
    record(engine, begin - HOUR / 2)

    found = ask(engine)

    assert {
        TODAY - 3 * DAY: {"succeeded": 1, "failed": 1},
        TODAY - 4 * DAY: {"succeeded": 1},
    } == count(found)
    assert ("Europe/Paris", True, TODAY) == (
        found.zone.key,
        found.is_whole,
        found.days[-1][0],
    )


def test_weeks_begin_on_monday_and_end_today(engine: sa.Engine):
    """So that a week is a column; what was before is not counted."""
    first = TODAY - TODAY.weekday() * DAY - 12 * 7 * DAY
    record(engine, begin_of(first))
    record(engine, begin_of(first) - HOUR)

    found = ask(engine)

    assert (0, first, {first: {"succeeded": 1}}) == (
        found.days[0][0].weekday(),
        found.days[0][0],
        count(found),
    )


def test_an_outage_is_on_each_of_its_days(engine: sa.Engine):
    """There is one row for it, which has the first occurrence."""
    first = begin_of(TODAY - 5 * DAY) + 2 * HOUR
    last = begin_of(TODAY - 3 * DAY) + 2 * HOUR
    outage = tell_missed(first, last, count=3)
    made = record(engine, first, **outage, finished_at=last + HOUR)

    found = ask(engine)

    assert {TODAY - n * DAY: {"missed": 1} for n in (5, 4, 3)} == count(found)
    missed = Missed(3, is_more=False, first=first, last=last, operation_id=made)
    assert (missed,) == found.missed


def test_an_outage_that_began_before_is_not_forgotten(engine: sa.Engine):
    """Its row is before the first day, and reaches into the first days."""
    monday = TODAY - TODAY.weekday() * DAY - 12 * 7 * DAY
    first, last = begin_of(monday) - DAY, begin_of(monday) + HOUR
    missed = tell_missed(first, last, count=2)
    record(engine, first, **missed, finished_at=last + HOUR)

    found = ask(engine)

    assert ({monday: {"missed": 1}}, 1) == (count(found), len(found.missed))


def test_no_more_are_counted_than_is_quick(engine: sa.Engine):
    """It is told from which day they were counted: no day is counted in part."""
    for number in range(4):
        record(engine, begin_of(TODAY - number * DAY) + HOUR)

    found = ask(engine, most=2)

    assert (False, begin_of(TODAY)) == (found.is_whole, found.counted_from)
    assert {TODAY: {"succeeded": 1}} == count(found)


def test_a_rule_that_cannot_be_read_is_read_in_utc(engine: sa.Engine):
    """Its days are told all the same."""
    edit_action(engine, "daily", timing='{"when":[{"timezone":"Mars/Base"}]}')

    assert "UTC" == ask(engine).zone.key
