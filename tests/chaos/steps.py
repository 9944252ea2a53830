"""
A Celery app like ours, whose run_task does what tests ask for.

    celery --app tests.chaos.steps worker

``{"run_task": {"name": "sleep", "args": [3]}}`` runs ``sleep`` below. Each run is
written to the file named by MINUTEHAND_TEST_EFFECTS first: one line each, which is
the effect that must be there once.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from billiard.exceptions import SoftTimeLimitExceeded
from celery.app.utils import Settings
from celery.signals import celeryd_init
from pydantic import JsonValue

from celery_app import celery
from models.run_task import RunTaskModel
from operations.ports import StepContext, StepResult
from operations.steps import STEPS

__all__ = ["celery"]

#: Names the file for the effects; a variable of the tests, which are no settings.
EFFECTS = "MINUTEHAND_TEST_EFFECTS"

#: Has the seconds that what runs is given when a worker is told to stop.
SOFT_SHUTDOWN_S = "MINUTEHAND_TEST_SOFT_SHUTDOWN_S"


def sleep(_context: StepContext, seconds: JsonValue) -> None:
    """Take so many seconds."""
    assert isinstance(seconds, int | float)
    time.sleep(seconds)


def wait_for(context: StepContext, path: JsonValue) -> None:
    """Go on when there is a file *path*; notice cancellation meanwhile."""
    asked = 0
    while not Path(str(path)).exists():
        asked += 1
        context.progress(asked, asked + 1)
        time.sleep(0.05)


def wait_deaf(_context: StepContext, path: JsonValue) -> None:
    """Go on when there is a file *path*, whatever anybody says meanwhile."""
    while True:
        # Around all of it: it may strike anywhere.
        with suppress(SoftTimeLimitExceeded):
            while not Path(str(path)).exists():
                time.sleep(0.05)
            return


def die(_context: StepContext) -> None:
    """Kill this process, as the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


BEHAVIOURS: dict[str, Callable[..., None]] = {
    "die": die,
    "sleep": sleep,
    "wait_deaf": wait_deaf,
    "wait_for": wait_for,
}


def run_behaviour(context: StepContext, asked: object) -> StepResult:
    """Write down that this attempt runs, and do what *asked* names."""
    assert isinstance(asked, RunTaskModel)
    with Path(os.environ[EFFECTS]).open("a") as effects:
        effects.write(f"{context.operation_id} {context.attempt} {os.getpid()}\n")
    BEHAVIOURS[asked.name](context, *asked.args)
    with Path(os.environ[EFFECTS]).open("a") as effects:
        effects.write(f"{context.operation_id} {context.attempt} done\n")
    return {}


@celeryd_init.connect
def _begin(conf: Settings | None = None, **_arguments: object) -> None:
    """
    Make a worker of this application behave as tests ask.

    Not at import: the tests themselves import this module for the names in it.
    """
    assert conf is not None  # Celery always gives it
    if EFFECTS not in os.environ:
        return  # this is no such worker, but a test that asks Celery how it would start
    STEPS["run_task"] = run_behaviour
    conf.worker_soft_shutdown_timeout = float(os.environ.get(SOFT_SHUTDOWN_S, "0.5"))
