"""Operations as faces show them, of which a test names what it is about."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from models.operation_state import OperationState, Queue, StepState, Trigger
from overview.operations import ShownOperation, ShownStep

_AT = datetime(2026, 11, 23, 6, tzinfo=UTC)


def make_shown_operation(**given: Any) -> ShownOperation:
    """Return an operation that succeeded; *given* are fields that are another."""
    known = {
        **dict.fromkeys(each.name for each in fields(ShownOperation)),
        "id": UUID(int=1),
        "action_uid": "daily",
        "action_name": "daily",
        "action_revision": 1,
        "app": "shop",
        "occurrence": _AT,
        "trigger": Trigger.SCHEDULE,
        "triggered_by": 'Scheduled action "daily"',
        "queue": Queue.QUICK,
        "state": OperationState.SUCCEEDED,
        "attempt": 1,
        "attempts_allowed": 3,
        "recorded_at": _AT,
        "send_at": _AT,
        "steps": (),
        "zone": "UTC",
        "followed_by": (),
        "uncertain_mails": 0,
        "is_claimed": False,
    }
    return ShownOperation(**{**known, **given})


def make_shown_step(name: str, state: StepState, **given: Any) -> ShownStep:
    """Return a step that has done nothing; *given* are fields that are another."""
    known = dict.fromkeys(each.name for each in fields(ShownStep))
    known |= {"name": name, "state": state, "attempt": 0}
    return ShownStep(**{**known, **given})
