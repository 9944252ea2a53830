"""
The outbox of tasks of the users' own: they go straight to their queues.

Couriers take them (celery_app/couriers.py), one for each broker, so that one that hangs
holds up nobody else. What became of a task is marked by a later transaction; until then
it is known here, and no look finds it again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

import sqlalchemy as sa
import structlog

import tracing
from dispatch.locked_rows import LockedRows, split
from models.database.engine import reading
from models.database.tables import operations
from models.database.transaction import Transaction
from models.errors import StepError
from models.operation_state import FINAL_STATES, Queue
from operations.fleet.processes import fetch_secret
from operations.following import find_followers, record_following
from operations.foreign_tasks import ForeignTask
from operations.running.step_records import find_held_ends
from operations.sending.order import Message
from operations.sending.tasks import (
    Ready,
    TaskRevisions,
    fetch_tasks,
    mark_failed,
    mark_put_off,
    mark_refused,
    mark_sent_task,
)
from operations.task_marks import TaskMark, write_marks
from telemetry import MESSAGES_SENT, SEND_ERRORS, Event

log = structlog.get_logger()


def _get_id(timed: tuple[float, TaskMark]) -> UUID:
    return timed[1].operation_id


class Delivery(NamedTuple):
    """
    What became of tasks that a courier took.

    Args:
        at: When, by the monotonic clock.
        refused: By the ids of tasks, why the broker did not take some of them: it has
            no such queue.
        held: Why some wait: their queues are full.
        error: Why it took none, as far as is known. None: it took all others.
    """

    batch: Sequence[Ready]
    at: float
    refused: Mapping[str, str] = {}
    held: Mapping[str, str] = {}
    error: str | None = None


class Couriers(Protocol):
    """Send tasks of the users' own, each over the connection its action names."""

    def knows(self, connection: str | None) -> bool:
        """Tell whether the settings of this process have *connection*."""

    def place(self, task: ForeignTask) -> ForeignTask:
        """Return *task* with its queue; StepError if the settings forbid it."""

    def take(self, connection: str | None, batch: Sequence[Ready]) -> str | None:
        """Take *batch*; or return why it cannot be taken now."""

    def settle(self) -> None:
        """Wait a moment for couriers that are prompt."""

    def collect(self) -> Sequence[Delivery]:
        """Return what became of tasks since the last call."""


