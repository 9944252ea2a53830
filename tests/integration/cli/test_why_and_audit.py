"""Why something ran or did not, and whether the record is what the rules say."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from cli.connection import get_engine
from models.database.engine import db_now
from models.database.tables import operations, scheduled_action_revisions
from tests.database import execute
from tests.integration.cli.calling import Call, Post
from tests.scheduling import MINUTE, edit, edit_action, fetch_all

HOUR = timedelta(hours=1)

#: What others read; these names are contracts.
KEYS = {
    *("action_uid", "verdict", "text", "operation", "occurrence", "lag_s"),
    *("previous", "following"),
}


@pytest.fixture
def minutely(call: Call, post: Post) -> datetime:
    """
    Give the minute of the latest run of an action that is due each minute.

    It was posted an hour ago, and the first tick came just now: the older
    occurrences are missed, those of the window wait to be sent.
    """
    post(when={"cron_rule": "* * * * *"})
    engine, since = get_engine(), db_now(-HOUR)
    edit_action(engine, "hello", next_due_at=since, effective_from=since)
    then = dict.fromkeys(("effective_from", "recorded_at"), since)
    execute(engine, sa.update(scheduled_action_revisions).values(then))
    call("tick")
    latest: datetime = max(row.occurrence for row in fetch_all(engine))
    return latest


def test_why_a_run_waits(call: Call, minutely: datetime):
    """
    The answer names its operation, and one of what is to come the neighbours; that of a
    program has every key.
    """
    asked, later = ("why", "hello", "--at", minutely.isoformat()), minutely + HOUR
    (answer,) = call(*asked, "--json").data
    foreseen = call("why", "hello", "--at", later.isoformat())

    assert set(answer) >= KEYS
    assert ("hello", "waiting") == (answer["action_uid"], answer["verdict"])
    shown = call("operations", "show", answer["operation"], "--json").data
    assert minutely == datetime.fromisoformat(shown["occurrence"])
    assert answer["operation"] in call(*asked).out
    assert (0, True) == (foreseen.code, "will run" in foreseen.out)
    assert f"{later + MINUTE:%H:%M:%S}" in foreseen.out


def test_why_without_a_time_tells_the_last_run_and_the_next(
    call: Call, minutely: datetime
):
    """By the clock of the rule, so that one looks without counting hours."""
    last, *_, following = call("why", "hello", "--json").data

    assert ("waiting", "will run") == (last["verdict"], following["verdict"])
    shown = call("operations", "show", last["operation"], "--json").data
    assert minutely == datetime.fromisoformat(shown["occurrence"])
    (hour_ago,) = call("why", "hello", "--at", "-2h", "--json").data
    assert "not effective yet" == hour_ago["verdict"]


def test_why_without_a_time_tells_what_waits_for_its_time(
    call: Call, minutely: datetime
):
    """What was recorded for a later time, as after another action, is a next run."""
    engine = get_engine()
    (row,) = [each for each in fetch_all(engine) if each.occurrence == minutely]
    edit(engine, row.id, occurrence=db_now(25 * HOUR))

    told = call("why", "hello", "--json").data
    assert str(row.id) in {each["operation"] for each in told}


def test_audit_agrees_with_what_a_tick_recorded(call: Call, minutely: datetime):
    """
    Each minute of the hour has its decision: missed in one row, or a run of its own. A
    period after the last tick has no faults, and no decisions either.
    """
    since = (minutely - 2 * HOUR).isoformat()

    answer = call("audit", "--from", since, "--json")
    told = call("audit", "--app", "shop", "--from", since).out
    later = call("audit", "--from", "2999-01-01T00:00Z", "--json")

    assert (0, []) == (answer.code, answer.data) == (later.code, later.data)
    assert "1 action audited, 0 faults" in told
    assert "later occurrences are not decided yet" in later.err


def test_audit_finds_what_was_never_decided(call: Call, minutely: datetime):
    execute(
        get_engine(), sa.delete(operations).where(operations.c.occurrence == minutely)
    )
    until = (minutely + MINUTE).isoformat()
    asked = ("audit", "--app", "shop", "--until", until)

    answer = call(*asked, "--json")
    told = call(*asked)

    assert (1, 1) == (answer.code, told.code)
    (found,) = answer.data
    assert ("miss", "hello") == (found["fault"], found["action_uid"])
    assert minutely == datetime.fromisoformat(found["occurrence"])
    assert "1 action audited, 1 fault," in told.out
