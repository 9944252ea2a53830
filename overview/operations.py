"""
An operation with its steps, for every face.

Before an operation is claimed it has no rows of steps; the steps that will run are then
taken from the document of the action's revision. From how long a step usually takes
follows when a running one may end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NotRequired
from uuid import UUID

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.read_actions import fetch_documents
from models.operation import OperationModel
from models.operation_state import (
    FINAL_STATES,
    OperationState,
    Queue,
    StepState,
    Trigger,
)
from models.paging import Page, Part
from operations.claiming.obstacles import STEPS_KEY
from operations.list_operations import (
    OperationFilter,
    fetch_latest,
    fetch_operations,
    fetch_steps,
    require_operation,
)
from operations.running.estimates import Usual, estimate_steps


class ProgressJson(TypedDict):
    """How far a step is, as far as it reports that."""

    step: NotRequired[str]
    done: int
    total: int
    note: str


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
    """An operation; the documented object of ``operations show``."""

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
    recorded_at: datetime
    sent_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    progress: ProgressJson | None
    steps: list[StepJson]
    error: str | None
    details: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ShownStep:
    """
    A step of an operation, past, present or future.

    Args:
        attempt: The operation's attempt in which it last ran. 0: it has not begun.

        progress: ``{"done", "total", "note"}``, as far as the step reports them.

        result: What the step did, in its own keys.

        usual: How long it usually takes. None: it is not running, or never succeeded.
    """

    name: str
    state: StepState
    attempt: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    progress: ProgressJson | None = None
    result: Mapping[str, Any] | None = None
    error: str | None = None
    usual: Usual | None = None

    @property
    def took(self) -> timedelta | None:
        """How long it ran, if it has ended."""
        return _subtract(self.finished_at, self.started_at)

    @property
    def eta(self) -> datetime | None:
        """When it will end if it takes as long as usual, aware UTC; None: unknown."""
        if self.usual is None or self.started_at is None:
            return None
        return self.started_at + self.usual.took

    def as_json(self) -> StepJson:
        """Return the documented object; keys are only added."""
        return {
            "name": self.name,
            "state": self.state,
            "attempt": self.attempt,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "progress": self.progress,
            "result": self.result,
            "error": self.error,
            "eta": self.eta,
        }


@dataclass(frozen=True, slots=True)
class MissedRange:
    """
    The occurrences that one missed row covers.

    Args:
        count: How many, at least.

        is_more: Whether there may be more than *count*.

        first: The first occurrence, aware UTC.

        last: The last occurrence, aware UTC.
    """

    count: int
    is_more: bool
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class ShownOperation:
    """
    One run, or one decision not to run; times are aware UTC.

    Args:
        action_name: What its action is called now. None: the action was pruned.

        user_id: The user who triggered it. None: no single user did.

        triggered_by: Such as ``Scheduled action "name"``.

        reason: A ``Reason``, perhaps followed by free text. None: no reason is needed.

        details: Data that belong to its trigger or reason: see ``missed``.

        is_claimed: Whether a worker has claimed it. The worker of a canceled operation
            stops at its next progress point.

        steps: In the order in which they run; empty if they were not asked for.
    """

    id: UUID
    action_uid: str
    action_name: str | None
    action_revision: int
    app: str
    occurrence: datetime
    user_id: str | None
    trigger: Trigger
    triggered_by: str
    queue: Queue
    state: OperationState
    reason: str | None
    attempt: int
    attempts_allowed: int
    recorded_at: datetime
    sent_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    progress: ProgressJson | None
    error: str | None
    details: Mapping[str, Any] | None
    is_claimed: bool
    steps: tuple[ShownStep, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether only a retry or a resend can still change it."""
        return self.state in FINAL_STATES

    @property
    def took(self) -> timedelta | None:
        """How long it ran, if it ran and has ended."""
        return _subtract(self.finished_at, self.started_at)

    @property
    def missed(self) -> MissedRange | None:
        """The range of occurrences, if this is the one row for a whole outage."""
        details = self.details or {}
        if "count" not in details:
            return None
        return MissedRange(
            count=details["count"],
            is_more=bool(details.get("more")),
            first=datetime.fromisoformat(details["first"]),
            last=datetime.fromisoformat(details["last"]),
        )

    def as_json(self) -> OperationJson:
        """Return the documented object; keys are only added."""
        return {
            "id": self.id,
            "action_uid": self.action_uid,
            "action_name": self.action_name,
            "action_revision": self.action_revision,
            "app": self.app,
            "occurrence": self.occurrence,
            "user": self.user_id,
            "trigger": self.trigger,
            # the original spelling: docs/origin.md
            "triggerrer": self.triggered_by,
            "queue": self.queue,
            "state": self.state,
            "reason": self.reason,
            "attempt": self.attempt,
            "recorded_at": self.recorded_at,
            "sent_at": self.sent_at,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "worker": self.worker,
            "progress": self.progress,
            "steps": [step.as_json() for step in self.steps],
            "error": self.error,
            "details": self.details,
        }


