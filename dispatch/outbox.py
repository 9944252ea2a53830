"""
The outbox: what is recorded and not yet with the broker.

What may be sent is found in the database alone, so a crash loses nothing: until an
operation is marked as sent, each look finds it again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple, Protocol

import sqlalchemy as sa
import structlog

import tracing
from actions.lease import clear_send_failure, record_send_failure
from dispatch.locked_rows import LockedRows, split
from dispatch.task_outbox import TaskOutbox
from models.database.engine import SELECT_NOW
from models.database.tables import operations
from models.database.transaction import Transaction
from models.decision import NewOperation
from models.errors import BrokerUnreachableError
from models.operation_state import Queue
from operations.sending.order import Message, ask_sendable, fetch_share, mark_sent
from telemetry import MESSAGES_SENT, SEND_ERRORS, SEND_LAG, Event

log = structlog.get_logger()

_GET_ID = attrgetter("id")

#: Seconds until a broker that failed is tried again.
SILENCE_S = 5.0


class Sender(Protocol):
    """The broker, as an outbox sees it; see celery_app/operation_sender.py."""

    def send(self, messages: Sequence[Message]) -> None:
        """Hand over *messages*; after UnreachableError any of them may have arrived."""

    def find_empty_queues(self) -> set[Queue]:
        """Return the queues that are empty now."""


class _Batch(NamedTuple):
    """Messages that the broker took, and when, by the monotonic clock."""

    messages: Sequence[Message]
    sent_at: float


@dataclass(slots=True)
class Outbox:
    """
    Finds what may be sent, hands it over, and marks it as sent in a later transaction.

    Args:
        sender: Hands messages to the broker.
        tasks: Sends tasks of the users' own; our workers do whose broker it lacks.
        chunk: At most twice as many messages are found at a time.
        monotonic: Returns seconds that never jump; times the pause after a failure.
        part: From 0 to 1: the part of the quick queue's slots that one app may take
            while others wait.
    """

    sender: Sender
    tasks: TaskOutbox
    chunk: int
    monotonic: Callable[[], float] = time.monotonic
    part: float = 1.0
    _share: int | None = None
    _share_known: bool = False
    _silent_until: float = float("-inf")
    #: Of ``overlap: queue``, where the next look goes on; empty: at the first.
    _last_line: str = ""
    #: Why the broker took nothing; and what the lease says of that.
    _error: str | None = None
    _told: str | None = None
    _unmarked: list[_Batch] = field(default_factory=list)

    @property
    def has_news(self) -> bool:
        """Whether the database does not know yet what was sent, or what failed."""
        is_unmarked = self.tasks.has_news or bool(self._unmarked)
        return is_unmarked or self._error != self._told

    def forget(self) -> None:
        """Forget what another leadership did: a look finds what is still to do."""
        self._unmarked.clear()
        self.tasks.forget()
        self._told = None
        self._share_known = False

    def forget_share(self) -> None:
        """Ask anew for the slots of all workers: workers come and go."""
        self._share_known = False

    def hold_back(self) -> None:
        """Send nothing from now on: the broker cannot be reached from this process."""
        self._silent_until = float("inf")

    def prepare(self, connection: sa.Connection) -> None:
        """Write down how the broker is, and read what a look has to know."""
        self.tasks.prepare(connection)
        if self._error is None:
            if self._told is not None:
                clear_send_failure(connection)
        elif self._error != self._told:
            record_send_failure(connection, self._error)
        if not self._share_known:
            self._share = fetch_share(connection, self.part)
            self._share_known = True

    def mark(self, transaction: Transaction, locked: LockedRows) -> Callable[[], None]:
        """
        Mark what was sent; call what is returned when *transaction* is committed.

        Args:
            transaction: Of the leader; ``prepare`` is called with its connection.
            locked: What is locked may be left out: it is marked later.
        """
        known, error = len(self._unmarked), self._error
        ids = (each.id for batch in self._unmarked for each in batch.messages)
        held = locked.find(transaction, operations.c.id, ids)
        batches, left = [], []
        for messages, sent_at in self._unmarked:
            free, late = split(messages, _GET_ID, held)
            batches += [_Batch(free, sent_at)] * bool(free)
            left += [_Batch(late, sent_at)] * bool(late)
        asked_at = self.monotonic()
        for messages, sent_at in batches:
            mark_sent(transaction, messages, seconds_ago=asked_at - sent_at)
        clock = transaction.ask(SELECT_NOW, {}) if batches else None
        confirm_tasks = self.tasks.mark(transaction, locked)

        def confirm() -> None:
            confirm_tasks()
            self._unmarked[:known] = left
            self._told = error
            if clock is not None:
                _observe_lag(batches, clock.rows[0][0].timestamp() - asked_at)

        return confirm

    def look(
        self,
        transaction: Transaction,
        confirm: Callable[[], None],
        *,
        beside: int = 0,
        recorded: Callable[[], Sequence[NewOperation]] = tuple,
    ) -> Callable[[], Sequence[Message]]:
        """
        Find what may be sent now.

        Args:
            transaction: As for ``mark``.
            confirm: What ``mark`` returned for it.
            beside: How many messages are handed over before the answer is read.
            recorded: Returns what *transaction* has recorded, when it is committed.

        Returns:
            What to call when *transaction* is committed; it returns them in order.
        """
        is_silent = self._is_silent()
        sendable = ask_sendable(
            transaction,
            # Twice a chunk: what was just recorded, and as many that waited before.
            limit=2 * self.chunk + beside + len(self.tasks.in_hand),
            share=self._share,
            tasks_only=is_silent,
            after=self._last_line,
        )

        def read() -> Sequence[Message]:
            confirm()
            sent = [message for batch in self._unmarked for message in batch.messages]
            new = [row for row in recorded() if row.queue is Queue.TASKS]
            rows = {row.id.int: row for row in new}
            found = sendable.choose([*sent, *self.tasks.in_hand], rows)
            self._last_line = sendable.last_line
            if not (found or sent or is_silent or self._last_line):
                self._error = None  # nothing waits for the broker any more
            return found

        return read

    def send(self, messages: Sequence[Message]) -> int:
        """
        Hand over *messages*; return how many were taken.

        Ours come first, all of them or none. After a failure our broker is not called
        for a moment: the loop keeps recording, and each try costs one short attempt.
        """
        sent = self._send([each for each in messages if each.queue is not Queue.TASKS])
        taken, left = self.send_tasks(
            [each for each in messages if each.queue is Queue.TASKS]
        )
        if taken:
            self.tasks.settle()
        return sent + taken + self._send(left)

    def send_tasks(self, messages: Sequence[Message]) -> tuple[int, Sequence[Message]]:
        """
        Give couriers the tasks among *messages*; wait for nobody.

        Returns:
            How many were taken; and what is left for queues of ours.
        """
        straight = [each for each in messages if each.queue is Queue.TASKS]
        if not straight:
            return 0, messages
        others = [each for each in messages if each.queue is not Queue.TASKS]
        taken, left = self.tasks.hand_over(straight)
        return taken, others + [_give_to_worker(each) for each in left]

    def _send(self, messages: Sequence[Message]) -> int:
        if not messages or self._is_silent():
            return 0
        try:
            with tracing.begin("send", kind="PRODUCER", messages=len(messages)) as span:
                if span.place is not None:
                    for each in messages[: tracing.MOST]:
                        span.link(tracing.find_operation(each.id, span.place))
                self.sender.send(messages)
        except BrokerUnreachableError as error:
            self._fall_silent()
            self._error = str(error)
            SEND_ERRORS.inc()
            log.warning(Event.SEND_FAILED, error=self._error)
            return 0
        self._error = None
        self._unmarked.append(_Batch(messages, self.monotonic()))
        for queue, count in Counter(m.queue for m in messages).items():
            MESSAGES_SENT.labels(queue.value).inc(count)
        return len(messages)

    def find_empty_queues(self) -> set[Queue]:
        """Ask the broker; if it does not answer, only old messages count as lost."""
        # After a silence, messages are tried first: if this question failed before
        # them each time, nobody would learn why nothing is sent.
        if self.monotonic() < self._silent_until + SILENCE_S:
            return set()
        try:
            return self.sender.find_empty_queues()
        except BrokerUnreachableError:
            self._fall_silent()
            return set()

    def _is_silent(self) -> bool:
        return self.monotonic() < self._silent_until

    def _fall_silent(self) -> None:
        self._silent_until = self.monotonic() + SILENCE_S


def _give_to_worker(message: Message) -> Message:
    """Return *message* for a queue of ours; a worker may know its connection."""
    return (
        message._replace(queue=Queue.QUICK) if message.queue is Queue.TASKS else message
    )


def _observe_lag(batches: Sequence[_Batch], epoch_s: float) -> None:
    """Observe how late messages were sent; *epoch_s* is when the clock stood at 0."""
    for messages, sent_at in batches:
        for message in messages:
            if message.send_at is not None:
                SEND_LAG.observe(epoch_s + sent_at - message.send_at.timestamp())
