"""
An operation with its steps, for every face.

Before an operation is claimed it has no rows of steps; the steps that will run are then
taken from the document of the action's revision. From how long a step usually takes
follows when a running one may end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, NotRequired
from uuid import UUID
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from typing_extensions import TypedDict

from models.database.engine import read_clock
from models.database.lists import fetch_documents
from models.database.tables import operations
from models.decision import MissedRange, read_missed, tell_cause
from models.expectations import tell_late
from models.json_form import ASIDE
from models.operation import order_steps
from models.operation_state import (
    FINAL_STATES,
    Mark,
    OperationState,
    Queue,
    StepState,
    Trigger,
)
from models.paging import Page, Part
from operations.claiming.claimed import STEPS_KEY
from operations.following import FollowingRun, fetch_following
from operations.list_operations import (
    fetch_latest,
    fetch_operations,
    fetch_steps,
    require_operation,
)
from operations.notices.grouping import hide_webhook
from operations.operation_filter import OperationFilter
from operations.running.pace import Usual, fetch_usual, read_taken
from overview.why.circumstances import fetch_circumstances
from overview.why.sentences import ALONE, Why, find_mark, tell_why


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


@dataclass(frozen=True, slots=True)
class ShownStep:
    """
    A step of an operation, past, present or future.

    Args:
        attempt: The operation's attempt in which it last ran. 0: it has not begun.
        result: What the step did, in its own keys.
        eta: When it will end if it takes as long as usual; null: unknown.
        usual: How long it usually takes. None: it is not running, or never succeeded.
    """

    name: str
    state: StepState
    attempt: int
    started_at: datetime | None
    finished_at: datetime | None
    progress: ProgressJson | None
    result: Mapping[str, Any] | None
    error: str | None
    eta: datetime | None
    usual: Usual | None = field(metadata=ASIDE)

    @property
    def took(self) -> timedelta | None:
        """How long it ran, if it has ended."""
        if self.finished_at is None or self.started_at is None:
            return None
        return self.finished_at - self.started_at


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
        late: What it did not keep to of what its action expects. None: nothing, so far.
        steps: In the order in which they run; empty if they were not asked for.
        details: Data that belong to its trigger or reason: see ``missed``. Of the
            webhook of a notice, only the host.
        zone: That of its action, in which ``why`` tells local times.
        after: What had ended for it to begin, in words. None: it follows no other run.
        followed_by: The runs that began as it ended; empty if they were not asked for.
        mark: Whether it is more than its state: between two attempts, or with uncertain
            mails.
        told: Why it did not run, or waits. None: it runs, or ran well.
        is_claimed: Whether a worker has claimed it. The worker of a canceled operation
            stops at its next progress point.
        took: How long it ran: see operations/running/pace.py. None: it has not, or
            still runs.
    """

    id: UUID
    action_uid: str
    action_name: str | None
    action_revision: int
    app: str
    occurrence: datetime
    user_id: str | None = field(metadata={"serialization_alias": "user"})
    trigger: Trigger
    # the original spelling: docs/origin.md
    triggered_by: str = field(metadata={"serialization_alias": "triggerrer"})
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
    late: str | None
    worker: str | None
    progress: ProgressJson | None
    steps: tuple[ShownStep, ...]
    error: str | None
    details: Mapping[str, Any] | None
    zone: str
    after: str | None
    followed_by: tuple[FollowingRun, ...]
    mark: Mark | None
    uncertain_mails: int
    told: Why | None = field(metadata={"serialization_alias": "why"})
    is_claimed: bool = field(metadata=ASIDE)
    took: timedelta | None = field(metadata=ASIDE)

    @property
    def is_final(self) -> bool:
        """Whether only a retry or a resend can still change it."""
        return self.state in FINAL_STATES

    @property
    def told_late(self) -> str | None:
        """That it is late, or was. None: it is not."""
        return tell_late(self.late, self.state)

    @property
    def missed(self) -> MissedRange | None:
        """The range of occurrences, if this is the one row for a whole outage."""
        return read_missed(self.details)


#: The members that rows have as they are.
_KEPT = tuple(each.name for each in fields(ShownOperation) if each.name in operations.c)


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
    (shown,) = _show(connection, [row], with_steps=True)
    followed_by = fetch_following(connection, row.id, row.action_uid)
    shown = replace(shown, followed_by=followed_by)
    running = [s.name for s in shown.steps if s.state is StepState.RUNNING]
    if not running:
        return shown
    usual = fetch_usual(connection, [shown.action_uid])[shown.action_uid].steps
    steps = tuple(
        estimate_end(step, usual[step.name]) if step.name in usual else step
        for step in shown.steps
    )
    return replace(shown, steps=steps)


def estimate_end(step: ShownStep, usual: Usual) -> ShownStep:
    """Return *step* with when it will end, if it runs."""
    if step.state is not StepState.RUNNING or step.started_at is None:
        return step
    return replace(step, usual=usual, eta=step.started_at + usual.took)


