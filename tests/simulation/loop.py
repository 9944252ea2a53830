"""
Simulated time: tasks that take turns, one at a time, in an order that only a seed
decides.

Each task is a greenlet that runs the real code until it calls the database, the
broker or the mail server, or sleeps; there it gives way, and the loop goes on with
whatever comes next. No thread, no clock of the host.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from greenlet import getcurrent, greenlet

#: Microseconds in a second; simulated time is a whole number of them.
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


class Crash(BaseException):
    """The process of a task is killed; nothing that the real code has catches it."""


@dataclass(eq=False, slots=True)
class Process:
    """
    A process of the simulated world: its tasks live and die together.

    Args:
        name: Of its place; a process that takes the place of a dead one has it too.
        kind: "scheduler", "worker" or "people".
        started_at: Simulated microseconds.
        frozen_until: None of its tasks runs before (SIGSTOP, a suspended machine).
        lost: What its monotonic clock did not count while suspended.
        skew: Of its host's clock.
        cut_off: From "database" or "broker", until when.
    """

    name: str
    kind: str
    started_at: int = 0
    alive: bool = True
    frozen_until: int = 0
    lost: int = 0
    skew: int = 0
    cut_off: dict[str, int] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    #: Whether it has read what is due, and not yet written what it decided.
    has_read: bool = False
    #: What it runs, for the invariants: its Scheduler or Worker.
    runs: Any = None


@dataclass(eq=False, slots=True)
class Task:
    """A greenlet of a process; *turn* is the number of the wake-up that counts."""

    process: Process
    run: greenlet
    turn: int = 0
    done: bool = False


class Loop:
    """Runs tasks in the order of their wake-ups."""

    def __init__(self) -> None:
        """Start at second nought with nothing to do."""
        self.now = 0
        self.current: Task | None = None
        self._hub = getcurrent()
        self._heap: list[tuple[int, int, Task | Callable[[], None]]] = []
        self._turns = 0
        self.after_each: Callable[[], None] = lambda: None
        self.before_giving_way: Callable[[], None] = lambda: None

    def spawn(
        self, process: Process, function: Callable[[], None], *, delay: int = 0
    ) -> Task:
        """Run *function* as a task of *process*, *delay* microseconds from now."""

        def body() -> None:
            try:
                function()
            except Crash:
                pass
            finally:
                task.done = True

        task = Task(process, greenlet(body, parent=self._hub))
        process.tasks.append(task)
        self.wake(task, delay)
        return task

    def call(self, function: Callable[[], None], *, delay: int) -> None:
        """Call *function* from the loop itself, *delay* microseconds from now."""
        self._push(self.now + delay, function)

    def wake(self, task: Task, delay: int = 0) -> None:
        """Let *task* go on *delay* microseconds from now; earlier plans are void."""
        task.turn = self._push(self.now + delay, task)

    def sleep(self, duration: int) -> None:
        """Give way for *duration* microseconds; raise Crash if killed meanwhile."""
        task = self._current_task()
        self.wake(task, duration)
        self._switch(task)

    def wait(self) -> None:
        """Give way until somebody calls ``wake``; raise Crash if killed meanwhile."""
        task = self._current_task()
        task.turn = 0
        self._switch(task)

    def kill(self, process: Process) -> None:
        """
        End *process* as ``kill -9`` does: at once, wherever its tasks are.

        The task that calls this about its own process raises Crash itself.
        """
        process.alive = False
        for task in process.tasks:
            if not task.done and task is not self.current:
                self.wake(task)

    def thaw(self, process: Process) -> None:
        """Let a frozen process go on now."""
        if process.frozen_until > self.now:
            process.frozen_until = self.now
            for task in process.tasks:
                if not task.done and task.turn:
                    self.wake(task)

    def run(self, until: int) -> None:
        """Run what is due up to *until*; time stands at *until* afterwards."""
        while self._heap and self._heap[0][0] <= until:
            at, turn, what = heapq.heappop(self._heap)
            if not isinstance(what, Task):
                self.now = max(self.now, at)
                what()
            elif what.turn == turn and not what.done:
                self.now = max(self.now, at)
                self._resume(what)
            else:
                continue
            self.after_each()
        self.now = until

    def _resume(self, task: Task) -> None:
        process = task.process
        if process.alive and process.frozen_until > self.now:
            task.turn = self._push(process.frozen_until, task)
            return
        if not process.alive and not task.run:
            task.done = True  # killed before its first turn
            return
        self.current = task
        try:
            if process.alive:
                task.run.switch()
            else:
                task.run.throw(Crash())
        finally:
            self.current = None

    def _current_task(self) -> Task:
        assert self.current is not None  # only tasks sleep
        return self.current

    def _switch(self, task: Task) -> None:
        if not task.process.alive:
            raise Crash
        self.before_giving_way()
        self._hub.switch()

    def _push(self, at: int, what: Task | Callable[[], None]) -> int:
        self._turns += 1
        heapq.heappush(self._heap, (at, self._turns, what))
        return self._turns

    def close(self, processes: list[Process]) -> None:
        """Unwind every task there is, so that no greenlet outlives its world."""
        self._heap.clear()
        for process in processes:
            process.alive = False
            for task in process.tasks:
                if task.run:  # begun, and not done
                    self.current = task
                    task.run.throw(Crash())
        self.current = None
