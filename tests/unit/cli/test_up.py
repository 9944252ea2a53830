"""How what runs in the foreground is stopped."""

from __future__ import annotations

import signal
import threading

import pytest

from cli.up import stopping_on_signals
from tests.servers import PATIENCE_S


class Held(threading.Event):
    """An event that the main thread has locked, as it does while it begins to wait."""

    def set(self) -> None:
        """Do so from elsewhere alone: there it would wait for ever."""
        assert threading.current_thread() is not threading.main_thread()
        super().set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_whatever_the_main_thread_is_at(number: signal.Signals):
    """Its handler runs in that thread, and may not wait for what the thread holds."""
    stop = Held()
    before = signal.getsignal(number)

    with stopping_on_signals(stop):
        signal.raise_signal(number)

        assert stop.wait(PATIENCE_S)
    assert before == signal.getsignal(number)
