"""Tasks of users' own over RabbitMQ: into queues as their owners made them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import uuid4

import amqp
import pytest

from actions.stored_task_queues import TaskQueue
from celery_app.foreign_queues import look_at_task_queues
from celery_app.task_sender import CeleryTaskSender
from models.errors import StepError
from operations.foreign_tasks import ForeignTask
from settings import Settings, read_settings
from tests.chaos.servers import Victim
from tests.servers import find_free_port

QUEUE = "shop.reports"


@pytest.fixture
def channel(rabbit: Victim) -> Iterator[amqp.Channel]:
    """Give a channel of the queue's owner, who has not made it yet."""
    address = rabbit.url.rpartition("@")[2].rstrip("/")
    with amqp.Connection(address) as connection:
        made = connection.channel()
        made.queue_delete(QUEUE)
        yield made
        made.queue_delete(QUEUE)


def make_settings(url: str) -> Settings:
    """Return settings with a connection to *url*; our own broker is another."""
    variables = {
        "MINUTEHAND_BROKER_TIMEOUT": "PT2S",
        "MINUTEHAND_TASK_CONNECTIONS": f"shop={url}",
    }
    return read_settings(variables, env_file=None)


def send(sender: CeleryTaskSender) -> str:
    """Send a task and return its id."""
    task_id = str(uuid4())
    sender.send(
        ForeignTask("shop.report", task_id, [1], queue=QUEUE, connection="shop")
    )
    return task_id


def test_queue_that_is_missing_is_told(rabbit: Victim, channel: amqp.Channel):
    """
    It does not vanish, and is not made; sent again once it is there, it arrives.
    """
    sender = CeleryTaskSender(make_settings(rabbit.url))
    for _ in range(2):
        with pytest.raises(StepError, match="has no queue 'shop") as caught:
            send(sender)
    assert not caught.value.permanent
    with pytest.raises(amqp.NotFound):
        channel.connection.channel().queue_declare(QUEUE, passive=True)

    channel.queue_declare(QUEUE, durable=True, auto_delete=False)
    task_id = send(sender)

    message = channel.basic_get(QUEUE, no_ack=True)
    assert task_id == message.headers["id"]
    assert [[1], {}] == json.loads(message.body)[:2]


@pytest.mark.parametrize("arguments", [{}, {"x-queue-type": "quorum"}])
def test_queue_stays_as_its_owner_made_it(
    rabbit: Victim, channel: amqp.Channel, arguments: dict[str, str]
):
    """
    Of whatever kind it is.
    """
    channel.queue_declare(QUEUE, durable=True, auto_delete=False, arguments=arguments)

    task_id = send(CeleryTaskSender(make_settings(rabbit.url)))

    message = channel.basic_get(QUEUE, no_ack=True)
    assert task_id == message.headers["id"]


def test_other_node_is_tried(rabbit: Victim, channel: amqp.Channel):
    """
    Of the nodes of a cluster the first may be down.
    """
    channel.queue_declare(QUEUE, durable=True, auto_delete=False)
    down = f"amqp://guest:guest@127.0.0.1:{find_free_port()}//"

    send(CeleryTaskSender(make_settings(f"{down};{rabbit.url}")))

    assert channel.basic_get(QUEUE, no_ack=True) is not None


def test_doctor_counts_who_takes_it(rabbit: Victim, channel: amqp.Channel):
    """
    No such queue, a queue without a worker, and one with a worker.
    """
    settings = make_settings(rabbit.url)
    asked = [TaskQueue("shop", QUEUE, 2, "weekly")]

    (missing,) = look_at_task_queues(asked, settings)
    channel.queue_declare(QUEUE, durable=True, auto_delete=False)
    (idle,) = look_at_task_queues(asked, settings)
    consumer = channel.basic_consume(QUEUE)
    (well,) = look_at_task_queues(asked, settings)
    channel.basic_cancel(consumer)

    assert [False, False, True] == [each.is_well for each in (missing, idle, well)]
    assert "it does not exist" in missing.detail
    assert "0 wait" in idle.detail
    assert "1 consumer" in well.detail
