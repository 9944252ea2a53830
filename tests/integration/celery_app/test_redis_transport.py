"""What a worker puts back, at a real Redis."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid5

import pytest
import redis
from celery import Celery
from kombu.utils.json import dumps, loads

from celery_app.app import make_app
from celery_app.operation_sender import CelerySender
from celery_app.routing import find_broker_names
from models.operation_state import Queue
from operations.sending.order import Message
from tests.scheduling import make_settings

QUICK = find_broker_names(Queue.QUICK, "minutehand")[0]

#: Sent in this order.
IDS = [uuid5(UUID(int=0), str(number)) for number in range(4)]


@pytest.fixture
def app(redis_url: str) -> Celery:
    """Give an application whose quick queue holds IDS."""
    settings = make_settings(BROKER_URL=redis_url)
    made = make_app(settings)
    sender = CelerySender(made, timeout=timedelta(seconds=30))
    sender.send([Message(each, Queue.QUICK, "a test", 0) for each in IDS])
    sender.close()
    return made


@pytest.fixture
def connection(app: Celery) -> Iterator[Any]:
    """Give a connection as a worker's, whose queues are declared."""
    with app.connection_for_read() as made:
        app.amqp.queues[Queue.QUICK.value](made.default_channel).declare()
        yield made


def take(connection: Any, count: int) -> list[Any]:
    channel = connection.default_channel
    return [channel.basic_get(QUICK) for _ in range(count)]


def fetch_waiting(redis_url: str) -> list[UUID]:
    """Return the ids in the quick queue, the next to be taken first."""
    with redis.Redis.from_url(redis_url) as client:
        texts = client.lrange(QUICK, 0, -1)
    return [UUID(loads(text)["headers"]["id"]) for text in reversed(texts)]


def test_worker_that_stops_puts_back_where_it_took(connection: Any, redis_url: str):
    """What it had taken waited for longest, and does not wait for all others again."""
    ended, *_others = take(connection, 3)
    ended.ack()

    connection.close()

    assert IDS[1:] == fetch_waiting(redis_url)


def test_message_that_could_not_be_looked_up_waits_for_the_others(
    connection: Any, redis_url: str
):
    """Whatever is wrong with its row does not keep the next one from being tried."""
    [message] = take(connection, 1)

    message.reject(requeue=True)

    assert [*IDS[1:], IDS[0]] == fetch_waiting(redis_url)
    connection.close()
    assert [*IDS[1:], IDS[0]] == fetch_waiting(redis_url)


def test_message_that_was_put_back_is_not_put_back_again(
    connection: Any, redis_url: str
):
    """A task that outlives the connection of its message may reject it afterwards."""
    [message] = take(connection, 1)
    connection.close()

    message.reject(requeue=True)

    assert fetch_waiting(redis_url) == IDS


def test_worker_that_lost_its_connection_puts_back(
    app: Celery, connection: Any, redis_url: str
):
    """While it waits for the next message; Celery's consumer cleans up after that."""
    take(connection, 2)
    # As a worker has one for its tasks and one for what it is told.
    for channel in (connection.default_channel, connection.channel()):
        app.amqp.queues[Queue.HEAVY.value](channel).consume(callback=print)
    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=0.1)  # asks Redis, and does not wait for it
    with redis.Redis.from_url(redis_url) as client:
        client.client_kill_filter(_type="normal", skipme=True)

    connection.collect(socket_timeout=60)
    connection.close()

    assert fetch_waiting(redis_url) == IDS


@pytest.mark.parametrize("junk", ["garbage{", "[]", "{}", b"\xff"])
def test_what_is_no_message_ends_no_worker(
    app: Celery, redis_url: str, junk: str | bytes
):
    """Whoever consumes is told, and the next is taken."""
    with redis.Redis.from_url(redis_url) as client:
        client.rpush(QUICK, junk)  # the next to be taken
    taken: list[Any] = []
    told: list[str] = []
    with app.connection_for_read() as connection:
        consumer = app.amqp.TaskConsumer(
            connection.default_channel,
            queues=[app.amqp.queues[Queue.QUICK.value]],
            on_message=taken.append,
            on_decode_error=lambda _message, error: told.append(str(error)),
        )
        with consumer:
            while not taken:
                connection.drain_events(timeout=60)

    assert str(IDS[0]) == taken[0].headers["id"]
    assert len(told) == 1


@pytest.mark.parametrize("give_back", ["reject", "close"])
def test_message_goes_back_to_where_it_was_and_not_where_it_names(
    connection: Any, redis_url: str, give_back: str
):
    """Byte by byte: whoever has written it cannot have us write to another's queue."""
    with redis.Redis.from_url(redis_url) as client:
        envelope = loads(client.lindex(QUICK, -1))
        place = {"exchange": "", "routing_key": "theirs"}
        envelope["properties"] |= {"delivery_info": place, "priority": 9}
        text = dumps(envelope).encode()
        client.rpush(QUICK, text)  # the next to be taken
    [message] = take(connection, 1)

    if give_back == "reject":
        message.reject(requeue=True)
    connection.close()

    with redis.Redis.from_url(redis_url) as client:
        assert client.lindex(QUICK, 0 if give_back == "reject" else -1) == text
        assert not client.exists("theirs")
