"""
The mistakes that mutants make: each function does what the real one does, but for one
guard.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from unittest.mock import patch
from uuid import UUID

import sqlalchemy as sa

import actions.due_rows
import actions.lease
import actions.tick
import dispatch.watching
import operations.cancel_and_retry
import operations.claiming.claim
import operations.claiming.statements
import operations.record
import operations.running.step_records
import operations.sending.order
import operations.sending.tasks
from actions.lease import Leader
from actions.tally import Tally, tally
from actions.tick import Dispatched, TickReport
from dispatch.dispatcher import Dispatcher
from dispatch.outbox import Outbox
from dispatch.task_outbox import TaskOutbox
from dispatch.upkeep import Upkeep
from dispatch.watching import LateLook
from models.database.engine import Identifier, db_now, read_clock, writing
from models.database.tables import (
    AWAITING,
    PENDING,
    UNDER_WAY,
    deliveries,
    leases,
    operation_steps,
    scheduled_actions,
)
from models.database.tables import operations as rows
from models.database.transaction import Answer, Transaction
from models.decision import Decision
from models.errors import BrokerUnreachableError
from models.operation_state import MailState, OperationState, StepState
from operations.mail.delivery_marks import DeliveryMarks
from operations.mail.message import Mail
from operations.sending.order import mark_sent
from tests.simulation.database import get_database

# -- leaders -------------------------------------------------------------------


def check_nothing(self: Leader, transaction: Transaction) -> Callable[[], int]:
    """Take our own word for it that we lead."""
    del transaction
    return lambda: self._fence or 0


def take_any(ttl: timedelta) -> sa.Update:
    """Take the lease whether it has run out or not."""
    return _take(ttl).values(fence=leases.c.fence + 1)


def keep_fence(ttl: timedelta) -> sa.Update:
    """Take over without raising the fence."""
    return _take(ttl).where(leases.c.expires_at <= db_now())


def _take(ttl: timedelta) -> sa.Update:
    return (
        sa.update(leases)
        .where(leases.c.name == actions.lease.LEASE_NAME)
        .values(
            holder=sa.bindparam("our_token", type_=Identifier),
            hostname=sa.bindparam("host"),
            pid=sa.bindparam("process"),
            acquired_at=db_now(),
            expires_at=db_now(ttl),
        )
        .returning(leases.c.fence)
    )


def release_any(self: Leader) -> None:
    """Give the lease away, whoever holds it by now."""
    if self._fence is None:
        return
    with writing(self._engine) as connection:
        connection.execute(sa.update(leases).values(holder=None, expires_at=db_now()))
    self._fence = None


def look_until_all_is_done(self: Upkeep, *, until: float) -> None:
    """Do what there is to do, whatever minute begins meanwhile."""
    del until
    _UPKEEP(self, until=float("inf"))


_UPKEEP = Upkeep.look


# -- decisions -----------------------------------------------------------------


def advance_any(transaction: Transaction, decisions: Any) -> Callable[[], set[str]]:
    """Move actions on whatever their revision is by now."""
    kept = scheduled_actions.c
    found = transaction.connection.execute(sa.select(kept.uid, kept.revision))
    known = {row.uid: row.revision for row in found}
    latest = [
        Decision(d.action_uid, known[d.action_uid], d.next_due_at, d.operations)
        for d in decisions
    ]
    return _ADVANCE(transaction, latest)


_ADVANCE = actions.due_rows.ask_advance


def advance_nothing(transaction: Transaction, decisions: Any) -> Callable[[], set[str]]:
    """Leave every action where it is, as if it had moved."""
    del transaction
    return lambda: {decision.action_uid for decision in decisions}


def record_half(transaction: Transaction, new: Any, **options: Any) -> Any:
    """Lose the second of every two decisions."""
    return _RECORD(transaction, list(new)[::2], **options)


_RECORD = operations.record.ask_record


def make_own_id(*_arguments: object) -> UUID:
    """Give each decision an id of its own instead of its occurrence's."""
    return UUID(int=next(_numbers), version=4)


#: Ids that no two decisions share, in any world.
_numbers = itertools.count(1)


def make_cached_count() -> Callable[..., Counter[tuple[str, str | None]]]:
    """Count what is live from a cache that never forgets."""
    remembered: Counter[tuple[str, str | None]] = Counter()

    def count(connection: sa.Connection, uids: Any) -> Counter[tuple[str, str | None]]:
        live = _COUNT_LIVE(connection, uids)
        remembered.update({(uid, None): 1 for uid in uids})
        return live + remembered

    return count


_COUNT_LIVE = operations.record.count_live


# -- sending -------------------------------------------------------------------


def mark_all(transaction: Transaction, messages: Any, *, seconds_ago: float) -> Answer:
    """Mark messages as sent, whoever has claimed or done them meanwhile."""
    del seconds_ago
    ids = [message.id for message in messages]
    statement = (
        sa.update(rows)
        .where(rows.c.id.in_(ids))
        .values(state=OperationState.QUEUED, sent_at=db_now())
    )
    return transaction.ask(statement, {})


