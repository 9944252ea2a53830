"""
Rescue operations whose message or worker was lost.

The leader does this every few seconds. Operations that are made pending here are sent
within a second.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.back_off import LOSS_DELAY, read_back_off
from models.database.engine import (
    Identifier,
    UtcDateTime,
    db_now,
    json_rows,
    make_rows_json,
    read_clock,
)
from models.database.lists import select_given
from models.database.tables import (
    CLAIMED,
    IS_REVISION,
    NO_CLAIM,
    PENDING,
    QUEUED,
    operations,
    scheduled_action_revisions,
)
from models.database.transaction import AtOnce
from models.operation_state import OperationState, Queue, Reason, Trigger
from operations.following import record_following
from operations.running.step_records import abandon_steps, find_held_ends
from operations.turns import EACH_LANE, select_queued

_run = operations.c

#: An unclaimed message is considered lost after this time if its queue is empty, or if
#: the operation of a message that was sent this much later is running: lanes are first
#: in, first out.
LOST_AFTER = timedelta(minutes=2)

#: If neither is known, the message is sent again after 1 h, 2 h, 4 h, ...: rarely
#: enough not to flood a queue that is merely slow.
RESEND_AFTER = timedelta(hours=1)

#: Lost messages that are given back in one transaction: a broker may have lost all of a
#: million, and this is a part of what is done between ticks.
RESENT_AT_ONCE = 5_000

#: An operation fails when this many processes have died while running it; the first may
#: have died for another reason.
KILLS_ALLOWED = 2

#: States of an operation that may still have the claim of a lost worker, although it
#: does not run. Never queued: what is claimed is not sent.
_STOPPED = sorted(set(OperationState) - {OperationState.RUNNING, OperationState.QUEUED})

_EXPIRED = (
    CLAIMED.of(),
    _run.state == OperationState.RUNNING,
    _run.lease_expires_at <= db_now(),
)
_attempts_left = _run.attempts_allowed - _run.attempt
_FAILED = {"state": OperationState.FAILED, "finished_at": db_now(), **NO_CLAIM}

#: What makes an operation wait for its message.
_PENDING = {"state": OperationState.PENDING, "send_at": db_now()}

# These statements run all day and mostly find nothing: they are built only once. What
# somebody has locked is for the next look: it must not hold up the others.


def _select_free(*where: Any) -> sa.Select[UUID]:
    return sa.select(_run.id).where(*where).with_for_update(skip_locked=True)


@cache
def _canceled_statement() -> sa.Executable:
    """End the claims of lost workers on canceled operations."""
    ended = (CLAIMED.of(), _run.state.in_(_STOPPED), _run.lease_expires_at <= db_now())
    free = _run.id.in_(_select_free(*ended))
    return sa.update(operations).where(*ended, free).values(**NO_CLAIM)


_SELECT_EXHAUSTED = _select_free(*_EXPIRED, _attempts_left <= 0)


@cache
def _expired_statement() -> sa.Select[Any]:
    # Between two statements another lease may have run out, and its operation may have
    # no attempt left.
    return (
        sa.select(_run.id, _attempts_left, scheduled_action_revisions.c.document)
        .outerjoin(scheduled_action_revisions, IS_REVISION)
        .where(*_EXPIRED, _attempts_left > 0)
        .with_for_update(of=operations, skip_locked=True)
    )


@cache
def _return_statement(dialect: str) -> sa.Update:
    given = json_rows(dialect, {"id": Identifier, "pause_s": sa.Float()}, "given")
    return (
        sa.update(operations)
        .where(_run.id == given.c.id, *_EXPIRED, _attempts_left > 0)
        .values(
            state=OperationState.PENDING,
            reason=Reason.WORKER_LOST,
            send_at=db_now(given.c.pause_s),
            **NO_CLAIM,
        )
    )


def reclaim_lost_workers(connection: sa.Connection) -> tuple[int, int]:
    """
    Take operations from workers whose lease ran out.

    Returns:
        How many operations wait for their next attempt, and how many failed.
    """
    connection.execute(_canceled_statement())
    exhausted = connection.scalars(_SELECT_EXHAUSTED).all()
    held = find_held_ends(AtOnce(connection), exhausted)
    failed = [each for each in exhausted if each not in held]
    if failed:
        error = "in every attempt, the worker was lost"
        which = _run.id.in_(select_given(connection, failed))
        _update(connection, which, reason=Reason.WORKER_LOST, error=error, **_FAILED)
        _end_steps(connection, failed, Reason.WORKER_LOST)
    rows = []
    for id_, left, document in connection.execute(_expired_statement()):
        pause = read_back_off(document or {}).find_pause(LOSS_DELAY, left=left)
        rows.append({"id": id_, "pause_s": pause.total_seconds()})
    if not rows:
        return 0, len(failed)
    returned = connection.execute(
        _return_statement(connection.dialect.name), {"given": make_rows_json(rows)}
    )
    return returned.rowcount, len(failed)


def _end_steps(connection: sa.Connection, failed: Sequence[UUID], error: str) -> None:
    """Close the steps of operations that failed, and record what follows these."""
    abandon_steps(connection, failed, error=error)
    record_following(connection, failed)


def fail_at_time_limit(
    connection: sa.Connection, operation_id: UUID, *, worker_suffix: str
) -> int:
    """
    Make an operation final whose process was killed at the hard time limit.

    Args:
        operation_id: The operation that was running.
        worker_suffix: End of the worker's name; another worker's claim is left alone.

    Returns:
        1, or 0 if that worker does not run the operation any more.
    """
    error = "the hard time limit was reached, and the process was killed"
    values = {"reason": Reason.TIME_LIMIT, "error": error, **_FAILED}
    mine = _run.id == operation_id, _is_run_by(worker_suffix)
    failed = _update(connection, *mine, **values)
    if failed:
        _end_steps(connection, [operation_id], Reason.TIME_LIMIT)
    return failed


def expire_claim(
    connection: sa.Connection, operation_id: UUID, *, worker_suffix: str
) -> int:
    """
    End the lease of an operation whose process died, for ``reclaim_lost_workers``.

    Arguments and result are as in ``fail_at_time_limit``.
    """
    claimed = _run.id == operation_id, _run.claim_token.is_not(None)
    now = db_now()
    return _update(connection, *claimed, _is_of(worker_suffix), lease_expires_at=now)


def count_kill(
    connection: sa.Connection, operation_id: UUID, *, worker_suffix: str, cause: str
) -> int:
    """
    Retry an operation that killed its process, or fail it the second time.

    An operation that took all memory of one process, or crashed it, would also kill the
    next one, and with it other work on the same host.

    Args:
        operation_id: The operation that was running.
        worker_suffix: End of the worker's name; another worker's claim is left alone.
        cause: Why the process died, for the operator.

    Returns:
        1, or 0 if that worker does not run the operation any more.
    """
    kills = connection.execute(
        sa.update(operations)
        .where(_run.id == operation_id, _is_run_by(worker_suffix))
        .values(kills=_run.kills + 1, lease_expires_at=db_now())
        .returning(_run.kills)
    ).scalar_one_or_none()
    if kills is None:
        return expire_claim(connection, operation_id, worker_suffix=worker_suffix)
    if kills >= KILLS_ALLOWED:
        error = (
            f"{kills} processes died of this operation ({cause}). Let it do less at a "
            "time, or give the workers more memory; then retry it (minutehand "
            "operations retry ID)"
        )
        reason = f"{Reason.PROCESS_KILLED}: {cause}"
        dead = _run.id == operation_id
        _update(connection, dead, reason=reason, error=error, **_FAILED)
        _end_steps(connection, [operation_id], error)
    return 1


def give_back_all(connection: sa.Connection, *, worker_suffix: str) -> int:
    """
    Make pending at once all operations of a worker that is about to end.

    These attempts do not count, because they did not fail.

    Args:
        worker_suffix: End of the names of the worker's processes, which are dead.

    Returns:
        How many operations were given back.
    """
    uncounted = {**_PENDING, "attempt": _run.attempt - 1, **NO_CLAIM}
    return _update(connection, _is_run_by(worker_suffix), **uncounted)


def _update(connection: sa.Connection, *where: Any, **values: object) -> int:
    update = sa.update(operations).where(*where)
    return connection.execute(update.values(values)).rowcount


def _is_run_by(worker_suffix: str) -> sa.ColumnElement[bool]:
    return sa.and_(_run.state == OperationState.RUNNING, _is_of(worker_suffix))


def _is_of(worker_suffix: str) -> sa.ColumnElement[bool]:
    return _run.worker.endswith(worker_suffix, autoescape=True)


def resend_lost_messages(
    connection: sa.Connection, *, empty_queues: Collection[Queue]
) -> int:
    """
    Make operations pending whose messages were sent and are considered lost.

    If a message was not lost after all, it arrives twice, and one copy is rejected.

    Args:
        empty_queues: Queues that are empty at the broker now: an unclaimed message that
            was sent to one of them minutes ago is lost.

    Returns:
        How many will be sent again, under the same id: those that were sent first, and
        at most ``RESENT_AT_ONCE``. The others follow at the next call.
    """
    found = connection.execute(_newest_running_statement()).all()
    newest = {(queue, lane): sent_at for queue, lane, sent_at in found}
    now = read_clock(connection)
    old_before = now - RESEND_AFTER
    bounds: dict[str, Any] = {"at_most": RESENT_AT_ONCE}
    for queue, lane in EACH_LANE:
        lost_before = now if queue in empty_queues else newest.get((queue, lane))
        if lost_before is not None:
            lost_before -= LOST_AFTER
        bounds[_name_bound("lost", queue, lane)] = lost_before
        seen_before = max(old_before, lost_before or old_before)
        bounds[_name_bound("seen", queue, lane)] = seen_before
    lost = connection.scalars(_lost_statement(), bounds).all()
    if not lost:
        return 0
    # By their ids, not in one statement: it would find out which they are for each that
    # is with the broker, if statistics say that none is.
    given = _run.id.in_(select_given(connection, lost))
    free = connection.scalars(_select_free(given, QUEUED.of())).all()
    return _update(connection, _run.id.in_(select_given(connection, free)), **_PENDING)


def _name_bound(kind: str, queue: Queue, lane: int) -> str:
    return f"{kind}_{queue.value}_{lane}"


@cache
def _newest_running_statement() -> sa.Select[str, int, datetime]:
    """Find, for each lane, the latest sending of an operation that runs now."""
    return (
        sa.select(_run.queue, _run.lane, sa.func.max(_run.sent_at))
        .where(
            CLAIMED.of(),
            _run.state == OperationState.RUNNING,
            # An operation that was sent twice may run because of the first message,
            # which was ahead of all that were sent between the two.
            _run.sends == 1,
        )
        .group_by(_run.queue, _run.lane)
    )


@cache
def _lost_statement() -> sa.Select[UUID]:
    age = sa.case(
        *(
            (_run.sends == sends, db_now(-RESEND_AFTER * 2 ** (sends - 1)))
            for sends in (1, 2)
        ),
        else_=db_now(-RESEND_AFTER * 4),
    )
    at_most = sa.bindparam("at_most", type_=sa.Integer)

    def select_lost(queue: Queue, lane: int) -> sa.Select[UUID]:
        lost, seen = (
            sa.bindparam(_name_bound(kind, queue, lane), type_=UtcDateTime)
            for kind in ("lost", "seen")
        )
        # No more of a lane is read than is sent again at once: behind many that were
        # sent again before, and are not old enough, are others that wait as long.
        first = (
            select_queued(queue, lane, _run.id, _run.sent_at, age)
            .where(_run.sent_at <= seen)
            .limit(at_most)
            .subquery()
        )
        id_, sent_at, old_at = first.c
        is_lost = sa.or_(sent_at <= lost, sent_at <= old_at)
        return sa.select(id_, sent_at).where(sent_at <= db_now(-LOST_AFTER), is_lost)

    found = sa.union_all(*(select_lost(*lane) for lane in EACH_LANE)).subquery()
    id_, sent_at = found.c
    return sa.select(id_).order_by(sent_at).limit(at_most)


def date_back(connection: sa.Connection, *, lease: timedelta, at_most: int) -> int:
    """
    Date operations back that lie ahead since the database's clock was set back.

    What waits to be sent is sent now, unless it waits for the end of a task, or for the
    delay after another action. Messages count as sent now, and leases as renewed now;
    otherwise nobody would notice their loss until the clock has caught up.

    Args:
        connection: In a transaction of the leader's own.
        lease: How long a claim lasts without renewal.
        at_most: How many operations of each kind to change.

    Returns:
        The largest number that was changed of one kind: less than *at_most* if none
        is left.
    """
    return max(
        connection.execute(statement, {"at_most": at_most}).rowcount
        for statement in _ahead_statements(lease)
    )


@cache
def _ahead_statements(lease: timedelta) -> tuple[sa.Update, ...]:
    kept, leased_until = operations.c, db_now(lease)
    is_delayed = sa.and_(kept.trigger == Trigger.ACTION, kept.attempt == 0)
    of_task = sa.and_(kept.reason.is_not(None), kept.reason.startswith(Reason.TASK))
    kinds = (
        (PENDING.of(), kept.send_at, db_now(), ~(of_task | is_delayed)),
        (QUEUED.of(), kept.sent_at, db_now(), sa.true()),
        (CLAIMED.of(), kept.sent_at, db_now(), sa.true()),
        (CLAIMED.of(), kept.lease_expires_at, leased_until, sa.true()),
    )
    return tuple(
        sa.update(operations)
        .where(
            kept.id.in_(
                sa.select(kept.id)
                .where(rows, column > latest, condition)
                .limit(sa.bindparam("at_most", type_=sa.Integer))
                # Whoever holds one now writes by the new clock, and is not waited for.
                .with_for_update(skip_locked=True)
            )
        )
        .values({column: latest})
        for rows, column, latest, condition in kinds
    )


def take_over_all(connection: sa.Connection) -> None:
    """
    Rescue at once all operations of a former process whose broker was in its memory.

    The broker has ended with that process: no message is left, and nobody will finish
    what was running.
    """
    _update(connection, QUEUED.of(), **_PENDING)
    _update(connection, CLAIMED.of(), lease_expires_at=db_now())
