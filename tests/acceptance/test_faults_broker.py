"""A Redis that is down, hangs, or swallows everything: one bounded attempt each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from uuid import uuid4

import pytest
import redis
import sqlalchemy as sa

from actions.lease import Leader, get_holder
from celery_app.app import make_app
from celery_app.operation_sender import CelerySender
from celery_app.routing import find_broker_names
from dispatch.upkeep import do_all
from models.errors import BrokerUnreachableError
from models.operation_state import OperationState, Queue
from operations.sending.order import Message
from scheduler_server import Scheduler
from settings import Settings, read_settings
from tests.chaos.installation import PATIENT
from tests.chaos.servers import Victim, run_blackhole, run_faulty_redis
from tests.scheduling import MINUTE, NoTasks, add_app, fetch_all, get_now, post_at
from tests.servers import wait_until

#: Of whoever asks a broker that does not answer.
TIMEOUT_S = 1.0

#: What a call may take that waits for one such deadline, on a machine that has much
#: else to do; far below what it would take if it waited once for each message.
AT_MOST_S = 20 * TIMEOUT_S


@pytest.fixture(scope="module")
def broker() -> Iterator[Victim]:
    """Give a Redis of this module alone."""
    with run_faulty_redis() as server:
        yield server


def make_settings(url: str) -> Settings:
    values = {**PATIENT, "BROKER_URL": url}
    return read_settings(
        {f"MINUTEHAND_{name}": value for name, value in values.items()}, env_file=None
    )


def make_sender(url: str, timeout_s: float | None = None) -> CelerySender:
    """Return a sender on a Celery app of its own; None: a patient one."""
    settings = make_settings(url)
    if timeout_s is not None:
        settings = settings.model_copy(
            update={"broker_timeout": timedelta(seconds=timeout_s)}
        )
    return CelerySender(make_app(settings), timeout=settings.broker_timeout)


def send_at_last(sender: CelerySender) -> None:
    """Send something; a busy machine may let a deadline pass before it works."""

    def is_sent() -> bool:
        with suppress(BrokerUnreachableError):
            sender.send(make_messages())
            return True
        return False

    wait_until(is_sent, what="a message to be sent")


LANES = find_broker_names(Queue.QUICK, "minutehand")


def make_messages(count: int = 3) -> list[Message]:
    """Return messages of operations that are nowhere."""
    return [Message(uuid4(), Queue.QUICK, "test", 0) for _ in range(count)]


def measure(call: Callable[[], object]) -> float:
    """Return how many seconds *call* took to find the broker unreachable."""
    started_at = time.monotonic()
    with pytest.raises(BrokerUnreachableError):
        call()
    return time.monotonic() - started_at


def fetch_ids(url: str) -> list[str]:
    with redis.Redis.from_url(url) as client:
        taken = [
            each for lane in LANES for each in reversed(client.lrange(lane, 0, -1))
        ]
        return [json.loads(each)["headers"]["id"] for each in taken]


def empty(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.flushdb()


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_broker_that_never_answers_costs_one_deadline(scheme: str) -> None:
    """A half-open connection, accepted by a kernel, ends after the broker timeout."""
    with run_blackhole() as port:
        sender = make_sender(f"{scheme}://127.0.0.1:{port}//", TIMEOUT_S)

        assert measure(lambda: sender.send(make_messages(60))) < AT_MOST_S
        assert measure(sender.find_empty_queues) < AT_MOST_S


def test_broker_that_freezes_costs_one_deadline(broker: Victim) -> None:
    """Whether connected already or connecting anew; afterwards it is used again."""
    sender = make_sender(broker.url, TIMEOUT_S)
    send_at_last(sender)
    broker.freeze()
    try:
        costs = [measure(lambda: sender.send(make_messages(60))) for _ in range(2)]
        costs.append(measure(sender.find_empty_queues))
    finally:
        broker.thaw()
    send_at_last(sender)
    sender.close()

    assert [True] * 3 == [TIMEOUT_S * 0.9 < cost < AT_MOST_S for cost in costs], costs


def test_batch_is_one_round_trip(broker: Victim) -> None:
    """It is sent as one pipeline, in pieces of a few messages."""
    sender = make_sender(broker.url)
    sender.send(make_messages(1))
    with redis.Redis.from_url(broker.url) as client:
        before = client.info("stats")["total_reads_processed"]
        sender.send(make_messages(100))
        after = client.info("stats")["total_reads_processed"]
    sender.close()

    assert after - before < 50


@pytest.fixture
def engine(postgres_engine: sa.Engine, broker: Victim) -> sa.Engine:
    """Give an engine on a database beside the broker of this module, both empty."""
    empty(broker.url)
    return postgres_engine


def make_scheduler(
    engine: sa.Engine, broker: Victim, timeout_s: float | None = None
) -> Scheduler:
    """Return a scheduler that leads, and renews its lease at each wake."""
    settings = make_settings(broker.url)
    leader = Leader(engine, ttl=settings.lease_ttl, heartbeat=timedelta(0))
    assert leader.hold()
    sender = make_sender(broker.url, timeout_s)
    return Scheduler(engine, leader, sender, NoTasks(engine), settings)


def test_half_an_hour_without_broker_loses_and_repeats_nothing(
    engine: sa.Engine, broker: Victim
) -> None:
    """Every minute is recorded, and sent when the broker is back: once each, by age."""
    scheduler = make_scheduler(engine, broker)
    start = get_now(engine).replace(second=0, microsecond=0)
    add_app(engine)
    for name in ("one", "two"):
        post_at(engine, start, name=name, when={"cron_rule": "* * * * *"})
    passed = [0.0]
    scheduler.outbox.monotonic = lambda: passed[0]
    broker.kill()
    for minute in range(30):
        passed[0] += 60
        scheduler.tick(start + minute * MINUTE)
    waiting = {row.state for row in fetch_all(engine)}
    broker.start()
    passed[0] += 60
    do_all(scheduler.dispatcher.send_waiting)

    rows = fetch_all(engine)
    assert {OperationState.PENDING} == waiting
    assert {OperationState.QUEUED} == {row.state for row in rows}
    by_age = sorted(
        rows, key=lambda row: (row.send_at, row.recorded_at, row.occurrence)
    )
    occurrences = {str(row.id): row.occurrence for row in rows}
    sent = fetch_ids(broker.url)
    assert len(by_age) == len(set(sent)) == len(sent) == 60
    assert [row.occurrence for row in by_age] == [occurrences[each] for each in sent]


def test_frozen_broker_does_not_stall_the_loop(
    engine: sa.Engine, broker: Victim
) -> None:
    """The scheduler goes on recording and keeps its lease; then everything is sent."""
    scheduler = make_scheduler(engine, broker, TIMEOUT_S)
    start = get_now(engine).replace(second=0, microsecond=0)
    add_app(engine)
    post_at(engine, start - 2 * MINUTE, when={"cron_rule": "* * * * *"})
    acquired = get_holder(engine)
    assert acquired is not None
    broker.freeze()
    costs = []
    try:
        # So many that a deadline for each would be told from one for all.
        for _ in range(50):
            started_at = time.monotonic()
            scheduler.wake()
            costs.append(time.monotonic() - started_at)
        recorded = len(fetch_all(engine))
    finally:
        broker.thaw()
    held = get_holder(engine)

    def are_sent() -> bool:
        passed[0] += 60
        do_all(scheduler.dispatcher.send_waiting)
        return {OperationState.QUEUED} == {row.state for row in fetch_all(engine)}

    passed = [time.monotonic()]
    scheduler.outbox.monotonic = lambda: passed[0]
    wait_until(are_sent, what="all to be sent")

    assert held is not None
    assert acquired.fence == held.fence
    assert held.expires_at > acquired.expires_at
    assert recorded >= 2
    assert sum(costs) < AT_MOST_S, costs
    ids = {str(row.id) for row in fetch_all(engine)}
    assert ids == set(fetch_ids(broker.url))