def send_before_commit(
    self: Outbox, transaction: Transaction, confirm: Any, **rest: Any
) -> Any:
    """Hand over what the transaction may still take back."""
    found = _LOOK(self, transaction, confirm, **rest)()
    if found:
        with contextlib.suppress(BrokerUnreachableError):
            self.sender.send(found)
        mark_sent(transaction, found)
    return lambda: ()


_LOOK = Outbox.look


# -- tasks of somebody's own -----------------------------------------------------


def mark_before_sending(self: TaskOutbox, name: str | None, batch: Any) -> int:
    """Believe that what a courier takes is sent."""
    taken = _HAND(self, name, batch)
    for each in batch[:taken]:
        self._note(each.message, operations.sending.tasks.mark_sent_task(each))
    return taken


_HAND = TaskOutbox._hand


def answered_whenever(given: sa.FromClause) -> sa.ColumnElement[bool]:
    """Take the answer to any attempt."""
    del given
    return sa.or_(LIVE, rows.c.state == OperationState.RUNNING)


def answered_when_marked(given: sa.FromClause) -> sa.ColumnElement[bool]:
    """Take no answer that is faster than its mark."""
    return sa.and_(rows.c.attempt == given.c.attempt, AWAITING.of())


def overdue_whatever(given: sa.FromClause) -> sa.ColumnElement[bool]:
    """Let the deadline end what has ended."""
    return rows.c.attempt == given.c.attempt


def read_any_token(secret: str, token: str) -> tuple[UUID, int]:
    """Believe whoever wrote the token."""
    del secret
    operation_id, attempt, _digest = token.split(".")
    return UUID(operation_id), int(attempt)


#: What a retry wrote before it counted on.
REOPENED_AS_BEFORE = {
    **operations.cancel_and_retry.REOPENED,
    "attempt": rows.c.attempt,
    "attempts_allowed": rows.c.attempt + 3,
}


# -- claims --------------------------------------------------------------------


def claim_where(*conditions: Any) -> Callable[[timedelta], Any]:
    """Build the claim with these conditions in place of its own."""

    def make(lease: timedelta) -> Any:
        original: Any = _CLAIM(lease)
        statement = original._clone()
        statement._where_criteria = (
            rows.c.id == sa.bindparam("operation_id"),
            *conditions,
        )
        return statement

    return make


_CLAIM = operations.claiming.statements.claim_statement

LIVE = rows.c.state.in_(["pending", "queued", "running"])
LEFT = rows.c.attempt < rows.c.attempts_allowed
RAN_OUT = sa.or_(rows.c.lease_expires_at.is_(None), rows.c.lease_expires_at <= db_now())


@contextlib.contextmanager
def leaving_lines_to_senders() -> Iterator[None]:
    """Send one of a line while none is under way, and claim whatever message comes."""
    other = rows.alias("other")
    beside = sa.exists().where(
        other.c.action_uid == rows.c.action_uid,
        other.c.user_id.is_not_distinct_from(rows.c.user_id),
        UNDER_WAY.of("other"),
    )
    order, statements = operations.sending.order, operations.claiming.statements
    in_line = PENDING.of(), rows.c.overlap == "queue", ~beside
    raw = get_database().raw
    guards = raw.execute(
        "SELECT name, sql FROM sqlite_master WHERE name LIKE '%line_claimed'"
    ).fetchall()
    for name, _sql in guards:
        raw.execute(f"DROP INDEX {name}")
    with (
        patch.object(
            order,
            "_select_first_of_lines",
            lambda _walk: order._select_sendable(*in_line),
        ),
        patch.object(order, "_sendable_statement", cache(_SENDABLE)),
        patch.object(statements, "HAS_TURN", sa.true()),
        patch.object(operations.claiming.claim, "claim_statement", _CLAIM.__wrapped__),
    ):
        yield
    raw.execute("DELETE FROM operations")
    for _name, sql in guards:
        raw.execute(sql)


_SENDABLE = operations.sending.order._sendable_statement.__wrapped__


def cancel_and_free(
    connection: sa.Connection, operation_id: UUID, *, reason: str
) -> bool:
    """Let others take what a worker has not stopped doing."""
    canceled = _CANCEL(connection, operation_id, reason=reason)
    connection.execute(
        sa.update(rows)
        .where(rows.c.id == operation_id)
        .values(claim_token=None, lease_expires_at=None)
    )
    return canceled


_CANCEL = operations.cancel_and_retry.cancel


def renew_all(lease: timedelta) -> Any:
    """Renew the lease of whatever runs, not only of our own."""
    return (
        sa.update(rows)
        .where(rows.c.state == OperationState.RUNNING)
        .values(lease_expires_at=db_now(lease))
        .returning(rows.c.claim_token)
    )


def guard_nothing(connection: sa.Connection, _held: Any) -> Any:
    """Believe that the claim holds still."""
    return read_clock(connection)


def finish_any(
    connection: sa.Connection, claim: Any, state: OperationState, **values: Any
) -> bool:
    """Make the operation final, whoever holds it by now."""
    connection.execute(
        sa.update(rows)
        .where(rows.c.id == claim.operation_id)
        .values(
            state=state,
            finished_at=db_now(),
            claim_token=None,
            lease_expires_at=None,
            **values,
        )
    )
    return True


