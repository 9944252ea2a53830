"""The signs of life of a Celery worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from celery_app.signs_of_life import PresenceStep
from tests.scheduling import make_settings


def test_timer_that_fires_after_the_stop_does_nothing(tmp_path: Path) -> None:
    """As Celery's do while the pool stops; the first one if no broker ever answered."""
    timers: list[Callable[[], None]] = []

    def call_after(_after_s: float, timer: Callable[[], None]) -> SimpleNamespace:
        timers.append(timer)
        return SimpleNamespace(cancel=lambda: None)

    clock = SimpleNamespace(call_after=call_after)
    worker = SimpleNamespace(hostname="quick@host", concurrency=1, timer=clock)
    step = PresenceStep(worker, make_settings(HOME=str(tmp_path)))
    step.start(worker)
    step.stop(worker)

    for timer in timers:
        timer()
