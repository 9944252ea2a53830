"""Each minute has what was due in it, whatever became of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from actions.lease import Leader
from models.database.tables import leaderships
from tests.database import execute, read_by
from tests.scheduling import (
    MINUTE,
    MONDAY,
    add_app,
    edit_action,
    get_now,
    post,
    put,
    tell_missed,
)
from web.now.fetch_minutes import Minutes, fetch_minutes


def fetch(engine: sa.Engine, **options: Any) -> Minutes:
    return read_by(engine, fetch_minutes, **options)


def put_at(engine: sa.Engine, number: int, at: datetime, **values: Any) -> None:
    """Record an operation that was due at an instant, and on time."""
    put(engine, number, **{"occurrence": at, "recorded_at": at, **values})


def find_past(found: Minutes) -> dict[datetime, Mapping[str, int]]:
    """Return the minutes that have more than plans."""
    return {at: each for at, each in found.counts.items() if set(each) - {"planned"}}


def test_operations_count_in_their_minute(engine: sa.Engine):
    """By state; what ran late counts when it was due, a backfill when it ran."""
    add_app(engine)
    this = get_now(engine).replace(second=0, microsecond=0)
    put_at(engine, 0, this - 5 * MINUTE, state="succeeded")
    put_at(engine, 1, this - 5 * MINUTE, state="failed")
    put_at(engine, 2, this - 5 * MINUTE, state="succeeded", recorded_at=this - MINUTE)
    ran = {"recorded_at": this - 2 * MINUTE, "state": "running"}
    put_at(engine, 3, this - timedelta(days=3), trigger="backfill", **ran)
    put_at(engine, 4, this - timedelta(hours=3), state="succeeded")

    found = fetch(engine)

    assert {
        this - 5 * MINUTE: {"succeeded": 2, "failed": 1},
        this - 2 * MINUTE: {"running": 1},
    } == find_past(found)
    assert found.since == found.counted_since


def test_missed_occurrences_count_one_by_one(engine: sa.Engine):
    """One row is for the whole outage; the rule says where they were."""
    add_app(engine)
    every = post(engine, uid="daily", when={"cron_rule": "*/5 * * * *"})
    now = get_now(engine)
    edit_action(engine, every.uid, next_due_at=None)
    first = now.replace(second=0, microsecond=0) - 30 * MINUTE
    first -= first.minute % 5 * MINUTE
    missed = tell_missed(first, first + 10 * MINUTE, count=3)
    put_at(engine, 0, first, finished_at=now, recorded_at=now, **missed)

    found = find_past(fetch(engine))

    assert {first + n * 5 * MINUTE: {"missed": 1} for n in range(3)} == found


def test_plans_reach_an_hour_ahead(engine: sa.Engine):
    """From the next minute on; what others plan is theirs."""
    add_app(engine)
    add_app(engine, "other")
    post(engine, when={"cron_rule": "* * * * *"})

    found, theirs = fetch(engine, app="app"), fetch(engine, app="other")

    planned = {at: each["planned"] for at, each in found.counts.items()}
    this = found.now.replace(second=0, microsecond=0)
    assert {this + n * MINUTE: 1 for n in range(1, 61)} == planned
    assert {} == theirs.counts


def test_too_many_are_counted_from_a_later_minute(engine: sa.Engine):
    """Which is told: an empty minute before it may not have been empty."""
    add_app(engine)
    this = get_now(engine).replace(second=0, microsecond=0)
    for number in range(3):
        put_at(engine, number, this - (9 - number) * MINUTE, state="succeeded")

    found = fetch(engine, most=2)

    assert this - 7 * MINUTE == found.counted_since
    assert {this - 8 * MINUTE, this - 7 * MINUTE} == set(find_past(found))


def test_time_without_leader_is_told(engine: sa.Engine):
    """Somebody led, and let go; nobody leads."""
    leader = Leader(engine)
    leader.hold()
    leader.release()
    execute(engine, sa.update(leaderships).values(released_at=MONDAY))

    (unled,) = fetch(engine).unled

    assert unled.until is None
