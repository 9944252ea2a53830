"""How a worker starts, whichever command starts it: how many at once, how it writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from celery.signals import celeryd_init

from celery_app.worker_start import HEAVY_CONCURRENCY as TWO


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    """Begin with that of most hosts, and leave the tests' own."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_what_it_writes_is_for_its_user_alone() -> None:
    """Also under Celery's own command."""
    celeryd_init.send(sender="test", instance=None, conf=SimpleNamespace(), options={})

    assert 0o077 == os.umask(0)


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
