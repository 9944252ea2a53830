"""Pruning of operations, events and leases, on both databases."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast
from uuid import uuid4

import pytest
import sqlalchemy as sa

from models.database.tables import (
    backfills,
    bulk_changes,
    events,
    idempotency_keys,
    leases,
    operations,
    scheduled_action_revisions,
    scheduled_actions,
    sign_ins,
    small_apps,
)
from operations.adapters.prune import DatabasePrune
from operations.ports import Prunable
from tests import scheduling
from tests.database import execute, fetch_rows, note_walks
from tests.scheduling import DAY, HOUR, MINUTE

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
APP = "../Demo"

Row = dict[str, object]


@pytest.fixture(autouse=True)
def _app(engine: sa.Engine) -> None:
    """Give every test one small app."""
    execute(engine, small_apps.insert().values(uid=APP, name="Demo"))


def prune_all(
    engine: sa.Engine, kind: Prunable, before: datetime, *, batch: int
) -> list[int]:
    """Prune until nothing is left to be; return how many went in each batch."""
    prune, counts = DatabasePrune(engine).prune, [-1]
    while counts[-1] != 0:
        counts.append(prune(kind, before=before, limit=batch))
    return counts[1:]


def fetch_left(engine: sa.Engine, column: sa.Column[Any]) -> set[Any]:
    """Return what is left in a column."""
    return set(fetch_rows(engine, sa.select(column)).scalars())


def make_operation(at: datetime, state: str = "succeeded", **changes: object) -> Row:
    return {
        **scheduling.make_operation(action_uid="w", app=APP)._asdict(),
        "id": uuid4(),
        "state": state,
        **dict.fromkeys(("occurrence", "recorded_at", "send_at", "finished_at"), at),
        **changes,
    }


def add_action(engine: sa.Engine, uid: str = "w", **changes: object) -> None:
    given: Row = {"uid": uid, "name": uid, "app": APP, "zone": "UTC", "catch_up": "all"}
    given |= {"revision": 1, "document": {}, "active": True}
    given |= {"queue": "quick", "overlap": "allow"}
    given |= dict.fromkeys(("effective_from", "created_at", "updated_at"), NOW)
    execute(engine, scheduled_actions.insert().values({**given, **changes}))


def add_revisions(engine: sa.Engine, days: Sequence[int], **changes: object) -> None:
    """Add the revisions from the first on, recorded so many days ago."""
    given = {"uid": "w", "document": {}, "active": True, "effective_from": NOW}
    for number, age in enumerate(days, start=1):
        row = {**given, "revision": number, "recorded_at": NOW - age * DAY}
        row["change"] = changes.get(f"of_{number}", "replaced")
        execute(engine, scheduled_action_revisions.insert().values(row))


def test_operations_go_unless_their_occurrence_could_come_again(engine: sa.Engine):
    """Old final rows; not live or young ones, or what the next tick looks at."""
    old, young = NOW - 60 * DAY, NOW - DAY
    kept = [
        make_operation(young),
        make_operation(old, "running", finished_at=None),
        make_operation(old, "failed", finished_at=young),
        make_operation(old, action_uid="behind"),
    ]
    gone = [
        make_operation(old),
        make_operation(old - DAY, "missed", finished_at=None),
        make_operation(old, occurrence=None),
        make_operation(old - DAY, action_uid="behind"),
        make_operation(old, action_uid="deleted"),
    ]
    add_action(engine, next_due_at=NOW)
    add_action(engine, "behind", next_due_at=old)
    add_action(engine, "deleted", next_due_at=old, deleted_at=NOW)
    execute(engine, operations.insert(), kept + gone)

    assert [3, 2, 0] == prune_all(engine, "operations", NOW - 30 * DAY, batch=3)
    assert {each["id"] for each in kept} == fetch_left(engine, operations.c.id)


def test_what_is_due_more_often_than_each_minute_goes_sooner(engine: sa.Engine):
    """
    Of such tasks what the rule made; not a run that somebody asked for, and nothing of
    an action that is due each minute, or that cannot be read.
    """
    old = NOW - 2 * DAY
    timings = {
        "second": '{"when":[{"every":"PT1S","anchor":"2026-01-01T00:00:00Z"}]}',
        "minute": '{"when":[{"cron_rule":"* * * * *","timezone":"UTC"}]}',
        "unreadable": '{"when":[{"cron_rule":"* * * * *","timezone":"Gone"}]}',
    }
    gone = make_operation(old, action_uid="second")
    kept = [
        make_operation(old, action_uid="second", trigger="manual"),
        make_operation(NOW, action_uid="second"),
        make_operation(old, action_uid="minute"),
        make_operation(old, action_uid="unreadable"),
    ]
    for uid, timing in timings.items():
        add_action(engine, uid, queue="tasks", timing=timing, next_due_at=NOW)
    execute(engine, operations.insert(), [gone, *kept])

    counts = prune_all(engine, "operations_below_minute", NOW - DAY, batch=9)

    assert [1, 0] == counts
    assert {each["id"] for each in kept} == fetch_left(engine, operations.c.id)


def test_events_go_unless_an_action_waits_for_them(engine: sa.Engine):
    """An event stays for the longest delay that an action adds to it."""
    ages = {"seen": 60, "seen-older": 100, "created": 60, "created-young": 5}
    add_action(engine, event="seen", delay="P2M")
    for user_id, age in ages.items():
        row: Row = {"id": uuid4(), "app": APP, "name": user_id.partition("-")[0]}
        row |= dict.fromkeys(("at", "recorded_at"), NOW - age * DAY)
        execute(engine, events.insert().values(user_id=user_id, **row))

    assert [2, 0] == prune_all(engine, "events", NOW - 30 * DAY, batch=10)
    assert {"seen", "created-young"} == fetch_left(engine, events.c.user_id)


def test_dead_leases_go_and_the_fence_stays(engine: sa.Engine):
    """The scheduler's own lease is never removed: its fence must not start again."""
    rows = [
        {"name": "scheduler", "expires_at": NOW - DAY, "fence": 7},
        {"name": "dead", "expires_at": NOW - DAY, "fence": 1},
        {"name": "live", "expires_at": NOW + DAY, "fence": 1},
    ]
    execute(engine, leases.insert(), rows)

    assert 1 == DatabasePrune(engine).prune_leases(before=NOW)
    assert {"scheduler", "live"} == fetch_left(engine, leases.c.name)


