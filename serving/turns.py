"""
Long work, in turns: one at a time for each tenant, so that none waits for another's.

Used in the event loop of the server alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from typing import TypeVar
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, to_thread

from serving.refusals import HttpError

_Answer = TypeVar("_Answer")

#: How long somebody waits for their turn, before they are told to come back.
WAIT = timedelta(seconds=5)

#: When to come back, in seconds.
_RETRY_AFTER = 10


@dataclass(slots=True)
class Turns:
    """
    Work of one kind.

    Args:
        what: Names it in messages.
        at_once: Of different tenants; each has one at a time.
        wait: At most so long for one's turn.
    """

    what: str
    at_once: int
    wait: timedelta = WAIT
    _tenants: WeakValueDictionary[str, asyncio.Lock] = field(
        default_factory=WeakValueDictionary
    )
    _places: asyncio.Semaphore = field(init=False)
    _threads: CapacityLimiter = field(init=False)

    def __post_init__(self) -> None:
        """Leave every place free."""
        self._places = asyncio.Semaphore(self.at_once)
        self._threads = CapacityLimiter(self.at_once)

    @asynccontextmanager
    async def take(self, tenant: str) -> AsyncIterator[None]:
        """
        Wait for the turn of *tenant*; it lasts as long as the block.

        Raises:
            HttpError: It did not come in time: 503.
        """
        lock = self._tenants.setdefault(tenant, asyncio.Lock())
        async with AsyncExitStack() as turn:
            try:
                async with asyncio.timeout(self.wait.total_seconds()):
                    # First among one's own: so tenants, not requests, are in line.
                    await turn.enter_async_context(lock)
                    await turn.enter_async_context(self._places)
            except TimeoutError:
                msg = (
                    f"{self.what} is under way, and takes its time. Ask again in"
                    f" {_RETRY_AFTER} s."
                )
                headers = {"Retry-After": str(_RETRY_AFTER)}
                status = HTTPStatus.SERVICE_UNAVAILABLE
                raise HttpError(status, msg, headers=headers) from None
            yield

    async def run(self, tenant: str, work: Callable[[], _Answer]) -> _Answer:
        """
        Do *work* in the turn of *tenant*, in a thread that is none of requests'.

        Raises:
            HttpError: Its turn did not come in time: 503.
        """
        async with self.take(tenant):
            return await to_thread.run_sync(work, limiter=self._threads)
