"""
Waiting for operations to end, without a thread or a connection for each who waits.

One task looks once a second for all who wait together, and only while there are any.
Used in the event loop of the server alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from uuid import UUID

import sqlalchemy as sa

from models.errors import UnreachableError
from models.operation_state import FINAL_STATES, OperationState
from operations.state import LOOK_EVERY_S, read_operation_states

#: Returns the states of those operations that exist.
Look = Callable[[Collection[UUID]], Mapping[UUID, OperationState]]


class _Waiter:
    """Somebody who waits; *state* is the last one that was seen."""

    def __init__(self, operation_id: UUID, state: OperationState) -> None:
        self.operation_id = operation_id
        self.state: OperationState | None = state
        self.is_over = asyncio.Event()


@dataclass(slots=True)
class Waiters:
    """
    All who wait for operations in one process.

    Args:
        look: Called in a thread, by nobody else at the same time.
        every: Between two looks.
        most: Who comes beyond so many is answered at once.
    """

    look: Look
    every: timedelta = timedelta(seconds=LOOK_EVERY_S)
    most: int = 2_000
    _waiting: set[_Waiter] = field(default_factory=set, init=False)
    _looking: asyncio.Task[None] | None = field(default=None, init=False)
    _is_closed: bool = field(default=False, init=False)

    @property
    def count(self) -> int:
        """How many wait now."""
        return len(self._waiting)

    async def wait(
        self, operation_id: UUID, state: OperationState, *, at_most: timedelta
    ) -> OperationState | None:
        """
        Wait until an operation is final, and return its state.

        Args:
            state: What it is now.
            at_most: How long to wait.

        Returns:
            The state at the end, which is not final if *at_most* was reached, too many
            wait already, or the server ends. None if there is no such operation any
            more.
        """
        if state in FINAL_STATES or self._is_closed or len(self._waiting) >= self.most:
            return state
        waiter = _Waiter(operation_id, state)
        self._waiting.add(waiter)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._go_on())
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(waiter.is_over.wait(), at_most.total_seconds())
        finally:
            self._waiting.discard(waiter)
        return waiter.state

    def close(self) -> None:
        """Let nobody wait any longer; the server is ending."""
        self._is_closed = True
        for each in self._waiting:
            each.is_over.set()

    async def _go_on(self) -> None:
        """Look again and again, while somebody waits."""
        loop = asyncio.get_running_loop()
        while self._waiting and not self._is_closed:
            next_at = loop.time() + self.every.total_seconds()
            asked = {each.operation_id for each in self._waiting}
            # If the database is away, the look after this one finds what it would have.
            with suppress(UnreachableError):
                # Not one of the threads of requests: however busy these are, it looks.
                found = await asyncio.to_thread(self.look, asked)
                self._tell(asked, found)
            await asyncio.sleep(max(0.0, next_at - loop.time()))

    def _tell(
        self, asked: Collection[UUID], found: Mapping[UUID, OperationState]
    ) -> None:
        for each in list(self._waiting):
            if each.operation_id not in asked:
                continue  # came while we looked
            each.state = found.get(each.operation_id)
            if each.state is None or each.state in FINAL_STATES:
                self._waiting.discard(each)
                each.is_over.set()


def make_waiters(engine: sa.Engine) -> Waiters:
    """Return waiters who look into the database of *engine*."""
    return Waiters(partial(read_operation_states, engine))
