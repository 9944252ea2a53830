"""The statements with which a worker claims an operation; claim.py executes them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate

from models.database.engine import Identifier, UtcDateTime, db_now
from models.database.tables import (
    CLAIMED_HEAVY,
    IS_REVISION,
    NOT_AWAITING,
    operation_steps,
    operations,
    scheduled_action_revisions,
    scheduled_actions,
)
from models.operation import STEP_NAMES
from models.operation_state import OperationState, Queue, StepState
from operations.claiming.claimed import CLAIMED, nothing_can_stop
from operations.turns import HAS_TURN, PAUSED

_run = operations.c


@cache
def claim_statement(lease: timedelta) -> ReturningUpdate[Any]:
    """Claim an operation that waits, or whose lease ran out, if attempts are left."""
    other = operations.alias("other")
    heavy_runs = sa.exists().where(
        other.c.app == _run.app, CLAIMED_HEAVY.of("other"), other.c.id != _run.id
    )
    waits = sa.and_(
        sa.or_(
            # Who was sent has waited: its time may lie ahead only by another clock.
            _run.state == OperationState.QUEUED,
            sa.and_(_run.state == OperationState.PENDING, _run.send_at <= db_now()),
        ),
        # If it was canceled and retried, its former worker may still be running it.
        _run.claim_token.is_(None),
        # A late copy of its message must not send its task again.
        NOT_AWAITING.of(),
    )
    lost = _run.state == OperationState.RUNNING
    return (
        sa.update(operations)
        .where(
            _run.id == sa.bindparam("operation_id"),
            sa.or_(waits, sa.and_(lost, _run.lease_expires_at <= db_now())),
            _run.attempt < _run.attempts_allowed,
            sa.or_(_run.queue != Queue.HEAVY, ~heavy_runs),
            HAS_TURN,
            # Its message was sent before the pause; the leader will send another.
            _run.queue.not_in(PAUSED),
        )
        .values(
            state=OperationState.RUNNING,
            reason=None,
            attempt=_run.attempt + 1,
            claim_token=sa.bindparam("token"),
            lease_expires_at=db_now(lease),
            worker=sa.bindparam("worker"),
            started_at=sa.func.coalesce(_run.started_at, db_now()),
        )
        .returning(
            _run.id,
            _run.claim_token,
            *(_run[name] for name in CLAIMED),
            *_look_up_action(),
            db_now().label("claimed_at"),
        )
    )


def _look_up_action() -> Iterator[sa.Label[Any]]:
    """Yield the document of the recorded revision, and whether the action is active."""
    document = (
        sa.select(scheduled_action_revisions.c.document)
        .where(IS_REVISION)
        .scalar_subquery()
    )
    active = (
        sa.select(scheduled_actions.c.active)
        .where(
            scheduled_actions.c.uid == _run.action_uid,
            scheduled_actions.c.deleted_at.is_(None),
        )
        .scalar_subquery()
    )
    yield document.label("document")
    yield active.label("action_active")


@cache
def claim_and_begin_statement(lease: timedelta) -> sa.Select[Any]:
    """
    Claim, and insert the steps if this is a first attempt that nothing can stop.

    For PostgreSQL, in one round trip. ``begun`` is the number of inserted steps.
    """
    claimed = claim_statement(lease).cte("claimed")
    asked = sa.cast(claimed.c.document, JSONB)
    names = sa.literal(list(STEP_NAMES), sa.ARRAY(sa.Text))
    steps = sa.func.unnest(names).table_valued(
        sa.column("name", sa.Text), with_ordinality="place", name="steps"
    )
    steps = steps.render_derived()
    position = sa.func.row_number().over(order_by=steps.c.place) - 1
    first = position == 0
    chosen = (
        sa.select(
            claimed.c.id,
            position,
            steps.c.name,
            sa.case((first, StepState.RUNNING), else_=StepState.PENDING),
            sa.case((first, 1), else_=0),
            sa.case((first, db_now())),
        )
        .join_from(claimed, steps, asked["operations"].has_key(steps.c.name))
        .where(claimed.c.attempt == 1, *nothing_can_stop(claimed, asked))
    )
    begun = _insert_steps(chosen).cte("begun")
    count = sa.select(sa.func.count()).select_from(begun).scalar_subquery()
    return sa.select(claimed, count.label("begun"))


@cache
def begin_statement(names: tuple[str, ...]) -> ReturningInsert[int]:
    """Insert the steps of ``claimed_id``; the first one is running."""
    rows = [
        sa.select(
            sa.bindparam("claimed_id", type_=Identifier),
            sa.literal_column(str(position), sa.Integer),
            sa.literal(name, sa.Text),
            sa.literal(StepState.PENDING if position else StepState.RUNNING, sa.Text),
            sa.literal_column("0" if position else "1", sa.Integer),
            sa.cast(sa.null(), UtcDateTime) if position else db_now(),
        )
        for position, name in enumerate(names)
    ]
    # SQLite reads ON CONFLICT after SELECT as a join unless there is a WHERE between
    return _insert_steps(sa.union_all(*rows[:-1], rows[-1].where(sa.true())))


def _insert_steps(chosen: sa.SelectBase) -> ReturningInsert[int]:
    """Insert *chosen* steps, except those left by an attempt that was given back."""
    columns = ["operation_id", "position", "name", "state", "attempt", "started_at"]
    return (
        insert(operation_steps)
        .from_select(columns, chosen)
        .on_conflict_do_nothing()
        # not every dialect reports the number of rows of an INSERT
        .returning(operation_steps.c.position)
    )
