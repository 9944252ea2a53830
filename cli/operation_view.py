"""An operation with its steps, as programs and people see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from rich.table import Table
from rich.text import Text

from actions.listing import fetch_documents
from cli.output import format_both, make_table, style_state
from models.errors import NotFoundError
from models.operation import OperationModel
from models.operation_state import LIVE_STATES, StepState
from operations.listing import fetch_operation, fetch_steps
from operations.running.estimates import Usual, estimate_steps
from overview.words import format_age

_STEP_KEYS = (
    "name",
    "state",
    "attempt",
    "started_at",
    "finished_at",
    "progress",
    "result",
    "error",
)

#: Columns of the row that keep their names; the others are renamed below.
_KEPT = (
    "queue",
    "state",
    "reason",
    "attempt",
    "recorded_at",
    "sent_at",
    "started_at",
    "finished_at",
    "worker",
    "progress",
)

#: Cells of a progress bar.
_BAR = 16

_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class ShownOperation:
    """
    A row of ``operations``, and its steps as dicts of _STEP_KEYS.

    Args:
        usual: How long steps took before, if it was asked for.
    """

    row: sa.Row[Any]
    steps: tuple[Mapping[str, Any], ...]
    usual: Mapping[str, Usual] = field(default_factory=dict)

    @property
    def is_final(self) -> bool:
        """Whether nothing but a retry changes it."""
        return self.row.state not in LIVE_STATES


def read_operation(connection: sa.Connection, operation_id: UUID) -> ShownOperation:
    """
    Return an operation and its steps.

    Raises:
        NotFoundError: There is none of that id.
    """
    row = fetch_operation(connection, operation_id)
    if row is None:
        msg = f"there is no operation {operation_id}"
        raise NotFoundError(msg)
    shown = add_steps(connection, [row])[0]
    running = [s["name"] for s in shown.steps if s["state"] == StepState.RUNNING]
    if not running:
        return shown
    usual = estimate_steps(connection, row.action_uid, running)
    return replace(shown, usual=usual)


def add_steps(
    connection: sa.Connection, rows: Sequence[sa.Row[Any]]
) -> list[ShownOperation]:
    """Return *rows* with their steps; before a claim those that will be."""
    if not rows:
        return []
    recorded = fetch_steps(connection, [row.id for row in rows])
    unclaimed = {
        (row.action_uid, row.action_revision) for row in rows if row.id not in recorded
    }
    documents = fetch_documents(connection, unclaimed) if unclaimed else {}
    shown = []
    for row in rows:
        if row.id in recorded:
            steps = [
                {key: getattr(step, key) for key in _STEP_KEYS}
                for step in recorded[row.id]
            ]
        else:
            document = documents.get((row.action_uid, row.action_revision))
            steps = _foresee(row, document)
        shown.append(ShownOperation(row, tuple(steps)))
    return shown


def _foresee(row: sa.Row[Any], document: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the steps of an operation that no worker has claimed."""
    asked = (document or {}).get("operations", {})
    # What is final without having run never will.
    live = row.state in LIVE_STATES
    state = StepState.PENDING if live else StepState.SKIPPED
    return [
        {**dict.fromkeys(_STEP_KEYS), "name": name, "state": state.value, "attempt": 0}
        for name in OperationModel.model_fields
        if name in asked
    ]


def make_operation_json(shown: ShownOperation) -> dict[str, Any]:
    """Return the object that ``operations show --json`` prints; its keys are fixed."""
    row = shown.row
    return {
        "id": row.id,
        "action_uid": row.action_uid,
        "action_revision": row.action_revision,
        "app": row.app,
        "occurrence": row.occurrence,
        "user": row.user_id,
        "trigger": row.trigger,
        # the original spelling: docs/origin.md
        "triggerrer": row.triggered_by,
        **{key: getattr(row, key) for key in _KEPT},
        "steps": [{**step, "eta": _find_eta(shown, step)} for step in shown.steps],
        "error": row.error,
        "details": row.details,
    }


def _find_eta(shown: ShownOperation, step: Mapping[str, Any]) -> datetime | None:
    """Return when a running step will end if it takes as long as usual."""
    usual = shown.usual.get(step["name"])
    if usual is None or step["state"] != StepState.RUNNING:
        return None
    started_at: datetime | None = step["started_at"]
    return None if started_at is None else started_at + usual.took


def _describe_eta(shown: ShownOperation, step: Mapping[str, Any]) -> str:
    eta = _find_eta(shown, step)
    if eta is None:
        return ""
    usual = shown.usual[step["name"]]
    took = f"{usual.took.total_seconds():.1f} s" if usual.took < _MINUTE else ""
    took = took or format_age(usual.took)
    return f"usually {took}, so until about {format_both(eta)}"


def format_progress(progress: Mapping[str, Any] | None) -> str:
    """Return how far a step is: ``2/3 countries``."""
    if not progress or not progress.get("total"):
        return ""
    done, total = progress["done"], progress["total"]
    filled = round(_BAR * done / total)
    bar = "━" * filled + "╌" * (_BAR - filled)
    return f"{bar} {done}/{total} {progress.get('note') or ''}".rstrip()


def format_result(result: Mapping[str, Any] | None) -> str:
    """Return what a step did, on one line: ``refreshed a, b; sent 3``."""
    if not result:
        return ""
    told = []
    for key, value in result.items():
        text = _format_value(value)
        if text:
            told.append(f"{key} {text}")
    return "; ".join(told)


def _format_value(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_format_value(each)}" for key, each in value.items())
    if isinstance(value, list):
        if any(isinstance(each, dict) for each in value):
            return str(len(value))
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def make_steps_table(shown: ShownOperation) -> Table:
    """Return the steps as a table."""
    table = make_table(("step", "state", "attempt", "started", "took", "what"))
    for step in shown.steps:
        what = step["error"] or format_result(step["result"])
        if step["state"] == StepState.RUNNING:
            told = (format_progress(step["progress"]), _describe_eta(shown, step))
            what = "; ".join(each for each in told if each)
        table.add_row(
            step["name"],
            style_state(step["state"]),
            str(step["attempt"] or "-"),
            format_both(step["started_at"]),
            format_took(step),
            Text(what, style="red" if step["error"] else ""),
        )
    return table


def format_took(row: Any) -> str:
    """Return the seconds from start to end of a row or step that has both."""
    if isinstance(row, Mapping):
        started, finished = row["started_at"], row["finished_at"]
    else:
        started, finished = row.started_at, row.finished_at
    if started is None or finished is None:
        return "-"
    return f"{(finished - started).total_seconds():.1f} s"
