"""The documented objects of operations and their steps; keys are only added."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NotRequired
from uuid import UUID

from typing_extensions import TypedDict

from models.operation_state import OperationState, Queue, StepState, Trigger
from overview.operations.why_not import Mark, WhyJson


class PartJson(TypedDict):
    """
    How far the unit of a step is that is worked on; its numbers are in ``unit``.

    ``total``, ``per_second`` and ``seconds_left`` are null as long as nobody knows.
    """

    doing: str
    unit: str
    done: int
    total: int | None
    per_second: float | None
    seconds_left: int | None


class ProgressJson(TypedDict):
    """How far a step is, as far as it reports that."""

    step: NotRequired[str]
    done: int
    total: int
    note: str
    part: NotRequired[PartJson]


class StepJson(TypedDict):
    """A step of an operation; the documented object of ``operations show``."""

    name: str
    state: StepState
    attempt: int
    started_at: datetime | None
    finished_at: datetime | None
    progress: ProgressJson | None
    result: Mapping[str, Any] | None
    error: str | None
    eta: datetime | None


class OperationJson(TypedDict):
    """
    An operation; the documented object of ``operations show``.

    ``zone`` is that of its action, in which ``why`` tells local times. ``mark`` says
    whether it is more than its state: between two attempts, or with uncertain mails.
    """

    id: UUID
    action_uid: str
    action_name: str | None
    action_revision: int
    app: str
    occurrence: datetime
    user: str | None
    trigger: Trigger
    triggerrer: str
    queue: Queue
    state: OperationState
    reason: str | None
    attempt: int
    attempts_allowed: int
    recorded_at: datetime
    send_at: datetime
    sent_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    progress: ProgressJson | None
    steps: list[StepJson]
    error: str | None
    details: Mapping[str, Any] | None
    zone: str
    mark: Mark | None
    uncertain_mails: int
    why: WhyJson | None
