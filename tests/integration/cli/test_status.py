"""``status``."""

from __future__ import annotations

import pytest

from tests.integration.cli.calling import WEEKLY, Call


@pytest.mark.usefixtures("shop")
def test_status_names_leader_backlog_and_next(call: Call):
    """
    Without a scheduler there is no leader; what waits is counted.
    """
    call("actions", "post", str(WEEKLY), "--app", "shop")
    call("actions", "run", "weekly update")

    answer = call("status", "--json")

    assert answer.data["leader"] is None
    assert {"pending": 1, "queued": 0, "running": 0} == answer.data["backlog"]["heavy"]
    assert ["weekly update"] == [each["name"] for each in answer.data["next_due"]]
    assert "nobody" in call("status").out
