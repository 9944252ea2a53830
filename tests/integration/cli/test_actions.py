"""Actions, once they are posted: shown, paused, resumed, deleted."""

from __future__ import annotations

from pathlib import Path

from tests.integration.cli.calling import Call, write_action


def test_action_is_paused_resumed_and_deleted(call: Call, shop: Path):
    """
    Each state is seen by list and show; a deleted uid is found, not listed.
    """
    call("actions", "post", write_action(shop), "--app", "shop")
    seen = []
    for command in ("pause", "resume", "delete"):
        answer = call("actions", command, "hello", "--json")
        seen.append((answer.code, answer.data["state"], len(answer.data["next"])))

    assert [(0, "paused", 0), (0, "active", 1), (0, "deleted", 0)] == seen
    assert [] == call("actions", "list", "--json").data
    assert "deleted" == call("actions", "show", "hello", "--json").data["state"]
    assert 4 == call("actions", "delete", "hello").code


def test_resuming_what_is_inactive_says_what_else_to_do(call: Call, shop: Path):
    """
    It is not paused any more, and still nothing runs.
    """
    path = write_action(shop, active=False)
    call("actions", "post", path, "--app", "shop")
    call("actions", "pause", "hello")

    answer = call("actions", "resume", "hello")

    assert (0, "Resumed hello (uid hello).\n") == (answer.code, answer.out)
    assert "The action is inactive" in answer.err
    assert '"active": true' in answer.err
