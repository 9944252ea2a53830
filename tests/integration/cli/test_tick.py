"""``tick``: one tick by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
import redis

from actions.lease import Leader
from actions.own_actions import MAINTENANCE_UID
from cli.connection import get_engine, get_settings
from models.database.engine import db_now
from models.occurrence import make_operation_id
from operations.rescue import LOST_AFTER
from tests.integration.cli.calling import Call, Configure, Post, write_action
from tests.integration.dispatch.backfills.backfilling import fetch_outcomes, start
from tests.integration.dispatch.test_noticer import fail
from tests.scheduling import MONDAY, edit, edit_action, fetch_action, get, get_now

HOUR = timedelta(hours=1)


def test_tick_records_what_is_due_and_only_once(call: Call, post: Post):
    post()
    at = call("actions", "show", "hello", "--json").data["next"][0]
    foreseen = call("tick", "--at", at, "--dry-run", "--json").data

    first = call("tick", "--at", at, "--json")
    second = call("tick", "--at", at, "--json")

    listed = call("operations", "list", "--action", "hello", "--json").data
    expected = str(make_operation_id("hello", datetime.fromisoformat(at)))
    assert [expected] == [each["id"] for each in foreseen]
    assert [expected] == [each["id"] for each in listed]
    assert (1, 0) == (first.data["recorded"], second.data["recorded"])
    assert [(at, "pending")] == [(e["occurrence"], e["state"]) for e in listed]


def test_tick_looks_after_the_daily_maintenance(embedded: Call):
    """
    In an empty home it is due at four, once, though no scheduler has ever started;
    what was due before it was made is not.
    """
    yesterday = datetime.now(UTC) - timedelta(days=1)
    before = embedded("tick", "--at", yesterday.isoformat(), "--json")
    now = datetime.now(UTC)
    four = now.replace(hour=4, minute=0, second=0, microsecond=0)
    four += timedelta(days=four <= now)

    ticks = [embedded("tick", "--at", four.isoformat(), "--json") for _ in range(2)]

    listed = embedded("operations", "list", "--json").data
    assert 0 == before.data["due"]
    assert [1, 0] == [each.data["recorded"] for each in ticks]
    assert [MAINTENANCE_UID] == [each["action_uid"] for each in listed]
    assert [four] == [datetime.fromisoformat(each["occurrence"]) for each in listed]


def set_maintenance(configure: Configure, at: datetime) -> None:
    """Let the daily maintenance be at *at*, a whole minute of UTC."""
    configure(MAINTENANCE_ENABLED="true", MAINTENANCE_AT=f"{at:%H:%M}")


def foresee(call: Call, until: datetime) -> tuple[list[str], str]:
    answer = call("tick", "--at", until.isoformat(), "--dry-run", "--json")
    assert 0 == answer.code
    return [each["id"] for each in answer.data], answer.err


def test_dry_run_foresees_the_maintenance_that_a_tick_would_make(
    call: Call, configure: Configure
):
    """Its operation is shown, its action is told, and neither is stored."""
    due_at = datetime.now(UTC).replace(second=0, microsecond=0) + 2 * HOUR
    set_maintenance(configure, due_at)

    early = foresee(call, due_at - HOUR)
    foreseen = foresee(call, due_at)
    stored = call("apps", "list", "--json").data
    call("tick", "--at", due_at.isoformat())
    recorded = call("operations", "list", "--json").data

    told = f"Would post {MAINTENANCE_UID}: Every day at {due_at:%H:%M}, UTC\n"
    assert ([], told) == early
    assert ([str(make_operation_id(MAINTENANCE_UID, due_at))], told) == foreseen
    assert [] == stored
    assert foreseen[0] == [each["id"] for each in recorded]


def test_dry_run_foresees_maintenance_at_another_time(call: Call, configure: Configure):
    """What is stored gives way to what the settings say: only the latter is due."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    set_maintenance(configure, now + 2 * HOUR)
    call("tick")
    kept = foresee(call, now + 2 * HOUR)
    set_maintenance(configure, now + 4 * HOUR)

    ids, told = foresee(call, now + 4 * HOUR)

    assert [str(make_operation_id(MAINTENANCE_UID, now + 2 * HOUR))] == kept[0]
    assert [str(make_operation_id(MAINTENANCE_UID, now + 4 * HOUR))] == ids
    assert ("", True) == (kept[1], told.startswith(f"Would replace {MAINTENANCE_UID}"))
    assert 1 == call("actions", "show", MAINTENANCE_UID, "--json").data["revision"]