def test_revisions_go_unless_something_needs_them(engine: sa.Engine):
    """Kept: the current, that in force at the time, those of operations, and pauses."""
    add_action(engine)
    add_revisions(engine, [90, 80, 70, 60, 50, 40, 20, 10], of_5="paused")
    execute(engine, operations.insert().values(make_operation(NOW, action_revision=3)))

    assert [2, 1, 0] == prune_all(engine, "revisions", NOW - 30 * DAY, batch=2)
    left = fetch_left(engine, scheduled_action_revisions.c.revision)
    assert {3, 5, 6, 7, 8} == left


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_batch_of_revisions_is_looked_up(engine: sa.Engine):
    """Nobody walks all revisions to remove those that are known by their keys."""
    add_action(engine)
    add_revisions(engine, [60] * 3)
    walked = note_walks(engine)

    assert 2 == DatabasePrune(engine).prune("revisions", before=NOW, limit=9)
    assert scheduled_action_revisions.name not in walked


def test_answers_go_when_nobody_asks_for_them_again(engine: sa.Engine):
    """The oldest first, in batches."""
    ages = {"a": 48, "b": 30, "c": 25, "d": 23, "e": 0}
    rows = [{"key": key, "created_at": NOW - age * HOUR} for key, age in ages.items()]
    same = {"caller": "key x", "request": "digest"}
    execute(engine, idempotency_keys.insert(), [row | same for row in rows])

    assert [2, 1, 0] == prune_all(engine, "answers", NOW - 24 * HOUR, batch=2)
    assert {"d", "e"} == fetch_left(engine, idempotency_keys.c.key)


def test_sign_ins_go_when_they_have_expired(engine: sa.Engine):
    """Links and sessions alike, used or not."""
    same = {"role": "viewer", "created_at": NOW - HOUR}
    rows = [
        {"digest": f"{kind} {age}", "kind": kind, "expires_at": NOW - age * MINUTE}
        for kind in ("link", "session")
        for age in (2, 1, -1)
    ]
    execute(engine, sign_ins.insert(), [row | same for row in rows])

    assert [3, 1, 0] == prune_all(engine, "sign_ins", NOW, batch=3)
    assert {"link -1", "session -1"} == fetch_left(engine, sign_ins.c.digest)


@pytest.mark.parametrize("table", [bulk_changes, backfills], ids=lambda t: t.name)
def test_requests_go_when_they_ended_long_ago(engine: sa.Engine, table: sa.Table):
    """Not those that are still under way, however old they are."""
    same: Row = {"requested_by": "ada", "created_at": NOW - 5 * DAY, "total": 1}
    if table is bulk_changes:
        same |= {"kind": "cancel", "filter": {}}
    else:
        same |= {"app": "shop", "action_uid": "a", "which": "all", "at_once": 1}
        same |= {"from_at": NOW - 9 * DAY, "until_at": NOW - 8 * DAY}
    ids = {name: uuid4() for name in ("older", "old", "new", "open")}
    ends = {"older": NOW - 4 * DAY, "old": NOW - 3 * DAY, "new": NOW, "open": None}
    rows = [{**same, "id": ids[name], "finished_at": ends[name]} for name in ids]
    execute(engine, table.insert(), rows)

    counts = prune_all(engine, cast("Prunable", table.name), NOW - DAY, batch=1)

    assert [1, 1, 0] == counts
    assert {ids["new"], ids["open"]} == fetch_left(engine, table.c.id)
