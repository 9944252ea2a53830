"""``tick``: one tick by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from actions.leader import Leader
from actions.maintenance import MAINTENANCE_UID
from cli.connection import get_engine, get_settings
from models.occurrence import make_operation_id
from tests.integration.cli.calling import Call, write_action

HOUR = timedelta(hours=1)


def test_tick_records_what_is_due_and_only_once(call: Call, shop: Path):
    """
    A tick of another time records each occurrence once, under its own id.
    """
    call("actions", "post", write_action(shop), "--app", "shop")
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
    now = datetime.now(UTC)
    four = now.replace(hour=4, minute=0, second=0, microsecond=0)
    four += timedelta(days=four <= now)

    before = embedded("tick", "--at", (now - timedelta(days=1)).isoformat(), "--json")
    ticks = [embedded("tick", "--at", four.isoformat(), "--json") for _ in range(2)]

    listed = embedded("operations", "list", "--json").data
    assert 0 == before.data["due"]
    assert [1, 0] == [each.data["recorded"] for each in ticks]
    assert [MAINTENANCE_UID] == [each["action_uid"] for each in listed]
    assert [four] == [datetime.fromisoformat(each["occurrence"]) for each in listed]


def set_maintenance(monkeypatch: pytest.MonkeyPatch, at: datetime) -> None:
    """Let the daily maintenance be at *at*, a whole minute of UTC."""
    monkeypatch.setenv("MINUTEHAND_MAINTENANCE_ENABLED", "true")
    monkeypatch.setenv("MINUTEHAND_MAINTENANCE_AT", f"{at:%H:%M}")
    get_settings.cache_clear()


def foresee(call: Call, until: datetime) -> tuple[list[str], str]:
    """Return the ids and the notes of a dry run."""
    answer = call("tick", "--at", until.isoformat(), "--dry-run", "--json")
    assert 0 == answer.code
    return [each["id"] for each in answer.data], answer.err


def test_dry_run_foresees_the_maintenance_that_a_tick_would_make(
    call: Call, monkeypatch: pytest.MonkeyPatch
):
    """
    Its operation is shown, its action is told, and neither is stored.
    """
    due_at = datetime.now(UTC).replace(second=0, microsecond=0) + 2 * HOUR
    set_maintenance(monkeypatch, due_at)

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


def test_dry_run_foresees_maintenance_at_another_time(
    call: Call, monkeypatch: pytest.MonkeyPatch
):
    """
    What is stored gives way to what the settings say: only the latter is due.
    """
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    set_maintenance(monkeypatch, now + 2 * HOUR)
    call("tick")
    kept = foresee(call, now + 2 * HOUR)
    set_maintenance(monkeypatch, now + 4 * HOUR)

    ids, told = foresee(call, now + 4 * HOUR)

    assert [str(make_operation_id(MAINTENANCE_UID, now + 2 * HOUR))] == kept[0]
    assert [str(make_operation_id(MAINTENANCE_UID, now + 4 * HOUR))] == ids
    assert ("", True) == (kept[1], told.startswith(f"Would replace {MAINTENANCE_UID}"))
    assert 1 == call("actions", "show", MAINTENANCE_UID, "--json").data["revision"]


@pytest.mark.usefixtures("shop")
def test_second_leader_is_a_conflict(call: Call):
    """
    A tick that will not wait for the lease names who holds it.
    """
    engine = get_engine()

    leader = Leader(engine)
    assert leader.hold()

    answer = call("tick", "--no-wait")

    assert 5 == answer.code
    assert "leads since" in answer.err
