"""What is sent over one connection, some of which its broker refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from celery_app.task_sender import CeleryTaskSender, Link, NotSent
from models.errors import StepError
from operations.foreign_tasks import ForeignTask
from tests.scheduling import make_settings


class FakeLink:
    """RabbitMQ: it takes what is published until it refuses the channel."""

    def __init__(self) -> None:
        """Have taken nothing."""
        self.taken: list[str] = []

    def send(self, tasks: Sequence[ForeignTask], answers: str | None = None) -> NotSent:
        """Take tasks up to the first to an exchange that does not exist."""
        assert answers is None
        for task in tasks:
            if task.exchange == "missing":
                raise StepError("it does not exist", permanent=False)
            self.taken.append(task.id)
        return NotSent()


def test_exchange_that_is_missing_doubles_nothing():
    """All that is sent beside it arrives, once."""
    sender, link = CeleryTaskSender(make_settings()), FakeLink()
    sender._links[None] = cast("Link", link)
    exchanges = None, "events", "missing", "events", None, "missing"
    tasks = [
        ForeignTask("shop.report", str(number), exchange=exchange)
        for number, exchange in enumerate(exchanges)
    ]

    left = sender.send_all(None, tasks)

    assert ["0", "1", "3", "4"] == sorted(link.taken)
    assert {"2", "5"} == set(left.refused)