@pytest.fixture
def _broker(call: Call, redis_url: str, configure: Configure) -> None:
    del call  # comes first, with a broker in memory
    configure(BROKER_URL=redis_url)


@pytest.mark.usefixtures("_broker")
@pytest.mark.parametrize("at", [(), ("--at", "2020-01-01T00:00:00Z")])
def test_tick_sends_what_waits_though_nothing_is_due(
    call: Call, at: tuple[str, ...], post: Post
):
    """A manual run waits for no occurrence of anything."""
    post()
    call("actions", "run", "hello")

    answer = call("tick", *at, "--json")

    assert (0, 0, 1) == (answer.code, answer.data["recorded"], answer.data["sent"])
    listed = call("operations", "list", "--json").data
    assert ["queued"] == [each["state"] for each in listed]


@pytest.mark.usefixtures("_broker")
def test_tick_brings_back_what_was_lost(call: Call, post: Post):
    """
    What lost its worker is tried again after a moment, and what lost its message at
    once.
    """
    post()
    lost, dead = (call("actions", "run", "hello").out.strip() for _ in range(2))
    call("tick")
    engine, before = get_engine(), db_now(-LOST_AFTER)
    edit(engine, UUID(lost), sent_at=before)
    claim = {"claim_token": uuid4(), "lease_expires_at": before}
    edit(engine, UUID(dead), state="running", attempt=1, **claim)
    with redis.Redis.from_url(get_settings().broker_url) as client:
        client.flushdb()

    answer = call("tick", "--json")

    assert (2, 1) == (answer.data["rescued"], answer.data["sent"])
    states = {
        each["id"]: each["state"] for each in call("operations", "list", "--json").data
    }
    assert {lost: "queued", dead: "pending"} == states


@pytest.mark.usefixtures("_broker")
def test_tick_does_what_a_scheduler_does_between_ticks(
    call: Call, shop: Path, post: Post
):
    """It tells what is late, pauses what failed too often, and goes on to backfill."""
    asked = {"expect": {"within": "PT1M"}, "rest_after": 2}
    post(**asked)
    other = write_action(shop, name="b", uid="b", overlap="allow")
    call("actions", "post", other, "--app", "shop")
    engine = get_engine()
    late = call("actions", "run", "hello").out.strip()
    then = {"trigger": "schedule", "occurrence": db_now(-HOUR)}
    edit(engine, UUID(late), expected_at=get_now(engine), **then)
    fail(engine, 0, 1, action_uid="hello", app="shop")
    edit_action(engine, "b", effective_from=MONDAY, created_at=MONDAY)
    backfill = start(engine, "b", at_once=1)

    call("tick")

    assert get(engine, UUID(late)).late is not None
    assert "scheduler" == fetch_action(engine, "hello").paused_by
    assert ["recorded"] == [e for e in fetch_outcomes(engine, backfill) if e]


def test_tick_that_cannot_send_says_so(call: Call, post: Post, configure: Configure):
    configure(BROKER_URL="redis://127.0.0.1:1/0")
    post()
    call("actions", "run", "hello")

    answer = call("tick")

    assert 6 == answer.code
    assert "0 sent" in answer.out
    assert "127.0.0.1:1" in answer.err
    listed = call("operations", "list", "--json").data
    assert ["pending"] == [each["state"] for each in listed]


def test_tick_without_a_broker_says_what_waits(call: Call, post: Post):
    """With ``memory://`` nothing is sent from here, and no attempt has failed."""
    post()
    call("actions", "run", "hello")

    answer = call("tick")

    assert (0, True) == (answer.code, "0 sent" in answer.out)
    assert "1 operation waits for minutehand up" in answer.err
    assert call("status", "--json").data["send_failure"] is None


@pytest.mark.usefixtures("shop")
def test_second_leader_is_a_conflict(call: Call):
    engine = get_engine()

    leader = Leader(engine)
    assert leader.hold()

    answer = call("tick", "--no-wait")

    assert 5 == answer.code
    assert "has led since" in answer.err
