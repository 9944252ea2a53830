"""
Answers that are made once for many who ask.

What is slow is not done twice at a time: used in the event loop of the server alone.
What took long is kept a while, so that a page of a large installation is made once for
many who look, and what a small one shows is never old: used in threads of requests.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar

from anyio import CapacityLimiter, to_thread

from models.errors import MinutehandError

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class _Made(Generic[_Answer]):
    outcome: _Answer | MinutehandError
    at: float


def _now_s() -> float:
    return asyncio.get_running_loop().time()


@dataclass(slots=True)
class Shared(Generic[_Answer]):
    """
    An answer that is kept for a while, and made again when somebody asks after that.

    Args:
        make: Called in a thread of its own, which is none of those of requests.
        kept_for: How old the answer may be; errors are kept as well.
        patience_s: For how long ``get`` waits for a new one.
    """

    make: Callable[[], _Answer]
    kept_for: timedelta
    patience_s: float = 1.0
    _made: _Made[_Answer] | None = None
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)
    _meanwhile: asyncio.Task[object] | None = None
    _thread: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))

    async def ask(self) -> tuple[_Answer, float]:
        """
        Return the answer, and how many seconds old it is.

        Raises:
            MinutehandError: What *make* raised.
        """
        async with self._making:
            made = self._made
            if made is None or self._is_old(made):
                outcome = await to_thread.run_sync(self._try, limiter=self._thread)
                made = self._made = _Made(outcome, _now_s())
            age_s = _now_s() - made.at
        if isinstance(made.outcome, MinutehandError):
            raise made.outcome
        return made.outcome, age_s

    async def get(self) -> tuple[_Answer, float] | None:
        """
        Return the last answer, however old, and how many seconds old it is.

        If it is too old, another is made, for which nobody waits for long. None: none
        was made yet, or the last attempt failed.
        """
        if self._made is None or self._is_old(self._made):
            if self._meanwhile is None or self._meanwhile.done():
                self._meanwhile = asyncio.create_task(self._make_quietly())
            await asyncio.wait({self._meanwhile}, timeout=self.patience_s)
        made = self._made
        if made is None or isinstance(made.outcome, MinutehandError):
            return None
        return made.outcome, _now_s() - made.at

    async def _make_quietly(self) -> None:
        with suppress(MinutehandError):  # it is kept for whoever asks
            await self.ask()

    def _is_old(self, made: _Made[_Answer]) -> bool:
        return _now_s() - made.at >= self.kept_for.total_seconds()

    def _try(self) -> _Answer | MinutehandError:
        try:
            return self.make()
        except MinutehandError as error:
            return error


#: What took less is made anew for everybody.
LONG = timedelta(milliseconds=100)

#: How old an answer may be.
KEPT_FOR = timedelta(seconds=30)

#: Answers at most: those that were asked for longest ago are forgotten.
MOST = 64


@dataclass(slots=True)
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    answer: Any = None
    made_at: float | None = None


@dataclass(slots=True)
class Kept:
    """
    Answers by what was asked.

    Args:
        monotonic: Returns seconds that never jump.
    """

    monotonic: Callable[[], float] = time.monotonic
    _entries: OrderedDict[Hashable, _Entry] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(
        self, key: Hashable, make: Callable[[], _Answer]
    ) -> tuple[_Answer, timedelta]:
        """
        Return the answer, and how old it is.

        Args:
            key: What is asked; with whatever the asker may see, and with the kind of
                the answer.
            make: Makes it. Whoever asks the same meanwhile waits for it.

        Raises:
            Exception: What *make* raised; then nothing is kept.
        """
        entry = self._find(key)
        with entry.lock:
            if entry.made_at is not None:
                age = timedelta(seconds=self.monotonic() - entry.made_at)
                if age < KEPT_FOR:
                    return entry.answer, age
            began = self.monotonic()
            answer = make()
            took = timedelta(seconds=self.monotonic() - began)
            entry.answer, entry.made_at = None, None
            if took >= LONG:
                entry.answer, entry.made_at = answer, self.monotonic()
        return answer, timedelta()

    def _find(self, key: Hashable) -> _Entry:
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > MOST:
                self._entries.popitem(last=False)
            return entry
