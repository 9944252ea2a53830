"""What the page of the workers says in words."""

from __future__ import annotations

import pytest

from models.operation_state import Queue
from web.charts import draw_spark
from web.workers import tell_commands


@pytest.mark.parametrize(
    ("prefix", "begin"),
    [
        ("minutehand", "minutehand worker"),
        ("staging", "MINUTEHAND_QUEUE_PREFIX=staging minutehand worker"),
        ("", "MINUTEHAND_QUEUE_PREFIX=none minutehand worker"),
    ],
)
def test_command_has_the_prefix_of_the_queues(prefix: str, begin: str):
    """A worker of another prefix would take nothing, and say nothing."""
    (_, own), (_, celery) = tell_commands(
        [Queue.DEFAULT], prefix=prefix, broker_url="redis://h"
    )

    assert f"{begin} -Q celery -n celery@%h" == own
    assert celery.endswith("celery -A celery_app worker -Q celery -n celery@%h")


def test_everything_in_one_process_has_one_command():
    """No worker reaches a broker in the memory of another process."""
    found = tell_commands([], prefix="minutehand", broker_url="memory://")

    assert ["minutehand up"] == [line for _, line in found]


def test_line_of_zeros_lies_at_the_bottom():
    """Also of one value."""
    sparks = [draw_spark(values) for values in ([0, 0], [0])]

    assert {17.0} == {each.y for each in sparks if each}
