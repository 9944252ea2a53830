"""Begin an operation again with a step that somebody names."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from models.database.lists import fetch_documents
from models.database.tables import operations
from models.errors import ConflictError, UsageError
from models.fields.strict_model import find_near
from models.operation import order_steps
from models.operation_state import StepState
from operations.claiming.claimed import RETURN_KEY, STEPS_KEY
from operations.list_operations import fetch_steps
from operations.running.step_records import reset_steps


def find_repeated(
    connection: sa.Connection, row: sa.Row[Any], from_step: str
) -> list[str]:
    """
    Return the steps that run again if *from_step* is the first of them.

    Raises:
        UsageError: The operation has no such step.
        ConflictError: A step before it has not succeeded: what follows may need it.
    """
    kept = fetch_steps(connection, [row.id]).get(row.id, [])
    states = {step.name: step.state for step in kept}
    # Before its first claim, an operation has no rows of steps.
    names = list(states) or _fetch_step_names(connection, row)
    # Of a run for which somebody chose some steps, the others stay skipped.
    chosen = (row.details or {}).get(STEPS_KEY, names)
    names = [name for name in names if name in chosen]
    if from_step not in names:
        near = find_near(from_step, names)
        meant = "" if near is None else f"Did you mean {near!r}? "
        raise UsageError(
            f"operation {row.id} has no step {from_step!r}."
            f" {meant}Its steps: {', '.join(names)}."
        )
    place = names.index(from_step)
    undone = [n for n in names[:place] if states.get(n) != StepState.SUCCEEDED]
    if undone:
        raise ConflictError(
            f"the step {undone[0]!r}, before {from_step!r}, has not succeeded."
            f" Begin with {undone[0]!r}, or name no step"
        )
    return names[place:]


def _fetch_step_names(connection: sa.Connection, row: sa.Row[Any]) -> list[str]:
    key = row.action_uid, row.action_revision
    document = fetch_documents(connection, [key]).get(key, {})
    return list(order_steps(document.get("operations", {})))


def repeat_steps(connection: sa.Connection, row: sa.Row[Any], again: list[str]) -> None:
    """Forget what the steps *again* did, but for the marks of their mails."""
    reset_steps(connection, row.id, again)
    values: dict[str, Any] = {"progress": None}
    if row.details and RETURN_KEY in row.details:
        # Uncertain mails were to be sent again, and the operation was to return to its
        # former state then. Now it runs as a whole.
        kept = {key: each for key, each in row.details.items() if key != RETURN_KEY}
        values["details"] = kept or None
    connection.execute(
        sa.update(operations).where(operations.c.id == row.id).values(**values)
    )
