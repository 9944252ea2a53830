"""What is told of an operation that is watched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from cli.operation_view import ShownOperation
from cli.operations_watch import describe

STARTED = {
    "name": "refresh",
    "state": "succeeded",
    "started_at": "then",
    "error": None,
}


def make_shown(state: str, *steps: dict[str, Any]) -> ShownOperation:
    """Return an operation in *state* with *steps*."""
    row: Any = SimpleNamespace(triggered_by="hello", state=state, reason=None)
    return ShownOperation(row, steps)


def test_operation_ends_after_its_last_step():
    """
    That it succeeded is told last.
    """
    lines = describe(make_shown("succeeded", STARTED))

    assert ["  refresh: succeeded", "hello: succeeded"] == lines


def test_operation_begins_before_its_first_step():
    """
    That it runs is told first; a step that has not begun is not told of.
    """
    waiting = {**STARTED, "name": "publish", "state": "pending", "started_at": None}

    lines = describe(make_shown("running", STARTED, waiting))

    assert ["hello: running", "  refresh: succeeded"] == lines


def test_step_that_failed_says_why():
    """
    Whoever waits for a run need not ask again what went wrong.
    """
    failed = {**STARTED, "state": "failed", "error": "no domain 'b'"}

    lines = describe(make_shown("failed", failed))

    assert ["  refresh: failed: no domain 'b'", "hello: failed"] == lines
