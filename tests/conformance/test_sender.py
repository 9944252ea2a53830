"""What hands operations to a broker, simulated and for real, keeps its promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from uuid import UUID, uuid4

import pytest
import redis
from kombu.utils.json import loads

from celery_app.app import make_app
from celery_app.operation_sender import CelerySender
from celery_app.routing import find_broker_names
from dispatch.outbox import Sender
from models.errors import BrokerUnreachableError
from models.operation_state import WORKER_QUEUES, Queue
from operations.sending.order import Message
from tests.chaos.servers import Victim
from tests.rabbit.server import connect, purge
from tests.scheduling import BROKER_DOWN, FakeSender, make_settings
from tests.servers import find_free_port
from tests.simulation.broker import Broker, SimulatedSender
from tests.simulation.faults import Faults
from tests.simulation.loop import HOUR, Loop, Process


@dataclass
class Case:
    """
    A sender, and a broker without any of our messages.

    Args:
        fetch: The ids in the first lane of a queue, the oldest first.
        cut_off: Returns a sender whose broker does not answer.
        run: Calls something that uses the sender.
        keeps_order: What is sent together arrives in its order.
    """

    sender: Sender
    fetch: Callable[[Queue], list[UUID]]
    cut_off: Callable[[], Sender]
    run: Callable[[Callable[[], None]], None] = lambda function: function()
    keeps_order: bool = True


def make_messages(count: int, queue: Queue = Queue.QUICK) -> list[Message]:
    """Return messages of operations that are nowhere."""
    return [Message(uuid4(), queue, "test", 0) for _ in range(count)]


def make_fake() -> Case:
    """Return the sender of the dispatcher's tests, which are told what it finds."""
    fake = FakeSender(empty=set(WORKER_QUEUES))

    def fetch(queue: Queue) -> list[UUID]:
        taken = [each for batch in fake.batches for each in batch]
        return [each.id for each in taken if each.queue is queue]

    return Case(fake, fetch, lambda: FakeSender(error=BROKER_DOWN))


@dataclass
class NoHost:
    """Where nothing happens to a process."""

    ended: list[Process] = field(default_factory=list)

    def freeze(self, process: Process, *, suspend: bool = False) -> None:
        """Do nothing."""

    def end(self, process: Process) -> None:
        """Remember it."""
        self.ended.append(process)


def make_simulated() -> Case:
    """Return the sender of the simulated world, on a day without faults."""
    loop, rng = Loop(), Random(0)
    broker = Broker(loop, rng, Faults(rng, intensity=0))
    process = Process("scheduler", "scheduler")

    def run(function: Callable[[], None]) -> None:
        loop.spawn(process, function)
        loop.run(until=loop.now + HOUR)

    def cut_off() -> Sender:
        alone = Process("scheduler", "scheduler", cut_off={"broker": 100 * HOUR})
        return SimulatedSender(broker, alone, NoHost())

    return Case(
        SimulatedSender(broker, process, NoHost()),
        lambda queue: list(broker.queues[queue, 0]),
        cut_off,
        run,
        keeps_order=False,  # which nothing may rely on
    )


def connect_to(url: str) -> CelerySender:
    """Return the real sender, to the broker at *url*."""
    settings = make_settings(BROKER_URL=url)
    return CelerySender(make_app(settings), timeout=timedelta(seconds=30))


def make_redis(url: str) -> Case:
    """Return a sender to Redis."""

    def fetch(queue: Queue) -> list[UUID]:
        with redis.Redis.from_url(url) as client:
            texts = client.lrange(find_broker_names(queue, "minutehand")[0], 0, -1)
        return [UUID(loads(text)["headers"]["id"]) for text in reversed(texts)]

    away = f"redis://127.0.0.1:{find_free_port()}/0"
    return Case(connect_to(url), fetch, lambda: connect_to(away))


def make_rabbit(rabbit: Victim) -> Case:
    """Return a sender to RabbitMQ."""

    def fetch(queue: Queue) -> list[UUID]:
        name, found = find_broker_names(queue, "minutehand")[0], []
        with connect(rabbit) as connection:
            channel = connection.channel()
            while (message := channel.basic_get(name, no_ack=True)) is not None:
                found.append(UUID(message.properties["correlation_id"]))
        return found

    away = f"amqp://127.0.0.1:{find_free_port()}//"
    purge(rabbit)
    return Case(connect_to(rabbit.url), fetch, lambda: connect_to(away))


@pytest.fixture(
    params=[
        "memory",
        "simulated",
        "redis",
        pytest.param("rabbit", marks=pytest.mark.rabbit),
    ]
)
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    """Give each sender there is."""
    match request.param:
        case "memory":
            yield make_fake()
            return
        case "simulated":
            yield make_simulated()
            return
        case "redis":
            made = make_redis(request.getfixturevalue("redis_url"))
        case _:
            made = make_rabbit(request.getfixturevalue("rabbit"))
    yield made
    assert isinstance(made.sender, CelerySender)
    made.sender.close()


def test_all_messages_come_to_their_queues(case: Case) -> None:
    """Each once, under its own id, and in their order where order is kept."""
    quick, heavy = make_messages(30), make_messages(2, Queue.HEAVY)

    case.run(lambda: case.sender.send([*quick, *heavy]))

    for queue, sent in ((Queue.QUICK, quick), (Queue.HEAVY, heavy)):
        ids, found = [each.id for each in sent], case.fetch(queue)
        assert sorted(ids) == sorted(found)
        assert ids == found or not case.keeps_order


def test_queues_that_hold_nothing_are_found(case: Case) -> None:
    """All of them, before anything was sent."""
    found: list[set[Queue]] = []

    case.run(lambda: found.append(case.sender.find_empty_queues()))

    assert [set(WORKER_QUEUES)] == found


@pytest.mark.parametrize("ask", ["send", "find_empty_queues"])
def test_broker_that_is_away_is_unreachable(case: Case, ask: str) -> None:
    """Whatever it is asked, within the deadline, and never with another error."""
    sender = case.cut_off()
    arguments = [make_messages(2)] if ask == "send" else []
    caught: list[BrokerUnreachableError] = []

    def call() -> None:
        try:
            getattr(sender, ask)(*arguments)
        except BrokerUnreachableError as error:
            caught.append(error)

    case.run(call)

    assert 1 == len(caught)
