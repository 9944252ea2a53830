"""
Answers that took long, kept a while for all who ask the same; others are made anew.

So a page of a large installation is made once for many who look, and what a small one
shows is never old. Used in the threads of requests.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

_Answer = TypeVar("_Answer")

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
