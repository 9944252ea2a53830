"""Pruning of operations, events and leases, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
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

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
APP = "../Demo"


@pytest.fixture
def engine(engine: sa.Engine) -> sa.Engine:
    """Give a database with one small app."""
    execute(engine, small_apps.insert().values(uid=APP, name="Demo"))
    return engine


def fetch_left(engine: sa.Engine, column: sa.Column[Any]) -> set[Any]:
    """Return what is left in a column."""
    return set(fetch_rows(engine, sa.select(column)).scalars())


def make_operation(
    at: datetime, state: str = "succeeded", **changes: object
) -> dict[str, object]:
    return {
        **scheduling.make_operation(action_uid="w", app=APP)._asdict(),
        "id": uuid4(),
        "state": state,
        **dict.fromkeys(("occurrence", "recorded_at", "send_at", "finished_at"), at),
        **changes,
    }


def make_action(uid: str, **changes: object) -> dict[str, object]:
    return {
        "uid": uid,
        "app": APP,
        "name": uid,
        "revision": 1,
        "document": {},
        "active": True,
        "queue": "quick",
        "overlap": "allow",
        "zone": "UTC",
        "catch_up": "all",
        "effective_from": NOW,
        "created_at": NOW,
        "updated_at": NOW,
        **changes,
    }


def test_operations_go_unless_their_occurrence_could_come_again(engine: sa.Engine):
    """Old final rows; not live or young ones, or what the next tick looks at."""
    day = timedelta(days=1)
    old, young, before = NOW - 60 * day, NOW - day, NOW - 30 * day
    kept = [
        make_operation(young),
        make_operation(old, "running", finished_at=None),
        make_operation(old, "failed", finished_at=young),
        make_operation(old, action_uid="behind"),
    ]
    gone = [
        make_operation(old),
        make_operation(old - day, "missed", finished_at=None),
        make_operation(old, occurrence=None),
        make_operation(old - day, action_uid="behind"),
        make_operation(old, action_uid="deleted"),
    ]
    with engine.begin() as connection:
        connection.execute(
            scheduled_actions.insert(),
            [
                make_action("w", next_due_at=NOW, deleted_at=None),
                make_action("behind", next_due_at=old, deleted_at=None),
                make_action("deleted", next_due_at=old, deleted_at=NOW),
            ],
        )
        connection.execute(operations.insert(), kept + gone)
    prune = DatabasePrune(engine).prune

    counts = [prune("operations", before=before, limit=3) for _ in range(3)]

    left = fetch_left(engine, operations.c.id)
    assert [3, 2, 0] == counts
    assert {each["id"] for each in kept} == left


def test_what_is_due_more_often_than_each_minute_goes_sooner(engine: sa.Engine):
    """
    Of such tasks what the rule made; not a run that somebody asked for, and nothing of
    an action that is due each minute, or that cannot be read.
    """
    old = NOW - timedelta(days=2)
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
    with engine.begin() as connection:
        connection.execute(
            scheduled_actions.insert(),
            [
                make_action(uid, queue="tasks", timing=timing, next_due_at=NOW)
                for uid, timing in timings.items()
            ],
        )
        connection.execute(operations.insert(), [gone, *kept])
    prune, before = DatabasePrune(engine).prune, NOW - timedelta(days=1)

    counts = [
        prune("operations_below_minute", before=before, limit=9) for _ in range(2)
    ]

    left = fetch_left(engine, operations.c.id)
    assert [1, 0] == counts
    assert {each["id"] for each in kept} == left


def test_events_go_unless_an_action_waits_for_them(engine: sa.Engine):
    """An event stays for the longest delay that an action adds to it."""
    day = timedelta(days=1)
    ages = {"seen": 60, "seen-older": 100, "created": 60, "created-young": 5}
    with engine.begin() as connection:
        connection.execute(
            scheduled_actions.insert().values(
                make_action("w", event="seen", delay="P2M", deleted_at=None)
            )
        )
        connection.execute(
            events.insert(),
            [
                {
                    "id": uuid4(),
                    "app": APP,
                    "name": name.partition("-")[0],
                    "user_id": name,
                    "at": NOW - age * day,
                    "recorded_at": NOW - age * day,
                }
                for name, age in ages.items()
            ],
        )

    count = DatabasePrune(engine).prune("events", before=NOW - 30 * day, limit=10)

    left = fetch_left(engine, events.c.user_id)
    assert 2 == count
    assert {"seen", "created-young"} == left


def test_dead_leases_go_and_the_fence_stays(engine: sa.Engine):
    """The scheduler's own lease is never removed: its fence must not start again."""
    day = timedelta(days=1)
    execute(
        engine,
        leases.insert(),
        [
            {"name": "scheduler", "expires_at": NOW - day, "fence": 7},
            {"name": "dead", "expires_at": NOW - day, "fence": 1},
            {"name": "live", "expires_at": NOW + day, "fence": 1},
        ],
    )

    count = DatabasePrune(engine).prune_leases(before=NOW)

    left = fetch_left(engine, leases.c.name)
    assert (1, {"scheduler", "live"}) == (count, left)


