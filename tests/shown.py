"""Operations as faces show them, of which a test names what it is about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from models.operation_state import OperationState, Queue, StepState, Trigger
from overview.operations import ShownOperation, ShownStep

_AT = datetime(2026, 11, 23, 6, tzinfo=UTC)


def make_shown_operation(**given: Any) -> ShownOperation:
    """Return an operation that succeeded; *given* are fields that are another."""
    fields = {
        "id": UUID(int=1),
        "action_uid": "daily",
        "action_name": "daily",
        "action_revision": 1,
        "app": "shop",
        "occurrence": _AT,
        "user_id": None,
        "trigger": Trigger.SCHEDULE,
        "triggered_by": 'Scheduled action "daily"',
        "queue": Queue.QUICK,
        "state": OperationState.SUCCEEDED,
        "reason": None,
        "attempt": 1,
        "attempts_allowed": 3,
        "recorded_at": _AT,
        "send_at": _AT,
        "sent_at": None,
        "started_at": None,
        "finished_at": None,
        "late": None,
        "worker": None,
        "progress": None,
        "steps": (),
        "error": None,
        "details": None,
        "zone": "UTC",
        "after": None,
        "followed_by": (),
        "mark": None,
        "uncertain_mails": 0,
        "told": None,
        "is_claimed": False,
        "took": None,
    }
    return ShownOperation(**{**fields, **given})


def make_shown_step(name: str, state: StepState, **given: Any) -> ShownStep:
    """Return a step that has done nothing; *given* are fields that are another."""
    fields = {
        **dict.fromkeys(("started_at", "finished_at", "progress", "result", "error")),
        **dict.fromkeys(("eta", "usual")),
        "attempt": 0,
    }
    return ShownStep(name, state, **{**fields, **given})
