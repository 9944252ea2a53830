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
from importlib import import_module
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.read_actions import fetch_documents
from models.database.engine import read_clock
from models.fields.zone import load_zone
from models.operation import order_steps
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
    fetch_latest,
    fetch_operations,
    fetch_steps,
    require_operation,
)
from operations.operation_filter import OperationFilter
from operations.running.pace import Usual, estimate_steps
from operations.running.taken import read_taken
from overview.operations.beside import fetch_beside
from overview.operations.operation_json import OperationJson, ProgressJson, StepJson
from overview.operations.why_not import ALONE, Beside, Mark, Told, find_mark, tell_why

_UTC = load_zone("UTC")


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
        if self.finished_at is None or self.started_at is None:
            return None
        return self.finished_at - self.started_at

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
        send_at: The leader sends it, or its next attempt, then or later.
        details: Data that belong to its trigger or reason: see ``missed``.
        is_claimed: Whether a worker has claimed it. The worker of a canceled operation
            stops at its next progress point.
        steps: In the order in which they run; empty if they were not asked for.
        beside: What it waits for, or has met; see overview/operations/beside.py.
        told: Why it did not run, or waits. None: it runs, or ran well.
        zone: That of its action.
        took: How long it ran: see operations/running/taken.py. None: it has not, or
            still runs.
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
    send_at: datetime
    sent_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    progress: ProgressJson | None
    error: str | None
    details: Mapping[str, Any] | None
    is_claimed: bool
    steps: tuple[ShownStep, ...] = ()
    beside: Beside = ALONE
    told: Told | None = None
    zone: ZoneInfo = _UTC
    took: timedelta | None = None

    @property
    def mark(self) -> Mark | None:
        """What it is called beside its state, if anything."""
        return find_mark(self, self.beside.uncertain)

    @property
    def is_final(self) -> bool:
        """Whether only a retry or a resend can still change it."""
        return self.state in FINAL_STATES

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
            "attempts_allowed": self.attempts_allowed,
            "recorded_at": self.recorded_at,
            "send_at": self.send_at,
            "sent_at": self.sent_at,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "worker": self.worker,
            "progress": self.progress,
            "steps": [step.as_json() for step in self.steps],
            "error": self.error,
            "details": self.details,
            "zone": self.zone.key,
            "mark": self.mark,
            "uncertain_mails": self.beside.uncertain,
            "why": None if self.told is None else self.told.as_json(self.zone),
        }


def fetch_shown_operation(
    connection: sa.Connection, operation_id: UUID, *, app: str | None = None
) -> ShownOperation:
    """
    Return an operation with its steps, and how long running steps usually take.

    Args:
        app: Uid of the small app that it must belong to. None: any.

    Raises:
        NotFoundError: There is no such operation.
    """
    row = require_operation(connection, operation_id, app=app)
    (shown,) = _tell(connection, _add_steps(connection, [row]))
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
        page: See ``fetch_operations``: a part may be short although more follow.
        with_steps: Whether to fetch their steps, with two more queries in all.
    """
    part = fetch_operations(connection, wanted, page)
    return Part(_show(connection, part.entries, with_steps), part.following)


def fetch_filled_part(
    connection: sa.Connection, wanted: OperationFilter, page: Page, *, looks: int = 8
) -> Part[ShownOperation]:
    """
    Return a part as ``fetch_shown_part`` does, but go on while it is not full.

    Args:
        page: Which part.
        looks: How often to look at so many operations as one part may.
    """
    rows: list[sa.Row[Any]] = []
    after = page.after
    for _look in range(looks):
        part = fetch_operations(connection, wanted, Page(page.limit - len(rows), after))
        rows += part.entries
        after = part.following
        if after is None or len(rows) >= page.limit:
            break
    return Part(_show(connection, rows, with_steps=False), after)


def fetch_shown_operations(
    connection: sa.Connection,
    wanted: OperationFilter,
    *,
    limit: int,
    in_full: bool = True,
) -> list[ShownOperation]:
    """
    Return the operations that match *wanted*, the latest first.

    Args:
        in_full: Whether to fetch also what a table has no room for: their steps, what
            each waits for or has met, and their zones.
    """
    rows = fetch_latest(connection, wanted, limit=limit)
    if not in_full:
        return [_make_shown(row, ()) for row in rows]
    return _show(connection, rows, with_steps=True)


def _show(
    connection: sa.Connection,
    rows: Sequence[sa.Row[Any]],
    with_steps: bool,  # noqa: FBT001 - passed on
) -> list[ShownOperation]:
    shown = (
        _add_steps(connection, rows)
        if with_steps
        else [_make_shown(row, ()) for row in rows]
    )
    return _tell(connection, shown)


def _tell(
    connection: sa.Connection, shown: Sequence[ShownOperation]
) -> list[ShownOperation]:
    """Return *shown* with why they did not run, or wait."""
    if not shown:
        return []
    now = read_clock(connection)
    known = fetch_beside(connection, shown, now=now)
    # The kinds of ``when`` take a while to import, and lists for people need none.
    zones = import_module("overview.zones").fetch_zones(
        connection, {(each.action_uid, each.action_revision) for each in shown}
    )
    return [
        replace(
            each,
            beside=(beside := known.get(each.id, ALONE)),
            told=tell_why(each, beside, now=now),
            zone=zones.find(each.action_uid, each.action_revision, each.occurrence),
        )
        for each in shown
    ]


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
        send_at=row.send_at,
        sent_at=row.sent_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        worker=row.worker,
        progress=row.progress,
        error=row.error,
        details=row.details,
        is_claimed=row.claim_token is not None,
        steps=tuple(steps),
        took=read_taken(row.taken_s),
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
        for name in order_steps(asked)
    ]