# -- rescue --------------------------------------------------------------------


def rescue_none(_connection: sa.Connection) -> tuple[int, int]:
    """Forget the operations whose worker died."""
    return 0, 0


def resend_none(_connection: sa.Connection, *, empty_queues: Any) -> int:
    """Forget the messages that the broker lost."""
    del empty_queues
    return 0


def rescue_living(connection: sa.Connection) -> tuple[int, int]:
    """Take operations from workers whose lease holds."""
    done = connection.execute(
        sa.update(rows)
        .where(rows.c.state == OperationState.RUNNING, rows.c.attempt == 1)
        .values(
            state=OperationState.PENDING,
            send_at=db_now(),
            claim_token=None,
            lease_expires_at=None,
        )
    )
    return done.rowcount, 0


# -- steps and mails -----------------------------------------------------------


def start_blind(
    self: DeliveryMarks, recipient_id: str, mail: Mail | None = None
) -> MailState | None:
    """Send again what an earlier attempt may have sent."""
    found = _START(self, recipient_id, mail)
    return None if found is MailState.UNCERTAIN else found


def start_late(
    self: DeliveryMarks, recipient_id: str, mail: Mail | None = None
) -> MailState | None:
    """Look for a mark, but make none before the mail leaves."""
    del mail
    with writing(self.engine) as connection:
        found = connection.execute(
            sa.select(deliveries.c.state).where(
                deliveries.c.operation_id == self.claim.operation_id,
                deliveries.c.step == self.step,
                deliveries.c.recipient == recipient_id,
            )
        ).scalar_one_or_none()
    return MailState(found) if found else None


def start_again(
    self: DeliveryMarks, recipient_id: str, mail: Mail | None = None
) -> MailState | None:
    """Forget that a mail was sent."""
    _START(self, recipient_id, mail)
    return None


_START, _END = DeliveryMarks.start, DeliveryMarks.end


def uncertain_is_failed(
    self: DeliveryMarks, recipient_id: str, state: MailState, error: str | None = None
) -> None:
    """Take a mail whose fate is unknown for one that did not leave."""
    is_unsure = state is MailState.UNCERTAIN
    _END(self, recipient_id, MailState.FAILED if is_unsure else state, error)


def reset_steps(connection: sa.Connection, claim: Any, names: Any) -> Any:
    """Begin each attempt with the first step."""
    connection.execute(
        sa.update(operation_steps)
        .where(operation_steps.c.operation_id == claim.operation_id)
        .values(state=StepState.PENDING)
    )
    return _PREPARE(connection, claim, names)


_PREPARE = operations.running.step_records.prepare_steps


def close_no_steps(_connection: sa.Connection, _operation_ids: Any) -> None:
    """Leave open what will not run any more."""


def abandon_none(_connection: sa.Connection, _ids: Any, *, error: str) -> None:
    """Leave open what a lost worker left running."""
    del error


_run_look = actions.tick.run_look


def look_without_moving(
    now: datetime, *, dispatcher: Dispatcher, **given: Any
) -> TickReport:
    """Leave actions due at what a look has decided."""
    return _run_look(now, dispatcher=_Standing(dispatcher), **given)


@dataclass
class _Standing:
    """Dispatches decisions, and leaves their actions where they are."""

    real: Dispatcher

    def dispatch(self, decisions: Sequence[Decision]) -> Dispatched:
        """Move nothing on."""
        stay = [
            each._replace(next_due_at=each.operations[0].occurrence)
            for each in decisions
            if each.operations
        ]
        return self.real.dispatch(stay)

    def __getattr__(self, name: str) -> Any:
        """Do the rest as ever."""
        return getattr(self.real, name)


def forget_overtaken(*given: Any, **named: Any) -> Tally:
    """Let the latest run, and say nothing of the others."""
    return tally(*given, **named)._replace(overtaken=None)


def drop_nothing(
    _connection: sa.Connection, _actions: Any, events: Any, *, before: datetime
) -> Any:
    """Take for missed what was decided before the clock was set back."""
    del before
    return events


# -- lateness ------------------------------------------------------------------

_mark_late = dispatch.watching._judged_statement
_look_for_late = LateLook.look


def look_again(dialect: str) -> sa.Update:
    """Mark what is late, and look at it again in a while as if it were not."""
    return _mark_late(dialect).values(expected_at=db_now(timedelta(minutes=5)))


def tell_late_afterwards(self: LateLook) -> int:
    """Mark what is late, and tell of it in a transaction of its own."""
    notes: Any = _Notes()
    judged = _look_for_late(replace(self, noticer=notes))
    if notes.troubles:
        with writing(self.engine) as connection:
            self.leader.check(connection)
            self.noticer.add(connection, notes.troubles, now=read_clock(connection))
    return judged


@dataclass
class _Notes:
    """Keeps what a noticer is told."""

    troubles: Sequence[Any] = ()

    def add(self, _connection: Any, troubles: Sequence[Any], *, now: datetime) -> None:
        """Keep it."""
        del now
        self.troubles = troubles
