"""
The soft time limit, noticed whatever becomes of its exception.

The pool's parent sends a signal, whose handler raises an exception in the main thread,
wherever that is. Most code lets it pass, but a C library may turn it into an error of
its own, and a clean-up may drop it. So the handler also leaves a note.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from billiard.pool import SIG_SOFT_TIMEOUT, soft_timeout_sighandler


@contextmanager
def noticing_time_limit() -> Iterator[Callable[[], bool]]:
    """
    Give a function that tells whether the soft limit was reached within the block.

    Without a pool of processes (threads, ``minutehand up``) no signal is sent, and the
    function always returns False.
    """
    in_main = threading.current_thread() is threading.main_thread()
    in_pool = signal.getsignal(SIG_SOFT_TIMEOUT) is soft_timeout_sighandler
    if not (in_main and in_pool):
        yield lambda: False
        return
    reached = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        reached.set()
        soft_timeout_sighandler(number, frame)

    signal.signal(SIG_SOFT_TIMEOUT, note)
    try:
        yield reached.is_set
    finally:
        signal.signal(SIG_SOFT_TIMEOUT, soft_timeout_sighandler)
