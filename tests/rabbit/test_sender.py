"""Sending to RabbitMQ: confirmed, never into nothing, never for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import amqp
import pytest

from celery_app.app import make_app
from celery_app.broker_link import SLICE
from celery_app.operation_sender import CelerySender
from celery_app.routing import find_broker_names
from models.errors import BrokerUnreachableError
from models.operation_state import WORKER_QUEUES, Queue
from operations.sending.order import Message
from tests.chaos.servers import Victim
from tests.rabbit.server import call_erlang, connect
from tests.scheduling import make_settings
from tests.servers import find_free_port, wait_until

#: Of whoever asks a broker that does not answer.
TIMEOUT_S = 2.0

#: For Erlang; a share of the machine's memory.
_LACK_MEMORY = "vm_memory_monitor:set_vm_memory_high_watermark({:f})."


@pytest.fixture(autouse=True)
def _no_queues(rabbit: Victim) -> None:
    """Begin without any of our queues, whatever ran before."""
    with connect(rabbit) as connection:
        for queue in WORKER_QUEUES:
            connection.channel().queue_delete(name_of(queue))


def make_sender(url: str, timeout_s: float = 30) -> CelerySender:
    """Return a sender with a deadline of so many seconds."""
    settings = make_settings(BROKER_URL=url, BROKER_TIMEOUT=f"PT{timeout_s:g}S")
    return CelerySender(make_app(settings), timeout=settings.broker_timeout)


@pytest.fixture
def sender(rabbit: Victim, _no_queues: None) -> Iterator[CelerySender]:
    """Give a sender to queues that are not there yet."""
    made = make_sender(rabbit.url)
    yield made
    made.close()


def name_of(queue: Queue) -> str:
    return find_broker_names(queue, "minutehand")[0]


def make_messages(count: int, queue: Queue = Queue.QUICK) -> list[Message]:
    return [Message(uuid4(), queue, "test", 0) for _ in range(count)]


def take_all(rabbit: Victim, queue: Queue = Queue.QUICK) -> list[str]:
    """Return the task ids in *queue*, in the order they would be taken."""
    found = []
    with connect(rabbit) as connection:
        channel = connection.channel()
        while (message := channel.basic_get(name_of(queue), no_ack=True)) is not None:
            found.append(message.properties["correlation_id"])
    return found


def test_confirms_are_awaited_for_many_messages_at_once(
    sender: CelerySender, rabbit: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One wait for each slice of a batch, which arrives in its order."""
    first, *batch = make_messages(1 + 2 * SLICE)
    sender.send([first])
    confirms = sender._link.confirms
    assert confirms is not None  # RabbitMQ confirms
    waits: list[set[str]] = []
    wait = confirms.wait

    def count(*arguments: Any, **options: Any) -> set[str]:
        waits.append(wait(*arguments, **options))
        return waits[-1]

    monkeypatch.setattr(confirms, "wait", count)
    sender.send(batch)

    assert [set(), set()] == waits
    assert [str(each.id) for each in (first, *batch)] == take_all(rabbit)


def test_next_node_of_a_cluster_takes_what_the_first_does_not(rabbit: Victim) -> None:
    """Where the first of the list refuses connections."""
    sender = make_sender(f"amqp://127.0.0.1:{find_free_port()}//;{rabbit.url}")
    messages = make_messages(3)

    sender.send(messages)
    sender.close()

    assert [str(each.id) for each in messages] == take_all(rabbit)


def test_queue_that_was_deleted_is_declared_and_filled(
    sender: CelerySender, rabbit: Victim
) -> None:
    """A confirm alone would not tell; only what found no queue is sent again."""
    sender.send(make_messages(1))
    with connect(rabbit) as connection:
        connection.channel().queue_delete(name_of(Queue.QUICK))
    quick, heavy = make_messages(3), make_messages(2, Queue.HEAVY)
    sender.send([*quick, *heavy])

    assert [str(each.id) for each in quick] == take_all(rabbit)
    assert [str(each.id) for each in heavy] == take_all(rabbit, Queue.HEAVY)


def test_queues_are_quorum_queues(sender: CelerySender, rabbit: Victim) -> None:
    """Declared as anything else, RabbitMQ refuses them."""
    sender.send(make_messages(1))
    with connect(rabbit) as connection, pytest.raises(amqp.PreconditionFailed):
        connection.channel().queue_declare(
            name_of(Queue.QUICK), durable=True, auto_delete=False
        )


def test_empty_queues_are_found(sender: CelerySender, rabbit: Victim) -> None:
    """One that was deleted holds nothing, either."""
    sender.send(make_messages(2))
    with connect(rabbit) as connection:
        connection.channel().queue_delete(name_of(Queue.HEAVY))

    assert {Queue.HEAVY, Queue.DEFAULT} == sender.find_empty_queues()
    assert len(take_all(rabbit)) == 2


def test_broker_that_freezes_costs_bounded_time(rabbit: Victim) -> None:
    """Messages that are not confirmed count as not sent, connected before or not."""
    sender = make_sender(rabbit.url, TIMEOUT_S)

    def is_sent() -> bool:
        with suppress(BrokerUnreachableError):  # a busy machine is late, now and then
            sender.send(make_messages(1))
            return True
        return False

    wait_until(is_sent, what="a message to be sent")
    costs = []
    rabbit.freeze()
    try:
        for _ in range(2):
            started_at = time.monotonic()
            with pytest.raises(BrokerUnreachableError):
                sender.send(make_messages(10))
            costs.append(time.monotonic() - started_at)
    finally:
        rabbit.thaw()
    wait_until(is_sent, what="a message to be sent again")
    sender.close()
    take_all(rabbit)

    assert [True] * 2 == [cost < 10 * TIMEOUT_S for cost in costs], costs


def test_alarm_that_blocks_publishers_is_named(rabbit: Victim) -> None:
    """RabbitMQ reads nothing more from whoever publishes while it lacks memory."""
    sender = make_sender(rabbit.url, TIMEOUT_S)

    def is_named() -> bool:
        try:
            sender.send(make_messages(1))
        except BrokerUnreachableError as error:
            return "lacks memory" in str(error)
        return False

    call_erlang(rabbit, _LACK_MEMORY.format(0.000001))
    try:
        wait_until(is_named, what="the alarm to be named")
    finally:
        call_erlang(rabbit, _LACK_MEMORY.format(0.6))
        sender.close()
