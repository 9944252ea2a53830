"""The calendar counts what was decided, and foresees the rest, hour by hour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from actions.lease import record_tick
from actions.load.forecast import forecast_load
from actions.load.foresee import Whose
from models.operation_state import OperationState, Queue
from tests.database import read_by, write_by
from tests.integration.test_budget import counting
from tests.scheduling import (
    MINUTE,
    MONDAY,
    REFRESH,
    add_app,
    at,
    edit,
    edit_action,
    fetch_all,
    get_now,
    make_dispatcher,
    post,
    post_at,
    put,
    tick,
)
from web.calendar.fetch_calendar import Calendar, fetch_calendar
from web.calendar.local_days import CalendarHour
from web.charts import Outcome

FIRST = MONDAY.date()
_S = OperationState


@pytest.fixture(autouse=True)
def _apps(engine: sa.Engine) -> None:
    """Give every test two small apps."""
    add_app(engine)
    add_app(engine, "books")


def ask(engine: sa.Engine, **options: Any) -> Calendar:
    given = {"whose": Whose(), **options}
    zone = ZoneInfo(given.pop("zone", "UTC"))
    return read_by(engine, fetch_calendar, zone, given.pop("first", FIRST), **given)


def add(
    engine: sa.Engine, minutes: Iterable[int], state: _S = _S.SUCCEEDED, **changes: Any
) -> list[UUID]:
    """Record operations so many minutes after MONDAY, as if it was done then."""
    return [
        put(
            engine, number, state=state, recorded_at=MONDAY + number * MINUTE, **changes
        )
        for number in minutes
    ]


def get_hour(calendar: Calendar, day: int, hour: int) -> CalendarHour:
    return calendar.days[day].hours[hour]


def test_operations_count_in_the_hour_in_which_they_were_due(engine: sa.Engine):
    """By their state, whenever they ran."""
    add(engine, [0, 30, 59])
    add(engine, [7 * 60 + 1], _S.FAILED)
    add(engine, [24 * 60], _S.RUNNING)
    (late,) = add(engine, [60], _S.SKIPPED)
    edit(engine, late, recorded_at=at("09:00"))

    found = ask(engine)

    assert {_S.SUCCEEDED: 3} == get_hour(found, 0, 0).states
    assert {_S.SKIPPED: 1} == get_hour(found, 0, 1).states
    assert {_S.FAILED: 1} == get_hour(found, 0, 7).states
    assert {_S.RUNNING: 1} == get_hour(found, 1, 0).states
    assert 6 == found.count(*_S)
    assert [5, 1] == [sum(e.due for e in day.hours) for day in found.days[:2]]


def test_hours_are_those_of_the_zone(engine: sa.Engine):
    """Also of one whose clocks differ by less than an hour."""
    add(engine, [0])

    found = ask(engine, zone="Asia/Kathmandu")

    assert 1 == get_hour(found, 0, 5).due
    assert MONDAY - timedelta(minutes=45) == get_hour(found, 0, 5).starts_at


@pytest.mark.parametrize(
    ("states", "planned", "kind"),
    [
        ({}, 0, Outcome.NONE),
        ({}, 2, Outcome.PLANNED),
        ({_S.SUCCEEDED: 1}, 2, Outcome.SUCCEEDED),
        ({_S.SKIPPED: 1, _S.CANCELED: 1}, 0, Outcome.LEFT_OUT),
        ({_S.SUCCEEDED: 1, _S.PENDING: 1}, 0, Outcome.LIVE),
        ({_S.SUCCEEDED: 1, _S.MISSED: 1}, 0, Outcome.MIXED),
        ({_S.FAILED: 1, _S.QUEUED: 1}, 0, Outcome.FAILED),
        ({_S.FAILED: 1, _S.SKIPPED: 1}, 0, Outcome.FAILED),
        ({_S.FAILED: 1, _S.MISSED: 1}, 0, Outcome.FAILED),
        ({_S.MISSED: 1, _S.SKIPPED: 1}, 0, Outcome.MISSED),
    ],
)
def test_an_hour_is_told_by_the_worst_in_it(
    states: dict[_S, int], planned: int, kind: Outcome
):
    """In one word."""
    hour = CalendarHour(MONDAY, at("01:00"), 0, planned, Counter(states))

    assert kind is hour.kind


def test_what_was_missed_counts_where_it_was_due(engine: sa.Engine):
    """One row is a whole outage; each of its occurrences has its hour."""
    for name in ("one", "two"):
        post_at(engine, at("06:00"), name=name, when={"cron_rule": "*/20 * * * *"})
    post_at(engine, at("06:00"), name="after", when={"cron_rule": "0 9 * * *"})
    tick(make_dispatcher(engine), at("08:15"))
    for row in fetch_all(engine):
        edit(engine, row.id, recorded_at=at("08:15"))

    found = ask(engine)

    # the last five minutes are not missed: nothing was due in them
    missed = [get_hour(found, 0, hour).states[_S.MISSED] for hour in range(10)]
    assert [0, 0, 0, 0, 0, 0, 6, 6, 2, 0] == missed
    assert Outcome.MISSED is get_hour(found, 0, 8).kind
    assert at("06:00") == get_hour(found, 0, 8).missed_since
    assert not found.is_partial


def test_what_is_still_to_come_is_foreseen(engine: sa.Engine):
    """As ticks will find it, from the minute after the last one on."""
    now = get_now(engine)
    day = (now + timedelta(days=2)).date()
    post(engine, name="daily", when={"cron_rule": "30 7 * * *"})
    post(engine, name="often", when={"cron_rule": "*/20 7 * * *"})

    found = ask(engine, first=day)

    hour = get_hour(found, 0, 7)
    assert (4, Outcome.PLANNED) == (hour.planned, hour.kind)
    assert 28 == found.planned


def test_what_no_tick_has_decided_is_planned_also_if_it_is_past(engine: sa.Engine):
    """While nobody leads, nothing disappears between past and future."""
    now = get_now(engine)
    since = now - timedelta(hours=5)
    make_dispatcher(engine)
    write_by(engine, record_tick, since)
    uid = post_at(engine, since, when={"cron_rule": "* * * * *"})

    found = ask(engine, first=(now - timedelta(days=1)).date())

    hours = [hour for day in found.days for hour in day.hours]
    overdue = [each for each in hours if each.ends_at <= now]
    assert since.replace(second=0, microsecond=0) + MINUTE == found.planned_from
    assert sum(each.planned for each in overdue) >= 4 * 60 - 1
    edit_action(engine, uid, active=False)
    assert 0 == ask(engine, first=(now - timedelta(days=1)).date()).planned


@pytest.mark.parametrize("reach", [3, 9])
def test_what_the_load_knows_is_not_counted_again(engine: sa.Engine, reach: int):
    """The calendar is the same, as far as the load reaches and beyond."""
    now = get_now(engine)
    make_dispatcher(engine)
    since = (now - timedelta(hours=1)).replace(second=0, microsecond=0)
    write_by(engine, record_tick, since - MINUTE)
    post_at(engine, since, when={"cron_rule": "30 * * * *"})
    until = since + timedelta(days=min(reach, 7))
    load = read_by(engine, forecast_load, since=since, until=until)
    first = (now - timedelta(days=1 if reach > 7 else 0)).date()

    with counting(engine) as counts:
        expected = ask(engine, first=first)
    with counting(engine) as fewer:
        calendar = ask(engine, first=first, load=load)

    assert expected.planned > 20
    assert replace(expected, at=calendar.at) == calendar
    assert (reach > 7) == (fewer.statements < counts.statements)
    past = first - timedelta(days=7)
    assert ask(engine, first=past).planned == ask(engine, first=past, load=load).planned

    cut = replace(load, minutes=[], is_partial=True)
    assert not ask(engine, first=first, load=cut).is_partial
    assert expected.planned == ask(engine, first=first, load=cut).planned


def test_a_day_on_which_the_clocks_change_is_told(engine: sa.Engine):
    """With 25 hours, in each of which the rule is foreseen."""
    first = date(2031, 10, 26)
    post(engine, when={"cron_rule": "0 * * * *", "timezone": "Europe/Paris"})

    change, usual = ask(engine, first=first, zone="Europe/Paris").days[:2]

    assert change.change is not None
    assert "clocks go back from 03:00 to 02:00" in change.change.describe()
    assert usual.change is None
    assert [1] * 25 == [each.planned for each in change.hours]
    assert [2, 2] == [each.shown for each in change.hours[2:4]]


def test_only_what_was_asked_for_counts(engine: sa.Engine):
    """An app, a queue: of the past as of the future."""
    add(engine, [0], action_uid="a")
    add(engine, [0], action_uid="b", queue=Queue.HEAVY)
    add(engine, [0], action_uid="c", app="books")
    missed = add(engine, [1], _S.MISSED, action_uid="d", app="books")
    edit(engine, missed[0], finished_at=at("00:01"))
    day = (get_now(engine) + timedelta(days=2)).date()
    hook = {"call_webhook": {"url": "https://example.com/hook"}}
    post(engine, operations=hook)
    post(engine, name="refreshing", operations=REFRESH)
    post(engine, app="books", operations=hook)

    def count(**whose: Any) -> tuple[int, int]:
        asked = Whose(**whose)
        past = ask(engine, whose=asked)
        week = ask(engine, first=day, whose=asked).planned
        return past.count(*_S), week // 7

    assert (4, 3) == count()
    assert (2, 2) == count(app="app")
    assert (2, 1) == count(app="books")
    assert (3, 2) == count(queue=Queue.QUICK)
    assert (1, 1) == count(app="app", queue=Queue.HEAVY)


def test_time_is_bounded(engine: sa.Engine):
    """A week of thousands of rules must not take a minute."""
    post(engine)
    instants = iter([0.0, 100.0, 100.0])

    found = ask(
        engine,
        first=(get_now(engine) + timedelta(days=1)).date(),
        monotonic=lambda: next(instants),
    )

    assert found.is_partial
