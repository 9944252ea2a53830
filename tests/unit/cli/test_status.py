"""How what is not final is grouped."""

from __future__ import annotations

from cli.status import group_by_app
from models.operation_state import OperationState, Queue
from overview.installation.figures import Backlog


def make_backlog(
    app: str, state: OperationState, count: int, oldest_s: float | None
) -> Backlog:
    return Backlog(app, Queue.QUICK, state, count, None, oldest_s)


def test_apps_that_wait_longest_come_first():
    """What does not wait, for it runs, comes last."""
    found = group_by_app(
        [
            make_backlog("busy", OperationState.RUNNING, 1, None),
            make_backlog("new", OperationState.PENDING, 1, 60),
            make_backlog("old", OperationState.PENDING, 2, 180),
            make_backlog("old", OperationState.QUEUED, 3, 120),
        ]
    )

    assert [
        ["old", "quick", "2", "3", "0", "3 min"],
        ["new", "quick", "1", "0", "0", "1 min"],
        ["busy", "quick", "0", "0", "1", "-"],
    ] == [[*each.values()] for each in found]