@dataclass(slots=True)
class TaskOutbox:
    """
    Hands tasks to couriers, and marks what became of them.

    Args:
        couriers: Send them.
        monotonic: Returns seconds that never jump.
    """

    engine: sa.Engine
    couriers: Couriers
    monotonic: Callable[[], float] = time.monotonic
    _secret: str | None = None
    _revisions: TaskRevisions = field(default_factory=TaskRevisions)
    #: What is with a courier, or has no mark yet. By the number of its id: an UUID
    #: compares and hashes in Python, for each operation some ten times a tick.
    _in_hand: dict[int, Message] = field(default_factory=dict)
    #: With the instant of each, by the monotonic clock.
    _marks: list[tuple[float, TaskMark]] = field(default_factory=list)
    #: Those that the transaction under way marks as ended.
    _ended: Sequence[UUID] = ()
    #: Of tasks that are with a courier, and are traced.
    _spans: dict[UUID, tracing.TraceSpan] = field(default_factory=dict)

    @property
    def in_hand(self) -> Collection[Message]:
        """What is not to be sent again, although the database does not say so yet."""
        return self._in_hand.values()

    @property
    def has_news(self) -> bool:
        """Whether the database does not know yet what became of some."""
        self._collect()
        return bool(self._marks)

    def forget(self) -> None:
        """Forget what another leadership did: a look finds what is still to do."""
        self._in_hand.clear()
        self._spans.clear()
        self._marks.clear()

    def learn_ahead(self) -> int:
        """Read some of what tasks that are due soon ask for; return how many."""
        with reading(self.engine) as connection:
            return self._revisions.learn_ahead(connection)

    def hand_over(self, messages: Sequence[Message]) -> tuple[int, list[Message]]:
        """
        Hand the tasks of *messages* to their couriers.

        Returns:
            How many were taken; and those whose connection is unknown here.
        """
        batches: defaultdict[str | None, list[Ready]] = defaultdict(list)
        left, count = [], len(messages)
        with tracing.begin("send tasks", kind="PRODUCER", messages=count) as batch:
            ready, unfit = self._fetch(messages)
            for message, mark in unfit:
                self._note(message, mark)
            for each in ready:
                if not self.couriers.knows(each.task.connection):
                    left.append(each.message)
                    continue
                try:
                    placed = self._place(each, batch)
                except StepError as error:
                    self._note(each.message, mark_failed(each.message, str(error)))
                else:
                    batches[placed.task.connection].append(placed)
            taken = sum(self._hand(name, some) for name, some in batches.items())
        return taken + len(unfit), left

    def _fetch(
        self, messages: Sequence[Message]
    ) -> tuple[list[Ready], list[tuple[Message, TaskMark]]]:
        with reading(self.engine) as connection:
            secret = self._secret = self._secret or fetch_secret(connection)
            known = self._revisions
            return fetch_tasks(connection, messages, secret=secret, revisions=known)

    def settle(self) -> None:
        """Wait a moment, so that what was sent is marked at once."""
        self.couriers.settle()
        self._collect()

    def _place(self, ready: Ready, batch: tracing.TraceSpan) -> Ready:
        """Give a task its queue, and its place in the trace of its operation."""
        task = self.couriers.place(ready.task)
        if batch.place is None:
            return ready if task is ready.task else ready._replace(task=task)
        id_ = ready.message.id
        place = tracing.find_operation(id_, batch.place)
        if batch.links == tracing.MOST:
            # so that their side traces what ours does
            place = place._replace(is_sampled=False)
        else:
            batch.link(place)
            span = self._spans[id_] = tracing.begin(
                f"send {task.name}",
                at=place,
                links=[batch.place, tracing.find_post(*ready.revision)],
                kind="PRODUCER",
                task_id=str(id_),
                action_uid=ready.revision[0],
                app=task.app or "",
                attempt=ready.message.attempt + 1,
            )
            place = span.place or place
        return ready._replace(task=task.in_trace(place))

    def _hand(self, name: str | None, batch: Sequence[Ready]) -> int:
        refusal = self.couriers.take(name, batch)
        if refusal is not None:
            self._end_spans(batch, {}, refusal)
            self._put_off(batch, refusal)
            return 0
        self._in_hand.update((each.message.id.int, each.message) for each in batch)
        return len(batch)

    def _put_off(self, batch: Sequence[Ready], error: str) -> None:
        for each in batch:
            self._note(each.message, mark_put_off(each.message, error))

    def _note(self, message: Message, mark: TaskMark, at: float | None = None) -> None:
        self._in_hand[message.id.int] = message
        self._marks.append((self.monotonic() if at is None else at, mark))

    def _collect(self) -> None:
        for batch, at, refused, held, error in self.couriers.collect():
            # Those of a former leadership are for a look to find.
            ours = [each for each in batch if each.message.id.int in self._in_hand]
            if self._spans:
                self._end_spans(batch, {**refused, **held}, error)
            if error is not None:
                SEND_ERRORS.inc()
                log.warning(Event.SEND_FAILED, error=error)
                self._put_off(ours, error)
                continue
            sent = len(batch) - len(refused) - len(held)
            MESSAGES_SENT.labels(Queue.TASKS.value).inc(sent)
            for each in ours:
                if each.task.id in held:
                    self._put_off([each], held[each.task.id])
                    continue
                why = refused.get(each.task.id)
                mark = mark_sent_task(each) if why is None else mark_refused(each, why)
                self._note(each.message, mark, at)

    def _end_spans(
        self, batch: Sequence[Ready], left: Mapping[str, str], error: str | None
    ) -> None:
        for each in batch:
            span = self._spans.pop(each.message.id, None)
            if span is not None:
                span.end(error or left.get(each.task.id))

    def prepare(self, connection: sa.Connection) -> None:
        """Record what follows the tasks that ``mark`` has just marked as ended."""
        ended, self._ended = self._ended, ()
        followers = find_followers(connection, ended)
        record_following(connection, {each.ended_id for each in followers})

    def mark(self, transaction: Transaction, locked: LockedRows) -> Callable[[], None]:
        """
        Mark what became of tasks; call what is returned when that is committed.

        Args:
            transaction: ``prepare`` is called with its connection afterwards.
            locked: What is locked may be left out: it is marked later.
        """
        self._collect()
        known = len(self._marks)
        ids = map(_get_id, self._marks)
        held = locked.find(transaction, operations.c.id, ids)
        if locked.left_out is not None:
            ends = {m.operation_id for _, m in self._marks if m.state in FINAL_STATES}
            held |= find_held_ends(transaction, ends - held, find=locked.find)
        marks, left = split(tuple(self._marks), _get_id, held)
        self._ended = [m.operation_id for _, m in marks if m.state in FINAL_STATES]
        if marks:
            now = self.monotonic()
            write_marks(
                transaction, [mark for _, mark in marks], [now - at for at, _ in marks]
            )

        def confirm() -> None:
            self._marks[:known] = left
            for _at, mark in marks:
                self._in_hand.pop(mark.operation_id.int, None)

        return confirm