def fetch_shown_operation(
    connection: sa.Connection, operation_id: UUID, *, app: str | None = None
) -> ShownOperation:
    """
    Return an operation with its steps, and how long running steps usually take.

    Args:
        connection: Any.

        operation_id: Its id.

        app: Uid of the small app that it must belong to. None: any.

    Raises:
        NotFoundError: There is no such operation.
    """
    row = require_operation(connection, operation_id, app=app)
    (shown,) = _add_steps(connection, [row])
    running = [s.name for s in shown.steps if s.state is StepState.RUNNING]
    if not running:
        return shown
    usual = estimate_steps(connection, shown.action_uid, running)
    steps = tuple(
        replace(step, usual=usual.get(step.name)) if step.name in running else step
        for step in shown.steps
    )
    return replace(shown, steps=steps)


def fetch_shown_part(
    connection: sa.Connection,
    wanted: OperationFilter,
    page: Page,
    *,
    with_steps: bool = True,
) -> Part[ShownOperation]:
    """
    Return a part of the operations that match *wanted*, the latest first.

    Args:
        connection: Any.

        wanted: The filters.

        page: See ``fetch_operations``: a part may be short although more follow.

        with_steps: Whether to fetch their steps, with two more queries in all.
    """
    part = fetch_operations(connection, wanted, page)
    return Part(_show(connection, part.entries, with_steps), part.following)


def fetch_shown_operations(
    connection: sa.Connection,
    wanted: OperationFilter,
    *,
    limit: int,
    with_steps: bool = True,
) -> list[ShownOperation]:
    """
    Return the operations that match *wanted*, the latest first.

    Args:
        connection: Any.

        wanted: The filters.

        limit: The most to return.

        with_steps: Whether to fetch their steps, with two more queries in all.
    """
    rows = fetch_latest(connection, wanted, limit=limit)
    return _show(connection, rows, with_steps)


def _show(
    connection: sa.Connection,
    rows: Sequence[sa.Row[Any]],
    with_steps: bool,  # noqa: FBT001 - passed on
) -> list[ShownOperation]:
    if with_steps:
        return _add_steps(connection, rows)
    return [_make_shown(row, ()) for row in rows]


def describe_result(result: Mapping[str, Any] | None) -> str:
    """
    Describe on one line what a step did.

    >>> describe_result({"refreshed": ["a", "b"], "sent": 3, "failed": None})
    'refreshed a, b; sent 3'
    """
    if not result:
        return ""
    told = []
    for key, value in result.items():
        text = _describe_value(value)
        if text:
            told.append(f"{key} {text}")
    return "; ".join(told)


def _describe_value(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(
            f"{key} {_describe_value(each)}" for key, each in value.items()
        )
    if isinstance(value, list):
        if any(isinstance(each, dict) for each in value):
            return str(len(value))
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def _add_steps(
    connection: sa.Connection, rows: Sequence[sa.Row[Any]]
) -> list[ShownOperation]:
    """Return *rows* with their steps; of unclaimed ones, the steps that will run."""
    if not rows:
        return []
    recorded = fetch_steps(connection, [row.id for row in rows])
    unclaimed = {
        (row.action_uid, row.action_revision) for row in rows if row.id not in recorded
    }
    documents = fetch_documents(connection, unclaimed) if unclaimed else {}
    return [
        _make_shown(
            row,
            map(_make_step, recorded[row.id])
            if row.id in recorded
            else _foresee(row, documents.get((row.action_uid, row.action_revision))),
        )
        for row in rows
    ]


def _make_shown(row: sa.Row[Any], steps: Iterable[ShownStep]) -> ShownOperation:
    return ShownOperation(
        id=row.id,
        action_uid=row.action_uid,
        action_name=row.action_name,
        action_revision=row.action_revision,
        app=row.app,
        occurrence=row.occurrence,
        user_id=row.user_id,
        trigger=Trigger(row.trigger),
        triggered_by=row.triggered_by,
        queue=Queue(row.queue),
        state=OperationState(row.state),
        reason=row.reason,
        attempt=row.attempt,
        attempts_allowed=row.attempts_allowed,
        recorded_at=row.recorded_at,
        sent_at=row.sent_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        worker=row.worker,
        progress=row.progress,
        error=row.error,
        details=row.details,
        is_claimed=row.claim_token is not None,
        steps=tuple(steps),
    )


def _make_step(row: sa.Row[Any]) -> ShownStep:
    return ShownStep(
        name=row.name,
        state=StepState(row.state),
        attempt=row.attempt,
        started_at=row.started_at,
        finished_at=row.finished_at,
        progress=row.progress,
        result=row.result,
        error=row.error,
    )


def _foresee(
    row: sa.Row[Any], document: Mapping[str, Any] | None
) -> Iterable[ShownStep]:
    """Return the steps of an operation that no worker has claimed."""
    asked = (document or {}).get("operations", {})
    # A final operation that never ran will not run its steps.
    is_final = row.state in FINAL_STATES
    state = StepState.SKIPPED if is_final else StepState.PENDING
    # Of a run for which somebody chose some steps, the others are skipped.
    chosen = (row.details or {}).get(STEPS_KEY, asked)
    return [
        ShownStep(name, state if name in chosen else StepState.SKIPPED)
        for name in OperationModel.model_fields
        if name in asked
    ]


def _subtract(end: datetime | None, start: datetime | None) -> timedelta | None:
    return None if end is None or start is None else end - start
