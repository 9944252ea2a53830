"""
Record, commit, send: how decisions become messages.

Decisions are recorded first, in one transaction under the leader's fence, and sent
after the commit. If we crash in between, the recorded rows are sent later, under the
same ids. In the opposite order, a run could be lost.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import sqlalchemy as sa
import structlog

from actions.due_rows import advance, quarantine
from actions.leader import (
    Leader,
    LeadershipLostError,
    clear_send_failure,
    record_send_failure,
)
from actions.tick import Bad, Dispatched
from models.database.engine import read_clock, writing
from models.database.tables import scheduled_actions
from models.decision import Decision, NewOperation
from models.errors import BrokerUnreachableError
from models.operation_state import OperationState, Queue, Trigger
from models.recipients import RecipientFilterModel
from operations.adapters.app_users import fetch_users
from operations.recipients import keeps_triggering_user
from operations.record import record
from operations.rescue import reclaim_lost_workers, resend_lost_messages
from operations.sending.order import Message, fetch_sendable, fetch_share, mark_sent
from telemetry import (
    MESSAGES_SENT,
    OCCURRENCES_RECORDED,
    OPERATIONS_RESCUED,
    SEND_ERRORS,
    SEND_LAG,
    Event,
)

log = structlog.get_logger()


#: Seconds until a broker that failed is tried again.
SILENCE_S = 5.0

#: The name in metrics of each state in which an operation is recorded.
DECISIONS = {
    OperationState.PENDING: "dispatched",
    OperationState.SKIPPED: "skipped",
    OperationState.MISSED: "missed",
}


class Sender(Protocol):
    """The broker, as a dispatcher sees it; see celery_app/operation_sender.py."""

    def send(self, messages: Sequence[Message]) -> None:
        """Hand over *messages*; after UnreachableError any of them may have arrived."""

    def find_empty_queues(self) -> set[Queue]:
        """Return the queues that are empty now."""


@dataclass(slots=True)
class Dispatcher:
    """
    The writing half of a leader.

    Args:
        engine: The scheduler's engine.

        leader: Checked inside every transaction.

        sender: Hands messages to the broker.

        chunk: Half of the messages that are sent between two commits, at most.

        monotonic: Returns seconds that never jump; times the pause after a failure.

        part: From 0 to 1: the part of the quick queue's slots that one app may take
            while others wait.
    """

    engine: sa.Engine
    leader: Leader
    sender: Sender
    chunk: int
    monotonic: Callable[[], float] = time.monotonic
    part: float = 1.0
    _share: int | None = None
    _share_known: bool = False
    _silent_until: float = float("-inf")
    _is_failing: bool = False

    def dispatch(
        self,
        decisions: Sequence[Decision],
        bad: Sequence[Bad] = (),
    ) -> Dispatched:
        """
        Record *decisions*, put *bad* actions into quarantine, commit, and send.

        Raises:
            LeadershipLostError: Nothing was written.

            UnreachableError: The database is away; nothing was written. (A broker
                that is away is not an error here: the operations are sent later.)
        """
        led_as = self.leader.fence
        # If the lease ran out and was taken again, this is another leadership: another
        # scheduler may have led in between and decided the same, and more.
        if not self.leader.hold() or self.leader.fence != led_as:
            msg = "the lease ran out while these decisions were made"
            raise LeadershipLostError(msg)
        with writing(self.engine) as connection:
            fence = self.leader.check(connection)
            moved = advance(connection, decisions)
            new = [
                operation
                for decision in decisions
                if decision.action_uid in moved
                for operation in decision.operations
            ]
            recorded = record(connection, _keep_wanted(connection, new), fence=fence)
            for action, reason in bad:
                quarantine(connection, action, reason, now=read_clock(connection))
            # In the same transaction, because the query costs less than a transaction.
            messages, more = self._look(connection)
        _count_decisions(recorded.values())
        sent = self._try(messages)
        return Dispatched(
            len(recorded), sent + (self.send_waiting() if more and sent else 0)
        )

    def hold_back(self) -> None:
        """Send nothing from now on: the broker cannot be reached from this process."""
        self._silent_until = float("inf")

    def send_waiting(self) -> int:
        """
        Send what waits, oldest first, until nothing more may be sent now.

        Returns:
            How many messages were handed to the broker.

        Raises:
            LeadershipLostError, UnreachableError: As ``dispatch``.
        """
        total = 0
        more = True
        while more and self.leader.hold():
            with writing(self.engine) as connection:
                self.leader.check(connection)
                messages, more = self._look(connection)
            sent = self._try(messages)
            total += sent
            more = more and sent > 0
        return total

    def _look(self, connection: sa.Connection) -> tuple[list[Message], bool]:
        if self.monotonic() < self._silent_until:
            return [], False
        if not self._share_known:
            self._share = fetch_share(connection, self.part)
            self._share_known = True
        # Twice a chunk: what was just recorded, and as many that waited before.
        messages, more = fetch_sendable(
            connection, limit=2 * self.chunk, share=self._share
        )
        if self._is_failing and not messages:
            clear_send_failure(connection)  # nothing waits for the broker any more
        return messages, more

    def _try(self, messages: Sequence[Message]) -> int:
        """
        Send and mark *messages*; return how many were sent: all of them, or none.

        After a failure the broker is not called for a moment: the loop keeps recording,
        and each try costs one short attempt.
        """
        if not messages:
            return 0
        try:
            self.sender.send(messages)
        except BrokerUnreachableError as error:
            self._silent_until = self.monotonic() + SILENCE_S
            SEND_ERRORS.inc()
            log.warning(Event.SEND_FAILED, error=str(error))
            self._is_failing = True
            with writing(self.engine) as connection:
                self.leader.check(connection)
                record_send_failure(connection, str(error))
            return 0
        with writing(self.engine) as connection:
            self.leader.check(connection)
            mark_sent(connection, messages)
            if self._is_failing:
                clear_send_failure(connection)
            now = read_clock(connection)
        self._is_failing = False
        for message in messages:
            if message.send_at is not None:
                SEND_LAG.observe((now - message.send_at).total_seconds())
        for queue, count in Counter(m.queue for m in messages).items():
            MESSAGES_SENT.labels(queue.value).inc(count)
        return len(messages)

    def rescue(self) -> int:
        """
        Make operations pending that lost their worker or message; return how many.

        Raises:
            LeadershipLostError, UnreachableError: As ``dispatch``.
        """
        with writing(self.engine) as connection:
            self.leader.check(connection)
            returned, failed = reclaim_lost_workers(connection)
        self._share_known = False  # workers come and go
        empty = self._find_empty_queues()
        with writing(self.engine) as connection:
            self.leader.check(connection)
            resent = resend_lost_messages(connection, empty_queues=empty)
        if returned or failed or resent:
            log.warning(
                Event.OPERATION_RESCUED,
                workers_lost=returned,
                failed=failed,
                messages_lost=resent,
            )
            OPERATIONS_RESCUED.labels("pending").inc(returned + resent)
            OPERATIONS_RESCUED.labels("failed").inc(failed)
        return returned + failed + resent

    def _find_empty_queues(self) -> set[Queue]:
        """Ask the broker; if it does not answer, only old messages count as lost."""
        if self.monotonic() < self._silent_until:
            return set()
        try:
            return self.sender.find_empty_queues()
        except BrokerUnreachableError:
            self._silent_until = self.monotonic() + SILENCE_S
            return set()


def _count_decisions(recorded: Iterable[OperationState]) -> None:
    for state, count in Counter(recorded).items():
        OCCURRENCES_RECORDED.labels(DECISIONS[state]).inc(count)


def _keep_wanted(
    connection: sa.Connection, new: Sequence[NewOperation]
) -> Sequence[NewOperation]:
    """
    Drop the operations of users whom the action's recipients exclude.

    On an event-driven action, the recipients filter the triggering users.
    """
    by_app: dict[str, set[str]] = defaultdict(set)
    for row in new:
        if row.trigger is Trigger.EVENT and row.user_id is not None:
            by_app[row.app].add(row.user_id)
    if not by_app:
        return new
    now = read_clock(connection)
    users = {
        (app, user.id): user
        for app, ids in by_app.items()
        for user in fetch_users(connection, app, ids)
    }
    filters = _fetch_filters(connection, {row.action_uid for row in new})
    kept = []
    for row in new:
        if row.trigger is Trigger.EVENT and row.user_id is not None:
            user = users.get((row.app, row.user_id))
            wanted = filters.get(row.action_uid)
            if user is None or not keeps_triggering_user(wanted, user, now=now):
                continue
        kept.append(row)
    return kept


def _fetch_filters(
    connection: sa.Connection, uids: set[str]
) -> dict[str, RecipientFilterModel]:
    """Return the recipients of each event-driven action of *uids* that has some."""
    kept = scheduled_actions.c
    rows = connection.execute(
        sa.select(kept.uid, kept.document["recipients"]).where(
            kept.uid.in_(uids), kept.event.is_not(None)
        )
    )
    return {
        uid: RecipientFilterModel.model_validate(found)
        for uid, found in rows
        if found is not None
    }