def test_revisions_go_unless_something_needs_them(engine: sa.Engine):
    """Kept: the current, that in force at the time, those of operations, and pauses."""
    day = timedelta(days=1)
    ages = {1: 90, 2: 80, 3: 70, 4: 60, 5: 50, 6: 40, 7: 20, 8: 10}
    changes = {5: "paused"}
    with engine.begin() as connection:
        connection.execute(scheduled_actions.insert().values(make_action("w")))
        for number, age in ages.items():
            connection.execute(
                scheduled_action_revisions.insert().values(
                    uid="w",
                    revision=number,
                    document={},
                    active=True,
                    effective_from=NOW,
                    change=changes.get(number, "replaced"),
                    recorded_at=NOW - age * day,
                )
            )
        connection.execute(
            operations.insert().values(make_operation(NOW, action_revision=3))
        )
    prune = DatabasePrune(engine).prune

    counts = [prune("revisions", before=NOW - 30 * day, limit=2) for _ in range(3)]

    with engine.connect() as connection:
        kept = connection.execute(sa.select(scheduled_action_revisions.c.revision))
        assert {3, 5, 6, 7, 8} == set(kept.scalars())
    assert [2, 1, 0] == counts


def test_batch_of_revisions_is_looked_up(sqlite_engine: sa.Engine):
    """Nobody walks all revisions to remove those that are known by their keys."""
    revision = {"uid": "w", "document": {}, "active": True, "change": "replaced"}
    revision |= {"effective_from": NOW, "recorded_at": NOW - timedelta(days=60)}
    execute(sqlite_engine, small_apps.insert().values(uid=APP, name="Demo"))
    execute(sqlite_engine, scheduled_actions.insert().values(make_action("w")))
    for number in (1, 2, 3):
        added = scheduled_action_revisions.insert().values(
            {**revision, "revision": number}
        )
        execute(sqlite_engine, added)
    walked = note_walks(sqlite_engine)

    assert 2 == DatabasePrune(sqlite_engine).prune("revisions", before=NOW, limit=9)
    assert scheduled_action_revisions.name not in walked


def test_answers_go_when_nobody_asks_for_them_again(engine: sa.Engine):
    """The oldest first, in batches."""
    hour = timedelta(hours=1)
    ages = {"a": 48, "b": 30, "c": 25, "d": 23, "e": 0}
    execute(
        engine,
        idempotency_keys.insert(),
        [
            {
                "caller": "key x",
                "key": key,
                "request": "digest",
                "created_at": NOW - age * hour,
            }
            for key, age in ages.items()
        ],
    )
    prune = DatabasePrune(engine).prune

    counts = [prune("answers", before=NOW - 24 * hour, limit=2) for _ in range(3)]

    left = fetch_left(engine, idempotency_keys.c.key)
    assert ([2, 1, 0], {"d", "e"}) == (counts, left)


def test_sign_ins_go_when_they_have_expired(engine: sa.Engine):
    """Links and sessions alike, used or not."""
    minute = timedelta(minutes=1)
    execute(
        engine,
        sign_ins.insert(),
        [
            {
                "digest": f"{kind} {age}",
                "kind": kind,
                "role": "viewer",
                "created_at": NOW - 60 * minute,
                "expires_at": NOW - age * minute,
            }
            for kind in ("link", "session")
            for age in (2, 1, -1)
        ],
    )
    prune = DatabasePrune(engine).prune

    counts = [prune("sign_ins", before=NOW, limit=3) for _ in range(3)]

    left = fetch_left(engine, sign_ins.c.digest)
    assert ([3, 1, 0], {"link -1", "session -1"}) == (counts, left)


@pytest.mark.parametrize("table", [bulk_changes, backfills], ids=lambda t: t.name)
def test_requests_go_when_they_ended_long_ago(engine: sa.Engine, table: sa.Table):
    """Not those that are still under way, however old they are."""
    day = timedelta(days=1)
    own = {
        "bulk_changes": {"kind": "cancel", "filter": {}, "total": 1},
        "backfills": {
            "app": "shop",
            "action_uid": "a",
            "from_at": NOW - 9 * day,
            "until_at": NOW - 8 * day,
            "which": "all",
            "at_once": 1,
            "total": 1,
        },
    }[table.name]
    ids = {name: uuid4() for name in ("older", "old", "new", "open")}
    ends = {"older": NOW - 4 * day, "old": NOW - 3 * day, "new": NOW, "open": None}
    with engine.begin() as connection:
        for name, id_ in ids.items():
            connection.execute(
                table.insert().values(
                    id=id_,
                    requested_by="ada",
                    created_at=NOW - 5 * day,
                    finished_at=ends[name],
                    **own,
                )
            )
    prune = DatabasePrune(engine).prune

    kind = cast("Prunable", table.name)
    counts = [prune(kind, before=NOW - day, limit=1) for _ in range(3)]

    left = fetch_left(engine, table.c.id)
    assert ([1, 1, 0], {ids["new"], ids["open"]}) == (counts, left)
