"""
The Celery application of benchmarks/workers.py: the real one, or a plain one.

``BENCHMARK_CASE`` says which. Both know a task that does nothing.
"""

from __future__ import annotations

import os

from celery import Celery

from benchmarks.servers import from_environment

case = os.environ["BENCHMARK_CASE"]

if case == "plain":
    app = Celery("benchmark", broker=from_environment().redis)
    app.conf.update(
        task_ignore_result=True,
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        worker_send_task_events=False,
        broker_connection_retry_on_startup=True,
    )
else:
    from celery_app.app import app
    from operations.steps import STEPS

    if case == "nothing":
        STEPS["run_task"] = lambda _context, _asked: {}


@app.task(name="benchmarks.nothing")
def nothing(**_arguments: object) -> None:
    """Do nothing, whatever is asked."""
