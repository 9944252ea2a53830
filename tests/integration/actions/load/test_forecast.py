"""The load that is coming is counted from the rules, as ticks will find it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
import sqlalchemy as sa

from actions.load.forecast import HOT_MINUTES, NAMED, AppLoad, Away, Load, forecast_load
from actions.occurrences import find_due, parse_timing
from actions.pausing.pause_and_resume import pause_action
from models.errors import NotFoundError, UsageError
from tests.database import fetch_rows, read_by, write_by
from tests.scheduling import MINUTE, REFRESH, add_app, edit_action, get_now, post

#: Long after all that is posted here takes effect: a Monday.
DAY = datetime(2031, 1, 6, tzinfo=UTC)
SEVEN = DAY + timedelta(hours=7)


@pytest.fixture(autouse=True)
def _apps(engine: sa.Engine) -> None:
    add_app(engine, "shop")
    add_app(engine, "books")


def forecast(engine: sa.Engine, **options: Any) -> Load:
    return read_by(engine, forecast_load, **{"since": DAY, **options})


def post_many(engine: sa.Engine, number: int, app: str = "shop", **given: Any) -> None:
    for each in range(number):
        name = f"{app} {given.get('jitter')} {each}"
        post(engine, app, name=name, uid=name.replace(" ", "-"), **given)


def test_minutes_and_queues_are_counted(engine: sa.Engine):
    """Those of a day, for a period without an end."""
    post_many(engine, 3)
    post_many(engine, 2, "books", operations=REFRESH)
    post(engine, name="hourly", when={"cron_rule": "0 * * * *"}, app="shop")

    found = forecast(engine)

    assert (6, DAY + timedelta(days=1)) == (found.actions, found.until)
    assert {"heavy": 2, "tasks": 27} == found.by_queue
    assert [AppLoad("shop", 27), AppLoad("books", 2)] == found.by_app
    assert 24 == len(found.minutes)
    (seven,) = [each for each in found.minutes if each.at == SEVEN]
    assert {"heavy": 2, "tasks": 4} == seven.by_queue
    assert not found.is_partial


def test_hot_minutes_say_who_makes_them(engine: sa.Engine):
    """The hottest first, with some of the actions by name."""
    post_many(engine, NAMED + 1)
    post_many(engine, 1, "books")
    post(engine, name="minutely", when={"cron_rule": "* * * * *"}, app="books")

    hottest, *others = forecast(engine).hot

    assert (SEVEN, NAMED + 3) == (hottest.at, hottest.total)
    assert {"shop": NAMED + 1, "books": 2} == hottest.by_app
    assert [f"shop None {number}" for number in range(NAMED)] == [
        each.name for each in hottest.actions
    ]
    assert HOT_MINUTES - 1 == len(others)
    assert ["minutely"] == [each.name for each in others[0].actions]


def test_jitter_is_where_the_tick_will_send_it(engine: sa.Engine):
    """Each action by its own minute, also around the bounds of the period."""
    post_many(engine, 40, jitter="PT50M", when={"cron_rule": "*/30 * * * *"})
    post_many(engine, 10, "books", jitter="PT20M", when={"cron_rule": "45 * * * *"})
    since, until = DAY + 10 * MINUTE, DAY + 100 * MINUTE

    found = forecast(engine, since=since, until=until)

    assert expect(engine, since, until) == {
        each.at: each.total for each in found.minutes
    }
    due = find_all_due(engine, since, until)
    for each in found.hot:
        assert each.total == sum(each.by_app.values())
        expected = {uid for minute, uid in due if minute == each.at}
        assert {action.uid for action in each.actions} <= expected
        assert min(NAMED, len(expected)) == len(each.actions)


def find_all_due(
    engine: sa.Engine, since: datetime, until: datetime
) -> list[tuple[datetime, str]]:
    """Return minute and uid of each occurrence, as ticks find them one by one."""
    last = until - timedelta.resolution
    rows = fetch_rows(engine, sa.text("select uid, timing from scheduled_actions"))
    return [
        (each.due_at.replace(second=0), uid)
        for uid, timing in rows
        for each in find_due(parse_timing(timing), uid, start=since, now=last)
    ]


def expect(engine: sa.Engine, since: datetime, until: datetime) -> dict[datetime, int]:
    """Return how many occurrences each minute has."""
    return Counter(minute for minute, _ in find_all_due(engine, since, until))


@pytest.mark.parametrize(
    "when",
    [
        {"calendar": "*-*-* *:0/7:0/20"},
        {"every": "PT11M"},
        [{"cron_rule": "*/7 * * * *"}, {"cron_rule": "*/5 1 * * *"}],
    ],
    ids=["calendar", "interval", "several"],
)
def test_all_kinds_are_counted_as_ticks_find_them(engine: sa.Engine, when: Any):
    """Also if they are due several times within a minute."""
    post_many(engine, 2, when=when)
    until = DAY + timedelta(hours=3)

    found = forecast(engine, until=until)

    assert expect(engine, DAY, until) == {e.at: e.total for e in found.minutes}


def test_what_is_not_foreseen_is_told(engine: sa.Engine):
    """Events come as they come; who is paused may be resumed."""
    post_many(engine, 4)
    post(engine, "shop", name="events", when={"on": "app.x"})
    write_by(engine, pause_action, "shop-None-0")
    edit_action(engine, "shop-None-1", timing='{"when": 1}')
    edit_action(engine, "shop-None-2", active=False)

    found = forecast(engine)

    assert {"events": 1, "paused": 1, "unreadable": 1} == found.left_out
    assert (1, 1) == (found.actions, found.total)


def test_tenant_sees_only_its_own(engine: sa.Engine):
    """Neither minutes, nor names, nor how many of others are left out."""
    post_many(engine, 1)
    post_many(engine, 3, "books")
    post(engine, "books", name="events", when={"on": "app.x"})

    found = forecast(engine, app="shop")

    assert ([AppLoad("shop", 1)], 1, {}) == (
        found.by_app,
        found.actions,
        found.left_out,
    )
    assert ["shop"] == [each.app for minute in found.hot for each in minute.actions]


SECONDLY = {"calendar": "*-*-* *:*:*"}
HOURLY = {"cron_rule": "0 * * * *"}
DISTANT = {"due_date": "2031-02-01T00:00:00"}


@pytest.mark.parametrize(
    ("many", "other", "patience", "days", "expected"),
    [
        # the rules that most actions have come first
        ({}, {"cron_rule": "* * * * *"}, 1.5, 1, (3, {"time": 1}, 3)),
        # a single rule is not waited for either
        ({"when": SECONDLY}, None, 5, 7, (0, {"time": 3}, 0)),
        # nor takes what is due each second time of others, though most have its rule
        ({"when": SECONDLY}, HOURLY, 5, 7, (1, {"time": 3}, 7 * 24)),
        # what is not due in the period is not looked at, but is among the counted
        ({"when": DISTANT}, HOURLY, 1.5, 1, (4, {}, 24)),
    ],
    ids=["most first", "one", "seconds last", "distant"],
)
def test_time_is_bounded_and_what_is_left_out_is_told(
    engine: sa.Engine,
    monkeypatch: pytest.MonkeyPatch,
    many: dict[str, Any],
    other: dict[str, str] | None,
    patience: float,
    *,
    days: int,
    expected: tuple[int, dict[str, int], int],
):
    """Each look at the clock takes a second."""
    post_many(engine, 3, **many)
    if other is not None:
        post(engine, "shop", name="other", when=other)
    monkeypatch.setattr("actions.load.foresee.PATIENCE", timedelta(seconds=patience))
    ticking: Callable[[], float] = count().__next__

    found = forecast(engine, until=DAY + timedelta(days=days), monotonic=ticking)

    assert expected == (found.actions, found.left_out, found.total)
    assert ("time" in expected[1]) == found.is_partial


def test_no_window_is_told_before_all_is_counted(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
):
    """What was not counted may be due in it."""
    post(engine, "shop", name="hourly", when=HOURLY)
    post(engine, "shop", name="other", when={"cron_rule": "* * * * *"})
    monkeypatch.setattr("actions.load.forecast.QUIET_PATIENCE", timedelta(seconds=1.5))
    ticking: Callable[[], float] = count().__next__

    found = forecast(engine, away=Away(timedelta(minutes=20)), monotonic=ticking)

    assert found.is_partial
    assert None is found.quiet


def test_whose_runs_an_absence_costs_is_told(engine: sa.Engine):
    """Those by jitter as well, each once; of all that are missed or late."""
    post_many(engine, 40, jitter="PT50M")
    post(engine, "shop", name="often", when={"cron_rule": "*/5 * * * *"})
    away = Away(20 * MINUTE, at=SEVEN)

    found = forecast(engine, away=away).quiet

    assert found is not None
    outage = found.outage
    named = [each.uid for each in outage.actions]
    due = find_all_due(engine, SEVEN, SEVEN + 20 * MINUTE)
    uids = {uid for _, uid in due}
    assert len(due) == outage.missed + outage.late
    assert sum(at < SEVEN + 16 * MINUTE for at, _ in due) == outage.missed
    assert set(named) <= uids
    assert len(named) == len(set(named)) == min(HOT_MINUTES, len(uids))


def test_what_is_past_is_counted_by_its_rules(engine: sa.Engine):
    """Whether or not an action is due again."""
    post_many(engine, 1, when=DISTANT)
    post(engine, "shop", name="other", when={"cron_rule": "0 0 * * *"})
    past = datetime(2025, 1, 6, tzinfo=UTC)

    found = forecast(engine, since=past)

    assert (2, 1) == (found.actions, found.total)


def test_it_begins_with_this_minute(engine: sa.Engine):
    now = get_now(engine)

    since = forecast(engine, since=None).from_

    assert now.replace(second=0, microsecond=0) <= since <= get_now(engine)


def test_unfit_periods_are_refused(engine: sa.Engine):
    with pytest.raises(UsageError, match="more than 7 days"):
        forecast(engine, until=DAY + timedelta(days=7, seconds=1))
    with pytest.raises(UsageError, match="not before"):
        forecast(engine, until=DAY)
    with pytest.raises(NotFoundError, match="Did you mean 'shop'"):
        forecast(engine, app="shopp")
