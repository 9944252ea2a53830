"""How a worker starts, whichever command starts it: how many at once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from celery.signals import celeryd_init

from celery_app.worker_start import HEAVY_CONCURRENCY as TWO


@pytest.mark.parametrize(
    ("options", "concurrency"),
    [
        ({"queues": "heavy"}, TWO),
        ({"queues": "celery"}, TWO),
        ({"queues": "heavy, celery"}, TWO),
        ({"queues": ["heavy"]}, TWO),
        ({"queues": "minutehand.heavy"}, TWO),
        ({"queues": "quick,heavy"}, TWO),
        ({"queues": None}, TWO),
        ({}, TWO),
        ({"queues": "quick"}, None),
        ({"queues": "minutehand.quick"}, None),
        ({"queues": None, "exclude_queues": "heavy,celery"}, None),
        ({"queues": "heavy", "concurrency": 8}, None),
        ({"queues": "heavy", "autoscale": "8,2"}, None),
    ],
)
def test_what_may_be_heavy_runs_two_at_a_time(
    options: dict[str, object], concurrency: int | None
):
    """Unless the command says another number; quick ones run one on each core."""
    conf = SimpleNamespace(worker_concurrency=None)

    celeryd_init.send(sender="test", instance=None, conf=conf, options=options)

    assert concurrency == conf.worker_concurrency
