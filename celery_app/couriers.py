"""
Threads that send tasks of the users' own, one for each connection.

The scheduler's thread does not do it: a broker of somebody's that hangs would keep it
from the next minute. When it has nothing else to do, it waits a moment for a courier
that answers promptly, so that what was sent is marked at once; one that is late is not
waited for again until it has delivered all. Each call has the deadline of a broker, and
what is with a courier a bound.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue

import structlog

from celery_app.task_sender import CeleryTaskSender
from dispatch.task_outbox import Delivery
from models.errors import RuleError, StepError
from models.units import format_count
from operations.foreign_tasks import ForeignTask
from operations.sending.tasks import Ready
from settings import Settings
from telemetry import Event

log = structlog.get_logger()

#: Tasks that may be with one courier.
MOST = 5_000

#: Seconds for which the scheduler waits for a courier.
PATIENCE_S = 0.3

#: Seconds for which a broker that failed is left alone.
SILENCE_S = 10.0


class Courier:
    """
    A thread with one connection.

    Args:
        name: Of the connection. None: our own broker.
        sender: Has that connection.
        deliver: Is told what became of each batch, in this thread.
        monotonic: Returns seconds that never jump.
    """

    def __init__(
        self,
        name: str | None,
        sender: CeleryTaskSender,
        deliver: Callable[[Delivery], object],
        monotonic: Callable[[], float],
    ) -> None:
        """Start the thread; it connects when there is something to send."""
        self._name = name
        self._sender = sender
        self._deliver = deliver
        self._monotonic = monotonic
        self._batches: SimpleQueue[Sequence[Ready]] = SimpleQueue()
        self._lock = threading.Condition()
        self._held = 0
        self._is_late = False
        self._silence: tuple[float, str] | None = None
        threading.Thread(target=self._run, name="courier", daemon=True).start()

    def take(self, batch: Sequence[Ready]) -> str | None:
        """Take *batch*; or return why it cannot be taken now."""
        with self._lock:
            if self._silence is not None and self._monotonic() < self._silence[0]:
                return self._silence[1]
            if self._held and self._held + len(batch) > MOST:
                one, many = "task is on its way", "tasks are on their way"
                return f"{format_count(self._held, one, many)} over it"
            self._held += len(batch)
            self._batches.put(batch)
        return None

    def settle(self) -> None:
        """Wait until nothing is held, but not again for one that was late."""
        with self._lock:
            if not self._is_late:
                self._is_late = not self._lock.wait_for(self._is_idle, PATIENCE_S)

    def _is_idle(self) -> bool:
        return not self._held

    def _run(self) -> None:
        while True:
            batch = self._batches.get()
            delivery = self._send(batch)
            with self._lock:
                self._deliver(delivery)
                self._held -= len(batch)
                self._is_late = self._is_late and not self._is_idle()
                if delivery.error is not None:
                    until = self._monotonic() + SILENCE_S
                    self._silence = until, delivery.error
                self._lock.notify_all()

    def _send(self, batch: Sequence[Ready]) -> Delivery:
        now = self._monotonic()
        if self._silence is not None and now < self._silence[0]:
            return Delivery(batch, now, error=self._silence[1])
        try:
            left = self._sender.send_all(self._name, [each.task for each in batch])
        except StepError as error:
            return Delivery(batch, self._monotonic(), error=str(error))
        except Exception as error:
            # What nobody expected of one broker must not end its thread.
            log.exception(Event.SEND_FAILED, connection=self._name)
            return Delivery(batch, self._monotonic(), error=type(error).__name__)
        return Delivery(batch, self._monotonic(), left.refused, left.held)


class TaskCouriers:
    """
    The couriers of a scheduler; see dispatch.task_outbox.Couriers.

    Args:
        settings: Have the connections.
        sender: Sends over them.
        monotonic: As the scheduler's.
    """

    def __init__(
        self,
        settings: Settings,
        sender: CeleryTaskSender,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start no thread yet."""
        self._rules = settings.make_task_rules()
        self._sender = sender
        self._monotonic = monotonic
        self._couriers: dict[str | None, Courier] = {}
        self._deliveries: deque[Delivery] = deque()

    def knows(self, connection: str | None) -> bool:
        """Tell whether the settings of this process have *connection*."""
        try:
            self._rules.check_connection(connection)
        except RuleError:
            return False
        return True

    def place(self, task: ForeignTask) -> ForeignTask:
        """Return *task* with its queue; StepError if the settings forbid it."""
        return self._sender.place(task)

    def take(self, connection: str | None, batch: Sequence[Ready]) -> str | None:
        """Take *batch*; or return why it cannot be taken now."""
        courier = self._couriers.get(connection)
        if courier is None:
            courier = self._couriers[connection] = Courier(
                connection, self._sender, self._deliveries.append, self._monotonic
            )
        return courier.take(batch)

    def settle(self) -> None:
        """Wait a moment for couriers that are prompt."""
        for each in self._couriers.values():
            each.settle()

    def collect(self) -> Sequence[Delivery]:
        """Return what became of tasks since the last call."""
        return [self._deliveries.popleft() for _ in range(len(self._deliveries))]
