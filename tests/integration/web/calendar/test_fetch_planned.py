"""What is planned in a short time names the actions that are due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from actions.load.foresee import Whose
from models.errors import UsageError
from tests.database import read_by
from tests.scheduling import MINUTE, add_app, get_now, post
from web.calendar.fetch_calendar import MOST, Planned, list_planned

DAY = datetime(2031, 1, 6, tzinfo=UTC)
SEVEN = DAY + timedelta(hours=7)


@pytest.fixture(autouse=True)
def _apps(engine: sa.Engine) -> None:
    """Give every test two small apps."""
    add_app(engine, "shop")
    add_app(engine, "books")


def ask(engine: sa.Engine, **options: Any) -> Planned:
    whose = options.pop("whose", Whose())
    return read_by(engine, list_planned, whose, **{"since": SEVEN, **options})


def test_each_minute_names_what_is_due_in_it(engine: sa.Engine):
    """In order, also what jitter put there."""
    post(engine, "shop", name="daily")
    post(engine, "books", name="often", when={"cron_rule": "*/20 * * * *"})
    post(engine, "shop", name="late", jitter="PT50M")

    found = ask(engine)

    named = {
        each.at: {action.name for action in each.actions} for each in found.minutes
    }
    (late_at,) = [at for at, names in named.items() if "late" in names]
    assert {"daily", "often"} <= named[SEVEN]
    assert {"often"} <= named[SEVEN + 20 * MINUTE]
    assert sorted(named) == list(named)
    assert SEVEN <= late_at <= SEVEN + 50 * MINUTE
    assert (5, True) == (found.total, found.is_whole)


def test_many_are_named_as_far_as_there_is_room(engine: sa.Engine):
    """The first of them; the rest is counted."""
    for number in range(5):
        name = f"often {number}"
        post(engine, "shop", name=name, when={"cron_rule": "* * * * *"})

    found = ask(engine)

    assert MOST == sum(len(each.actions) for each in found.minutes)
    assert (300, False) == (found.total, found.is_whole)


def test_what_was_decided_is_not_planned(engine: sa.Engine):
    """It is in the list of operations."""
    post(engine, "shop", when={"cron_rule": "* * * * *"})
    now = get_now(engine)

    past = ask(engine, since=now - timedelta(hours=3), until=now - timedelta(hours=2))
    around = ask(engine, since=now - timedelta(hours=3), until=now + timedelta(hours=1))

    assert (0, [], True) == (past.total, past.minutes, past.is_whole)
    assert around.since >= now.replace(second=0, microsecond=0)
    assert 58 <= around.total <= 61


def test_unfit_periods_are_refused(engine: sa.Engine):
    """A day is the most."""
    with pytest.raises(UsageError, match="up to a day"):
        ask(engine, until=SEVEN + timedelta(days=1, minutes=1))
    with pytest.raises(UsageError, match="up to a day"):
        ask(engine, until=SEVEN)
