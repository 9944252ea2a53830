"""
Record what follows an operation that ends: runs of actions with ``after_action``.

In the very transaction that ends it, by whoever does that. The id of what follows is
made from the one that ended, so a retry that ends again starts nothing a second time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import Identifier
from models.database.lists import select_given
from models.database.tables import operations, scheduled_actions
from models.decision import AFTER_KEY, NewOperation, make_triggered_by
from models.errors import RuleError
from models.fields.duration import Duration
from models.fields.zone import load_zone
from models.occurrence import make_after_id
from models.operation_state import ENDINGS, OperationState, Overlap, Trigger
from operations.record import make_operation, record

_run = operations.c
_waiting = scheduled_actions.alias("waiting")
_former = scheduled_actions.alias("former")

_WAITS = (
    _waiting.c.follows == _run.action_uid,
    _waiting.c.app == _run.app,
    _waiting.c.deleted_at.is_(None),
)

#: Whether some action waits for the end of an operation: asked in the statement that
#: ends it, so that what nobody follows costs no statement more.
IS_FOLLOWED = sa.exists().where(*_WAITS).correlate(operations)


def record_following(connection: sa.Connection, ended: Collection[UUID]) -> None:
    """
    Record the runs that follow the operations *ended*.

    Args:
        connection: In the transaction that ended them. Their state decides: what was
            skipped or missed never began, and starts nothing. Nor does a backfill: it
            repeats the past, and not what came of it.
    """
    if not ended:
        return
    rows = connection.execute(_select_following(select_given(connection, ended)))
    new = [each for row in rows for each in _make(row)]
    if not new:
        return
    _lock_lines(connection, new)
    recorded = record(connection, new)
    # They were recorded to be sent at once; those with a delay are sent after it.
    if recorded:
        connection.execute(_PUT_OFF, [{"later": each} for each in recorded])


_PUT_OFF = (
    sa.update(operations)
    .where(
        _run.id == sa.bindparam("later", type_=Identifier),
        _run.occurrence > _run.send_at,
    )
    .values(send_at=_run.occurrence)
)


@dataclass(frozen=True, slots=True)
class FollowingRun:
    """A run that began because another one had ended."""

    operation: UUID
    action_uid: str
    action_name: str
    state: OperationState


def fetch_following(
    connection: sa.Connection, operation_id: UUID, action_uid: str
) -> tuple[FollowingRun, ...]:
    """Return the runs that followed an operation of *action_uid*, by action."""
    waiting = connection.execute(
        sa.select(_waiting.c.uid, _waiting.c.name)
        .where(_waiting.c.follows == action_uid, _waiting.c.deleted_at.is_(None))
        .order_by(_waiting.c.name)
    ).all()
    ids = {make_after_id(row.uid, operation_id): row for row in waiting}
    recorded = sa.select(_run.id, _run.state).where(_run.id.in_(list(ids)))
    states = dict(connection.execute(recorded).all())
    return tuple(
        FollowingRun(id_, row.uid, row.name, OperationState(states[id_]))
        for id_, row in ids.items()
        if id_ in states
    )


def find_followers(
    connection: sa.Connection, operation_ids: Collection[UUID]
) -> Sequence[sa.Row[Any]]:
    """Return ``ended_id`` and ``uid`` of each action that waits for the end of one."""
    if not operation_ids:
        return ()
    ended = _run.id.in_(select_given(connection, operation_ids))
    kept: sa.Select[Any] = sa.select(_run.id.label("ended_id"), _waiting.c.uid)
    return connection.execute(kept.where(ended, *_WAITS)).all()


def _select_following(ended: sa.Select[UUID]) -> sa.Select[Any]:
    """Find the actions that wait for an end like that of the *ended* operations."""
    as_wanted = (
        sa.and_(_waiting.c.follows_on == on, _run.state.in_(sorted(states)))
        for on, states in ENDINGS.items()
    )
    names = (
        *("uid", "app", "name", "revision", "queue", "overlap", "attempts_allowed"),
        *("delay", "zone", "starts_at", "ends_at", "expected_after_s"),
    )
    return (
        sa.select(
            *(_waiting.c[name] for name in names),
            *(_run.id.label("ended_id"), _run.state, _run.finished_at),
            _former.c.uid.label("former_uid"),
            _former.c.name.label("former_name"),
        )
        .select_from(operations)
        .join(_waiting, sa.and_(*_WAITS))
        .join(_former, _former.c.uid == _run.action_uid)
        .where(
            _run.id.in_(ended),
            sa.or_(*as_wanted),
            _run.trigger != Trigger.BACKFILL,
            _waiting.c.active,
            _waiting.c.paused_at.is_(None),
            _waiting.c.quarantined_at.is_(None),
            _waiting.c.effective_from <= _run.finished_at,
        )
        # in one order, in which lines are locked, too
        .order_by(_waiting.c.uid, _run.finished_at, _run.id)
    )


def _make(row: sa.Row[Any]) -> Iterator[NewOperation]:
    """Yield the run that follows, if it is within the bounds of its action."""
    try:
        delay, zone = Duration.parse(row.delay), load_zone(row.zone)
        due_at = delay.added_to(row.finished_at, zone).replace(microsecond=0)
    except (OverflowError, RuleError):  # no such year; a zone that was withdrawn
        return
    if row.starts_at is not None and due_at < row.starts_at:
        return
    if row.ends_at is not None and due_at >= row.ends_at:
        return
    yield make_operation(
        row,
        id=make_after_id(row.uid, row.ended_id),
        trigger=Trigger.ACTION,
        triggered_by=make_triggered_by(row.name),
        occurrence=due_at,
        details={
            AFTER_KEY: {
                "operation": str(row.ended_id),
                "action": row.former_uid,
                "name": row.former_name,
                "state": row.state,
            }
        },
    )


def _lock_lines(connection: sa.Connection, new: Sequence[NewOperation]) -> None:
    """Lock the actions whose live operations decide, as ``record`` expects."""
    uids = {each.action_uid for each in new if each.overlap is not Overlap.ALLOW}
    if uids:
        kept = scheduled_actions.c
        connection.execute(
            sa.select(kept.uid)
            .where(kept.uid.in_(uids))
            .order_by(kept.uid)
            .with_for_update(key_share=True)
        )
