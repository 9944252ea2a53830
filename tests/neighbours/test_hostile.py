"""Messages that cannot be read: none ends a worker, and ours run beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any
from uuid import UUID

import amqp
import pytest
from celery import Celery

from celery_app.app import make_app
from celery_app.aside import open_aside
from celery_app.broker_link import measure_queue
from celery_app.redis_transport import RedisChannel
from models.database.engine import reading
from models.operation_state import Queue
from operations.fleet.strangers import StrangerReason, fetch_strangers
from tests.chaos.installation import Installation
from tests.neighbours.hostile import (
    BODIES,
    COMMANDS,
    FORMS,
    MORE,
    OF_REDIS,
    QUICK,
    make_amqp,
    make_envelope,
    mutate,
    tell_workers,
)
from tests.neighbours.meeting import (
    SOME,
    count_effects,
    count_states,
    ping,
    record_many,
)
from tests.neighbours.strangers import count_waiting, send
from tests.servers import wait_until

#: Of an operation that is not there.
NOBODY = UUID(int=7)


def push(installation: Installation, texts: Sequence[bytes]) -> None:
    """Put *texts* into our quick queue, as somebody without Celery would."""
    app = make_app(installation.settings)
    with app.connection_for_write() as connection:
        channel = connection.default_channel
        app.amqp.queues[Queue.QUICK.value](channel).declare()
        if isinstance(channel, RedisChannel) and texts:
            channel.client.lpush(QUICK, *texts)
            return
        for text in texts:
            channel.basic_publish(make_amqp(text), exchange="", routing_key=QUICK)


@contextmanager
def at_work(installation: Installation) -> Iterator[Callable[[Sequence[bytes]], None]]:
    """
    Run a scheduler and one worker, which must never end.

    Yields:
        Asserts that some operations run, with the messages that it is given.
    """
    recorded: list[UUID] = []

    def run_beside(texts: Sequence[bytes]) -> None:
        push(installation, texts[::2])
        recorded.extend(record_many(installation, SOME))
        push(installation, texts[1::2])
        wait_until(lambda: installation.count_live() == 0, what="ours to run")
        assert worker.poll() is None
        assert {"succeeded": len(recorded)} == count_states(installation)
        assert dict.fromkeys(map(str, recorded), 1) == count_effects(installation)

    with installation.worker(concurrency=1) as worker, installation.scheduler():
        yield run_beside
        assert worker.poll() is None


def count_aside(installation: Installation) -> int:
    with open_aside(installation.settings) as aside:
        return aside.count()


def test_no_stranger_ends_a_worker(installation: Installation) -> None:
    """
    What cannot be read is put aside once, what is changed in a message is tried or goes
    back, and commands are refused; ours run beside all of it, in one worker.
    """
    envelope = make_envelope(make_app(installation.settings), NOBODY)
    is_redis = installation.broker_url.startswith("redis")
    unreadable = [
        make(envelope).encode(errors="surrogateescape")
        for name, make in {**FORMS, **MORE}.items()
        if is_redis or name not in OF_REDIS
    ]
    random = Random(22)
    changed = [mutate(random, envelope) for _ in range(150)]
    with at_work(installation) as run_beside:
        run_beside(unreadable)
        check_what_lies_aside(installation, len(unreadable))
        run_beside(changed)
        wait_until(lambda: count_aside(installation) > 30, what="some to be unreadable")
        check_commands(installation)
        run_beside([])


def check_what_lies_aside(installation: Installation, count: int) -> None:
    """
    People see what it was, where it came from and what is wrong; then it is deleted.
    """
    wait_until(lambda: count_aside(installation) >= count, what="all to lie aside")
    with open_aside(installation.settings) as aside:
        found = aside.look()
        assert len(found) == count == aside.count() == aside.empty()
        assert 0 == aside.count()
    assert {QUICK} == {each.queue for each in found}
    assert all(each.problem and len(each.text) <= 10_000 for each in found)


def check_commands(installation: Installation) -> None:
    """
    Who sends one is told so, and doctor tells who operates; questions are answered.
    """
    app = make_app(installation.settings)
    wait_until(lambda: ping(installation), what="our worker to answer")
    before = ask(app, "active_queues", {})
    answers = {name: ask(app, name, given) for name, given in COMMANDS.items()}
    for body in BODIES:
        tell_workers(app, body, {"clock": "x"})
    tell_workers(app, BODIES[0], {"clock": 2**60})

    assert before == ask(app, "active_queues", {})
    assert len(before["worker@tests"]) > 1
    assert [] == [
        name
        for name, answer in answers.items()
        if "refused" not in answer["worker@tests"].get("error", "")
    ]
    with reading(installation.engine) as connection:
        told = fetch_strangers(connection)
    commands = [each for each in told if each.reason is StrangerReason.COMMAND]
    assert {"minutehand.pidbox"} == {each.queue for each in commands}
    assert "shutdown" in {each.name for each in commands}


def ask(app: Celery, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Send *command* to all workers of *app*; return the answer of each."""
    found = app.control.broadcast(command, arguments, reply=True, timeout=20, limit=1)
    return {name: answer for reply in found for name, answer in reply.items()}


def test_ours_run_behind_many_of_one_id(installation: Installation) -> None:
    """If two of them were taken in a second, ours would wait for two minutes."""
    theirs = ("[[], {}, {}]", "application/json", {"task": "theirs", "id": "theirs"})
    send(make_app(installation.settings), [theirs] * 260)

    with at_work(installation) as run_beside:
        run_beside([])


@pytest.mark.rabbit
@pytest.mark.parametrize("broker_url", ["rabbit_url"], indirect=True)
def test_what_goes_back_goes_nowhere_else(installation: Installation) -> None:
    """RabbitMQ would copy it to the queues in CC each time."""
    app = make_app(installation.settings)
    theirs = {"task": "theirs", "id": "theirs", "CC": ["bystander"]}
    with app.connection_for_write() as connection:
        channel = connection.default_channel
        app.amqp.queues[Queue.QUICK.value](channel).declare()
        message = amqp.Message("[[], {}, {}]", application_headers=theirs)
        channel.basic_publish(message, exchange="", routing_key=QUICK)
        channel.queue_declare("bystander", durable=True, auto_delete=False)

    with at_work(installation) as run_beside:
        run_beside([])

    with app.connection_for_read() as connection:
        assert measure_queue(connection, "bystander").message_count == 0
    # It is given back a moment after its worker has gone.
    wait_until(lambda: count_waiting(app) == 1, what="theirs to be back")