def fetch_shown_part(
    connection: sa.Connection,
    wanted: OperationFilter,
    page: Page,
    *,
    with_steps: bool = True,
    looks: int = 1,
) -> Part[ShownOperation]:
    """
    Return a part of the operations that match *wanted*, the latest first.

    Args:
        page: See ``fetch_operations``: a part may be short although more follow.
        with_steps: Whether to fetch their steps, with two more queries in all.
        looks: How often to go on while it is short: each look is at as many operations
            as one part may look at.
    """
    rows: list[sa.Row[Any]] = []
    after = page.after
    for _look in range(looks):
        part = fetch_operations(connection, wanted, Page(page.limit - len(rows), after))
        rows += part.entries
        after = part.following
        if after is None or len(rows) >= page.limit:
            break
    return Part(_show(connection, rows, with_steps), after)


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
        in_full: Whether to fetch also what a table has no room for: their steps, and
            what each waits for or has met.
    """
    rows = fetch_latest(connection, wanted, limit=limit)
    if not in_full:
        zones = _fetch_zones(connection, rows)
        return [_make_shown(row, zones[row.id]) for row in rows]
    return _show(connection, rows, with_steps=True)


def _show(
    connection: sa.Connection,
    rows: Sequence[sa.Row[Any]],
    with_steps: bool,  # noqa: FBT001 - passed on
) -> list[ShownOperation]:
    """Return *rows* with why they did not run, or wait."""
    if not rows:
        return []
    now = read_clock(connection)
    steps = _fetch_steps(connection, rows) if with_steps else {}
    circumstances = fetch_circumstances(connection, rows, now=now)
    zones = _fetch_zones(connection, rows)
    shown = []
    for row in rows:
        known = circumstances.get(row.id, ALONE)
        told = tell_why(row, known, now=now, zone=zones[row.id])
        bare = _make_shown(row, zones[row.id], steps.get(row.id, ()), known.uncertain)
        shown.append(replace(bare, told=told))
    return shown


def fetch_zones_of(
    connection: sa.Connection, ids: Collection[UUID]
) -> dict[UUID, ZoneInfo]:
    """Return the zone in which each of these operations is due, if it is kept."""
    kept = operations.c
    query = sa.select(kept.id, kept.action_uid, kept.action_revision, kept.occurrence)
    rows = connection.execute(query.where(kept.id.in_(sorted(ids))))
    return _fetch_zones(connection, [*rows])


def _fetch_zones(
    connection: sa.Connection, rows: Sequence[sa.Row[Any]]
) -> dict[UUID, ZoneInfo]:
    keys = {row.id: (row.action_uid, row.action_revision) for row in rows}
    # The kinds of ``when`` take a while to import.
    fetch_zones = import_module("actions.read_rules").fetch_zones
    zones = fetch_zones(connection, {*keys.values()})
    return {row.id: zones.find(*keys[row.id], row.occurrence) for row in rows}


def describe_result(result: Mapping[str, Any] | None) -> str:
    """
    Describe on one line what a step did.

    >>> describe_result({"refreshed": ["a", "b"], "sent": 3, "failed": None})
    'refreshed a, b; sent 3'
    """
    if not result:
        return ""
    told = ((key, _describe_value(value)) for key, value in result.items())
    return "; ".join(f"{key} {text}" for key, text in told if text)


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


def _fetch_steps(
    connection: sa.Connection, rows: Sequence[sa.Row[Any]]
) -> dict[UUID, tuple[ShownStep, ...]]:
    """Return the steps of each; of unclaimed ones, the steps that will run."""
    recorded = fetch_steps(connection, [row.id for row in rows])
    unclaimed = {
        (row.action_uid, row.action_revision) for row in rows if row.id not in recorded
    }
    documents = fetch_documents(connection, unclaimed) if unclaimed else {}
    return {
        row.id: tuple(map(_make_step, recorded[row.id]))
        if row.id in recorded
        else _foresee(row, documents.get((row.action_uid, row.action_revision)))
        for row in rows
    }


def _make_shown(
    row: sa.Row[Any],
    zone: ZoneInfo,
    steps: tuple[ShownStep, ...] = (),
    uncertain: int = 0,
) -> ShownOperation:
    kept = row._mapping  # noqa: SLF001 - public, by the documentation
    return ShownOperation(
        **{name: kept[name] for name in _KEPT}
        | {
            "trigger": Trigger(row.trigger),
            "queue": Queue(row.queue),
            "state": OperationState(row.state),
            "details": hide_webhook(row.details),
        },
        action_name=row.action_name,
        steps=steps,
        zone=zone.key,
        after=tell_cause(row.details),
        followed_by=(),
        mark=find_mark(row, uncertain),
        uncertain_mails=uncertain,
        told=None,
        is_claimed=row.claim_token is not None,
        took=read_taken(row.taken_s),
    )


def _make_step(row: sa.Row[Any]) -> ShownStep:
    times = row.started_at, row.finished_at
    told = row.progress, row.result, row.error, None, None
    return ShownStep(row.name, StepState(row.state), row.attempt, *times, *told)


#: What is known of a step that has not begun, beside its state.
_NOTHING = (None,) * 7


def _foresee(
    row: sa.Row[Any], document: Mapping[str, Any] | None
) -> tuple[ShownStep, ...]:
    """Return the steps of an operation that no worker has claimed."""
    asked = (document or {}).get("operations", {})
    # A final operation that never ran will not run its steps.
    is_final = row.state in FINAL_STATES
    state = StepState.SKIPPED if is_final else StepState.PENDING
    # Of a run for which somebody chose some steps, the others are skipped.
    chosen = (row.details or {}).get(STEPS_KEY, asked)
    return tuple(
        ShownStep(name, state if name in chosen else StepState.SKIPPED, 0, *_NOTHING)
        for name in order_steps(asked)
    )
