"""
The broker of a simulated world: queues that delay, repeat and lose messages.

A message is acknowledged when its task has ended. One whose worker died comes back
at once, as from RabbitMQ, or late, if the broker is slow to notice, or never, as from
Redis.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol
from uuid import UUID

from models.errors import BrokerUnreachableError
from models.operation_state import LANES, WORKER_QUEUES, Queue
from operations.sending.order import Message
from tests.simulation.faults import Fault, Faults, Place
from tests.simulation.loop import HOUR, SECOND, Crash, Loop, Process, Task

#: A queue, and which of its lanes.
Line = tuple[Queue, int]

#: celery_app's ``broker_timeout``: a call that hangs ends then.
DEADLINE = 5 * SECOND

#: A broker that was slow to notice that a worker is gone hands out again after this.
LATE = HOUR


@dataclass(eq=False, slots=True)
class Waiter:
    """A worker's slot that waits for a message of *queues*."""

    task: Task
    queues: frozenset[Queue]


@dataclass(eq=False)
class Broker:
    """
    Queues in memory.

    Args:
        down_until: Unreachable for everybody before that.
    """

    loop: Loop
    rng: Random
    faults: Faults
    down_until: int = 0
    queues: dict[Line, deque[UUID]] = field(
        default_factory=lambda: {
            (queue, lane): deque()
            for queue, lanes in LANES.items()
            for lane in range(lanes)
        }
    )
    waiters: list[Waiter] = field(default_factory=list)
    sent: int = 0

    def push(self, line: Line, message: UUID, *, delay: int) -> None:
        """Let *message* arrive in *line* after *delay*; order is not kept."""
        self.loop.call(lambda: self._arrive(line, message), delay=delay)

    def take(self, message: Message) -> None:
        """Accept *message* from a sender, and do with it what brokers do."""
        self.sent += 1
        fault = self.faults.draw(Place.MESSAGE)
        if fault is Fault.LOSS:
            return
        slow = 120 * SECOND if fault is Fault.DELAY else SECOND // 5
        line = message.queue, message.lane
        self.push(line, message.id, delay=self.rng.randrange(slow))
        if fault is Fault.DUPLICATE:
            late = self.rng.choice([SECOND, 40 * SECOND, 300 * SECOND])
            self.push(line, message.id, delay=self.rng.randrange(late))

    def receive(self, queues: frozenset[Queue]) -> tuple[Line, UUID]:
        """Wait for a message of *queues*, whose lanes take turns."""
        assert self.loop.current is not None  # only tasks receive
        waiter = Waiter(self.loop.current, queues)
        while True:
            for line, claim in self.queues.items():
                if line[0] in queues and claim and not self._is_down():
                    self.queues[line] = self.queues.pop(line)  # the last from now on
                    return line, claim.popleft()
            self.waiters.append(waiter)
            try:
                self.loop.wait()
            finally:
                if waiter in self.waiters:
                    self.waiters.remove(waiter)

    def lose_worker(self, line: Line, message: UUID) -> None:
        """Hand out again what a dead worker had taken, or do not."""
        delay = self.rng.choice([SECOND, 30 * SECOND, LATE, None])
        if delay is not None:
            self.push(line, message, delay=delay)

    def flush(self) -> None:
        """Forget every message, as a broker without persistence does at a restart."""
        for queue in self.queues.values():
            queue.clear()

    def restore(self) -> None:
        """Answer again, and serve what waits."""
        self.down_until = self.loop.now
        self._serve()

    def _is_down(self) -> bool:
        return self.loop.now < self.down_until

    def _arrive(self, line: Line, message: UUID) -> None:
        self.queues[line].append(message)
        self._serve()

    def _serve(self) -> None:
        if self._is_down():
            self.loop.call(self._serve, delay=self.down_until - self.loop.now)
            return
        ready = {queue for (queue, _lane), waiting in self.queues.items() if waiting}
        if not ready:
            return
        able = [waiter for waiter in self.waiters if waiter.queues & ready]
        if able:
            waiter = self.rng.choice(able)
            self.waiters.remove(waiter)
            self.loop.wake(waiter.task)


class Host(Protocol):
    """What a sender's process may suffer."""

    def freeze(self, process: Process, *, suspend: bool = False) -> None:
        """Stop *process*; *suspend* stops its monotonic clock as well."""

    def end(self, process: Process) -> None:
        """Kill *process*."""


@dataclass(eq=False)
class SimulatedSender:
    """
    A broker as one process sees it; see dispatch.outbox.Sender.

    Args:
        broker: Ours, or that of somebody's tasks.
    """

    broker: Any
    process: Process
    host: Host

    def send(self, messages: Sequence[Any]) -> None:
        """Hand over *messages*; an error leaves it open which of them arrived."""
        self.reach(Place.BEFORE_SEND)
        fault = self.broker.faults.draw(Place.AFTER_SEND)
        taken = list(messages)
        if fault is Fault.PARTIAL:
            taken = taken[: self.broker.rng.randrange(len(taken) + 1)]
        for message in taken:
            self.broker.take(message)
        self.broker.loop.sleep(self.broker.rng.randrange(1, SECOND // 50))
        if fault in {Fault.ERROR, Fault.PARTIAL}:
            raise BrokerUnreachableError("simulated: the connection broke")
        self._suffer(fault)

    def find_empty_queues(self) -> set[Queue]:
        """Say which queues hold nothing that waits."""
        self.reach(Place.ASK_BROKER)
        claim = {queue for (queue, _lane), claim in self.broker.queues.items() if claim}
        return set(WORKER_QUEUES) - claim

    def reach(self, place: Place) -> None:
        """Call the broker, or fail at it."""
        loop = self.broker.loop
        until = max(self.broker.down_until, self.process.cut_off.get("broker", 0))
        if loop.now < until:
            loop.sleep(min(until - loop.now, DEADLINE))
            raise BrokerUnreachableError("simulated: the broker is down")
        fault = self.broker.faults.draw(place)
        if fault is Fault.ERROR:
            raise BrokerUnreachableError("simulated: the broker refused")
        self._suffer(fault)

    def _suffer(self, fault: Fault | None) -> None:
        loop = self.broker.loop
        if fault is Fault.HANG:
            loop.sleep(DEADLINE)
            raise BrokerUnreachableError("simulated: no answer in time")
        if fault is Fault.CRASH:
            self.host.end(self.process)
            raise Crash
        if fault in {Fault.FREEZE, Fault.SUSPEND}:
            self.host.freeze(self.process, suspend=fault is Fault.SUSPEND)
            loop.sleep(1)
