"""Senders of users' own tasks, in memory and to a broker, keep their promises."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import redis
from pydantic import JsonValue

from celery_app.task_sender import CeleryTaskSender
from models.errors import PlatformError
from operations.foreign_tasks import ForeignTask, TaskSender
from tests.scheduling import make_settings
from tests.servers import find_free_port
from tests.unit.operations.fakes import FakeTaskSender, failing

#: Name, id, and the arguments of a task, as its worker is given them.
Task = tuple[str, str, list[JsonValue], dict[str, JsonValue]]


@dataclass
class Case:
    """
    A sender whose settings name the queue "default".

    Args:
        fetch: What is in a queue, the oldest first.
        cut_off: Returns a sender whose broker does not answer.
    """

    sender: TaskSender
    fetch: Callable[[str], list[Task]]
    cut_off: Callable[[], TaskSender]

    def send(self, queue: str | None, number: int = 1) -> str | None:
        """Send a task."""
        return send(self.sender, queue, number)


def send(sender: TaskSender, queue: str | None, number: int) -> str | None:
    """Send task *number* of a shop."""
    task = ForeignTask(
        "shop.report", f"id {number}", ["a", number], {"b": None}, queue=queue
    )
    return sender.send(task).queue


def make_fake() -> Case:
    """Return the fake of the steps' tests."""
    fake = FakeTaskSender()

    def fetch(queue: str) -> list[Task]:
        return [
            (each.name, each.id, list(each.args), dict(each.kwargs))
            for each in fake.sent
            if each.queue == queue
        ]

    away = PlatformError("our broker did not accept the task.")
    return Case(fake, fetch, lambda: FakeTaskSender(error=away))


def make_real(url: str) -> Case:
    """Return a sender to the Redis at *url*."""

    def connect(broker_url: str) -> TaskSender:
        return CeleryTaskSender(
            make_settings(
                BROKER_URL=broker_url, BROKER_TIMEOUT="PT30S", TASK_QUEUE="default"
            )
        )

    def fetch(queue: str) -> list[Task]:
        with redis.Redis.from_url(url) as client:
            texts = client.lrange(queue, 0, -1)
        found = []
        for message in map(json.loads, reversed(texts)):
            args, kwargs, _embedded = json.loads(b64decode(message["body"]))
            headers = message["headers"]
            found.append((headers["task"], headers["id"], args, kwargs))
        return found

    away = f"redis://127.0.0.1:{find_free_port()}/0"
    return Case(connect(url), fetch, lambda: connect(away))


@pytest.fixture(params=["memory", "redis"])
def case(request: pytest.FixtureRequest) -> Case:
    """Give each sender there is."""
    if request.param == "memory":
        return make_fake()
    return make_real(request.getfixturevalue("redis_url"))


def test_tasks_wait_in_the_order_they_were_sent(case: Case) -> None:
    """In their queue alone, with name, id and arguments as they were given."""
    queues = [case.send("reports", number) for number in range(3)]

    assert ["reports"] * 3 == queues
    assert [
        ("shop.report", f"id {number}", ["a", number], {"b": None})
        for number in range(3)
    ] == case.fetch("reports")
    assert [] == case.fetch("default")


def test_queue_that_is_not_named_is_that_of_the_settings(case: Case) -> None:
    """The caller is told which."""
    assert case.send(None) == "default"
    assert 1 == len(case.fetch("default"))


def test_broker_that_is_away_is_temporary(case: Case) -> None:
    """The operation is tried again, for nothing is wrong with it."""
    with failing(permanent=False):
        send(case.cut_off(), "reports", 1)

    assert [] == case.fetch("reports")
