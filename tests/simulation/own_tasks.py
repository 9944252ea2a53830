"""
Somebody's own Celery application in a simulated world: a broker that loses, repeats and
delays, a worker that takes its time, strangers, and the queue of answers.

Whatever an operation does because of a task is judged by what really happened here.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from dispatch.task_outbox import Delivery
from models.errors import BrokerUnreachableError, PlatformError
from models.operation_state import FINAL_STATES, OperationState, Reason
from operations.foreign_tasks import (
    ForeignTask,
    Keep,
    TaskAnswer,
    make_task_id,
    make_token,
    read_token,
)
from operations.sending.tasks import Ready
from tests.simulation.broker import SimulatedSender
from tests.simulation.database import SECRET
from tests.simulation.faults import Fault, Faults, Place
from tests.simulation.loop import MINUTE, SECOND, Loop, Process
from tests.simulation.scenario import TASKED, WAITING
from tests.unit.operations.fakes import FakeTaskSender

if TYPE_CHECKING:
    from tests.simulation.world import World

#: How long their tasks take; the last ones end as their operation's deadline passes.
_DURATIONS = (SECOND // 10, SECOND, 20 * SECOND, 70 * SECOND, 3 * MINUTE, 15 * MINUTE)

_FINAL = frozenset(state.value for state in FINAL_STATES)

#: An operation and one of its attempts.
Which = tuple[UUID, int]


class Told(NamedTuple):
    """
    An answer of their worker.

    Args:
        sending: Number of the sending that it answers to.
        at: When it was in the queue, as SQLite keeps times.
    """

    sending: int
    succeeded: bool
    at: str


@dataclass(eq=False)
class TaskRecord:
    """
    What their broker took, and what their worker told, by operation and attempt.

    Args:
        sendings: How many were sent in all.
        reopened: For each operation, how many had been sent when it was last retried.
    """

    sendings: int = 0
    sent: set[Which] = field(default_factory=set)
    sent_for: set[UUID] = field(default_factory=set)
    told: defaultdict[Which, list[Told]] = field(
        default_factory=lambda: defaultdict(list)
    )
    reopened: dict[UUID, int] = field(default_factory=dict)

    def find_told(self, which: Which) -> list[Told]:
        """Return the answers to *which* that count since it was last retried."""
        since = self.reopened.get(which[0], 0)
        return [told for told in self.told[which] if told.sending > since]

    def find_fault(self, entry: Sequence[Any]) -> str | None:
        """Return what is wrong with how an operation with a task went on, if any."""
        id_, action, old, new, tries, attempt, deadline, reason, error = entry[2:11]
        operation_id = UUID(id_)
        told = self.find_told((operation_id, attempt))
        if old in _FINAL:
            self.reopened[operation_id] = self.sendings
        elif reason is not None and reason.startswith(Reason.TASK):
            if (operation_id, attempt) not in self.sent:
                return f"{id_} waits for a task that was not sent"
        elif new == OperationState.SUCCEEDED:
            if action not in WAITING:
                is_sent = action not in TASKED or operation_id in self.sent_for
                return None if is_sent else f"{id_} succeeded without its task"
            if attempt < tries or not any(each.succeeded for each in told):
                return f"{id_} succeeded, of which nobody told in attempt {attempt}"
        elif new == OperationState.FAILED and f"{_NAME} failed: " in (error or ""):
            if attempt < tries or all(each.succeeded for each in told):
                return f"{id_} failed, of which nobody told in attempt {attempt}"
        elif new == OperationState.FAILED and "nothing told" in (error or ""):
            return self._judge_deadline(id_, told, deadline)
        return None

    def _judge_deadline(
        self, id_: str, told: Sequence[Told], deadline: str
    ) -> str | None:
        early = next((each for each in told if each.at < deadline), None)
        if early is None:
            return None
        return f"{id_} was ended by its deadline {deadline}, but there was {early}"


_NAME = "tests.nothing"


@dataclass(eq=False)
class TheirApplication:
    """
    Their broker, and their worker.

    Args:
        clock: Returns the database's time.
        check: Is given each task that is sent, before anything is done with it.
        down_until: The broker cannot be reached before.
        trouble: 0 is a worker whose tasks all end well.
    """

    loop: Loop
    rng: Random
    faults: Faults
    clock: Callable[[], datetime]
    check: Callable[[UUID, ForeignTask], object]
    record: TaskRecord
    down_until: int = 0
    trouble: float = 1.0
    answers: deque[TaskAnswer] = field(default_factory=deque)

    def take(self, task: ForeignTask) -> None:
        """Accept *task* from a sender, and do with it what brokers and workers do."""
        operation_id = UUID(str(task.headers["minutehand-operation-id"]))
        self.check(operation_id, task)
        self.record.sendings += 1
        self.record.sent_for.add(operation_id)
        whose = None if task.token is None else read_token(SECRET, task.token)
        if whose is not None:
            self.record.sent.add(whose)
        for delay in self._deliver():
            run = partial(self._run, task, whose, self.record.sendings)
            self.loop.call(run, delay=delay)

    def _deliver(self) -> list[int]:
        """Return after which times a message arrives: once, twice, or never."""
        fault = self.faults.draw(Place.MESSAGE)
        slow = 120 * SECOND if fault is Fault.DELAY else SECOND // 5
        copies = {Fault.LOSS: 0, Fault.DUPLICATE: 2}.get(fault or Fault.DELAY, 1)
        return [self.rng.randrange(slow * 100**n) for n in range(copies)]

    def _run(self, task: ForeignTask, whose: Which | None, sending: int) -> None:
        if whose is None or task.token is None:
            return
        succeeded = self.rng.random() >= 0.1 * self.trouble
        took = self.rng.choice(_DURATIONS)
        answer = TaskAnswer(task.token, succeeded, 7)
        for delay in self._deliver():
            tell = partial(self._tell, answer, whose, sending)
            self.loop.call(tell, delay=took + delay)
        if self.rng.random() < 0.2 * self.trouble:
            forged = TaskAnswer(make_token("guessed", *whose), succeeded=True)
            self.loop.call(lambda: self.answers.append(forged), delay=SECOND)

    def _tell(self, answer: TaskAnswer, whose: Which, sending: int) -> None:
        # A copy, because whoever takes it off takes this one.
        self.answers.append(replace(answer))
        at = self.clock().isoformat(" ", "microseconds")
        self.record.told[whose].append(Told(sending, answer.succeeded, at))


@dataclass(eq=False)
class SimulatedCouriers:
    """The couriers of one scheduler; see dispatch.task_outbox.Couriers."""

    world: World
    process: Process
    busy: int = 0
    done: deque[Delivery] = field(default_factory=deque)

    def knows(self, connection: str | None) -> bool:
        """Know our own broker."""
        return connection is None

    def place(self, task: ForeignTask) -> ForeignTask:
        """Return *task* with its queue."""
        return task._replace(queue=task.queue or "default")

    def take(self, connection: str | None, batch: Sequence[Ready]) -> str | None:
        """Send *batch* in a task of its own."""
        del connection
        if self.busy > 1:
            return "simulated: many are on their way"
        self.busy += 1
        self.world.loop.spawn(self.process, partial(self._send, batch))
        return None

    def settle(self) -> None:
        """Wait a moment."""
        self.world.loop.sleep(self.world.rng.randrange(1, SECOND // 3))

    def _send(self, batch: Sequence[Ready]) -> None:
        world = self.world
        error = None
        refused = {
            each.task.id: "simulated: no such queue"
            for each in batch
            if world.rng.random() < 0.03 * world.theirs.trouble
        }
        tasks = [each.task for each in batch if each.task.id not in refused]
        try:
            SimulatedSender(world.theirs, self.process, world).send(tasks)
        except BrokerUnreachableError as unreachable:
            error = str(unreachable)
        if world.rng.random() < 0.2 * world.theirs.trouble:
            # The broker has them, and is slow to say so; somebody loses patience.
            if world.people is not None and world.rng.random() < 0.3:
                world.people.begin_anew(batch[0].message.id)
            world.loop.sleep(world.rng.randrange(MINUTE))
        at = world.monotonic(self.process)
        self.done.append(Delivery(batch, at, refused, error=error))
        self.busy -= 1

    def collect(self) -> Sequence[Delivery]:
        """Return what became of tasks since the last call."""
        return [self.done.popleft() for _ in range(len(self.done))]


@dataclass(eq=False, kw_only=True)
class SimulatedAnswers(FakeTaskSender):
    """The answers as one reader finds them; see operations.foreign_tasks.TaskSender."""

    world: World
    process: Process

    def receive(self, connection: str | None, keep: Keep, *, limit: int) -> int:
        """Give *keep* what is in the queue, and take it off."""
        del connection
        world, queue = self.world, self.world.theirs.answers
        try:
            SimulatedSender(world.theirs, self.process, world).reach(Place.ASK_BROKER)
        except BrokerUnreachableError as error:
            raise PlatformError(str(error)) from None
        found = list(queue)[:limit]
        if found:
            keep(found)
            world.loop.sleep(world.rng.randrange(1, SECOND // 50))
        for answer in found:
            place = next((n for n, each in enumerate(queue) if each is answer), None)
            if place is not None:
                del queue[place]
        return len(found)


def check_task(raw: Any, operation_id: UUID, task: ForeignTask) -> str | None:
    """Return what is wrong with a *task* that is sent, if anything is."""
    if task.id != make_task_id(operation_id):
        return f"the task of {operation_id} was sent as {task.id}"
    kept = raw.execute(
        "SELECT 1 FROM operations WHERE id = ?", (str(operation_id),)
    ).fetchone()
    return None if kept else f"{operation_id} was sent before it was recorded"
