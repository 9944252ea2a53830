"""``status``."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.connection import get_settings
from tests.integration.cli.calling import WEEKLY, Call, write_action


@pytest.mark.usefixtures("shop")
def test_status_names_leader_backlog_and_next(call: Call):
    call("actions", "post", str(WEEKLY), "--app", "shop")
    call("actions", "run", "weekly update")

    answer = call("status", "--json")

    assert answer.data["leader"] is None
    assert {"pending": 1, "queued": 0, "running": 0} == answer.data["backlog"]["heavy"]
    assert ["weekly update"] == [each["name"] for each in answer.data["next_due"]]
    assert "nobody" in call("status").out


@pytest.mark.parametrize(
    ("broker", "scheduler", "worker"),
    [
        ("memory://", "minutehand up", "minutehand up"),
        ("redis://127.0.0.1:1/0", "minutehand scheduler", "minutehand worker"),
    ],
)
def test_what_is_to_be_started_fits_the_broker(
    call: Call,
    shop: Path,
    monkeypatch: pytest.MonkeyPatch,
    broker: str,
    scheduler: str,
    worker: str,
):
    """Within one process there is only one to start, which refuses no hint of ours."""
    monkeypatch.setenv("MINUTEHAND_BROKER_URL", broker)
    get_settings.cache_clear()
    call("actions", "post", write_action(shop), "--app", "shop")

    run = call("actions", "run", "hello")
    status = call("status")
    workers = call("workers", "list")

    assert f"Start one: {scheduler}." in " ".join(run.err.split())
    assert f"Start one: {scheduler}." in " ".join(status.out.split())
    assert workers.err.endswith(f"Start one: {worker}\n")
