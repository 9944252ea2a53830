"""
How long an operation took, everywhere: while it ran, not while it waited.

An operation that failed and was run again hours later did not take hours, and they say
nothing of how long its next run will take.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from models.database.sql_time import seconds_between
from models.database.tables import operation_steps, operations
from models.operation_state import StepState

#: Key in the details of an operation: its attempts that ended without success.
ATTEMPTS_KEY = "attempts"

_ENDED = (StepState.SUCCEEDED, StepState.FAILED)


def seconds_taken(
    kept: ReadOnlyColumnCollection[str, Any] = operations.c,
) -> sa.ColumnElement[float]:
    """
    SQL expression: the seconds that an operation ran; null if it has not ended.

    From its start to its end, if it ran once. Otherwise only what its steps took that
    ended, each in the last attempt at it: nobody waits for what lies between attempts.

    Args:
        kept: The columns of ``operations``, or of a query that has all that are used.
    """
    steps = operation_steps.c
    of_steps = (
        sa.select(sa.func.sum(seconds_between(steps.started_at, steps.finished_at)))
        .where(steps.operation_id == kept.id, steps.state.in_(_ENDED))
        .scalar_subquery()
    )
    # What had to wait for the platform was tried before, although it does not count.
    ran_once = sa.and_(
        kept.attempt <= 1, kept.details[ATTEMPTS_KEY].as_string().is_(None)
    )
    return sa.case(
        (sa.or_(kept.started_at.is_(None), kept.finished_at.is_(None)), sa.null()),
        (ran_once, seconds_between(kept.started_at, kept.finished_at)),
        else_=of_steps,
    )


def read_taken(seconds: float | None) -> timedelta | None:
    """Return what ``seconds_taken`` found."""
    return None if seconds is None else timedelta(seconds=seconds)
