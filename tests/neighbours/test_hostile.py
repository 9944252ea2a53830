"""
What is in our queues and not ours: ours run beside it, and no worker ends of it.

What others may want stays in the queue; what nobody can read is put aside.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any
from uuid import UUID, uuid4

from celery import Celery

from celery_app.app import make_app
from celery_app.aside import UnreadableMessage, open_aside
from celery_app.broker_link import measure_queue
from celery_app.redis_transport import RedisChannel
from celery_app.routing import EXECUTE_SCHEDULED_ACTION_QUICK, INSTALLATION_HEADER
from models.operation_state import Queue
from operations.fleet.strangers import StrangerReason, fetch_strangers
from tests.chaos.installation import Installation
from tests.database import read_by
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
from tests.neighbours.meeting import ping, record_many
from tests.scheduling import count_states
from tests.servers import wait_until

#: Of an operation that is not there.
NOBODY = UUID(int=7)

#: Operations of ours, where each waits for strangers, which are put back once in a
#: second.
SOME = 6

OTHERS = str(uuid4())
BYSTANDER = "bystander"

#: Where a message of somebody's has come through the broker unharmed, this is equal.
Content = tuple[str, str, dict[str, Any]]


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
        assert {"succeeded": len(recorded)} == count_states(installation.engine)
        assert dict.fromkeys(map(str, recorded), 1) == installation.read_effects(
            done=True
        )

    with installation.worker(concurrency=1) as worker, installation.scheduler():
        yield run_beside
        assert worker.poll() is None


def count_aside(installation: Installation) -> int:
    with open_aside(installation.settings) as aside:
        return aside.count()


def test_no_stranger_ends_a_worker(installation: Installation) -> None:
    """
    What cannot be read is put aside, what is changed in a message is tried or goes
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
        check_what_lies_aside(installation, unreadable)
        run_beside(changed)
        wait_until(lambda: count_aside(installation) > 30, what="some to be unreadable")
        check_commands(installation)
        run_beside([])


def check_what_lies_aside(installation: Installation, sent: list[bytes]) -> None:
    """
    People see what it was, where it came from and what is wrong; then it is deleted.

    Twice, maybe: a broker that confirms too late is asked once more.
    """
    found: list[UnreadableMessage] = []
    with open_aside(installation.settings) as aside:

        def do_all_lie_there() -> bool:
            found[:] = aside.look()
            return len({identify(each) for each in found}) >= len(sent)

        wait_until(do_all_lie_there, what="all to lie aside")
        wait_until(lambda: aside.empty() == 0, what="all to be deleted")
    assert len(sent) == len({identify(each) for each in found})
    assert {QUICK} == {each.queue for each in found}
    assert all(each.problem and len(each.text) <= 10_000 for each in found)


def identify(each: UnreadableMessage) -> str:
    """Return what it says, without that RabbitMQ has handed it out before."""
    return re.sub(r"'x-[a-z-]+': [^,}]+(, )?", "", f"{each.size} {each.text}")


def check_commands(installation: Installation) -> None:
    """
    Who sends one is told so, and doctor tells who operates; questions are answered.
    """
    app = make_app(installation.settings)
    wait_until(lambda: ping(installation), what="our worker to answer")
    before = ask(app, "active_queues", {})
    answers = {name: ask(app, name, {"terminate": True}) for name in COMMANDS}
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
    told = read_by(installation.engine, fetch_strangers)
    commands = [each for each in told if each.reason is StrangerReason.COMMAND]
    assert {"minutehand.pidbox"} == {each.queue for each in commands}
    assert "shutdown" in {each.name for each in commands}


def ask(app: Celery, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Send *command* to all workers of *app*; return the answer of each."""
    found = app.control.broadcast(command, arguments, reply=True, timeout=20, limit=1)
    return {name: answer for reply in found for name, answer in reply.items()}


def make_strangers() -> list[Content]:
    """Return what no worker of ours may take, or drop; most of it has one id."""
    headers: dict[str, Any] = {"lang": "py", "task": "shop.count", "id": "theirs"}
    of_another = {
        **headers,
        "task": EXECUTE_SCHEDULED_ACTION_QUICK,
        "id": str(uuid4()),
        INSTALLATION_HEADER: OTHERS,
    }
    made = [headers, of_another, *([{"task": "theirs", "id": "theirs"}] * 260)]
    body = '[[], {}, {"callbacks": null}]'
    return [(body, "application/json", each) for each in made]


def send(app: Celery, contents: list[Content]) -> None:
    """Send *contents* to our quick queue; a header asks for copies elsewhere."""
    with app.connection_for_write() as connection:
        app.amqp.queues[Queue.QUICK.value](connection.default_channel).declare()
        producer = connection.Producer(auto_declare=False)
        for text, content_type, headers in contents:
            producer.publish(
                text,
                exchange="",
                routing_key=QUICK,
                headers={**headers, "CC": [BYSTANDER]},
                content_type=content_type,
                content_encoding="utf-8",
            )
        connection.default_channel.queue_declare(
            BYSTANDER, durable=True, auto_delete=False
        )


def take_all(app: Celery) -> list[Content]:
    """Take all that is in our quick queue."""
    found: list[Content] = []
    with app.connection_for_read() as connection:
        channel = connection.default_channel
        while (message := channel.basic_get(QUICK, no_ack=True)) is not None:
            if app.conf.broker_url.startswith("amqp"):
                message = channel.message_to_python(message)
            body = message.body
            text = body if isinstance(body, str) else bytes(body).decode()
            # RabbitMQ counts in a header of its own
            headers = {
                k: v for k, v in message.headers.items() if k != "CC" and k[:2] != "x-"
            }
            found.append((text, str(message.content_type), headers))
    return found


def count_waiting(app: Celery, queue: str = QUICK) -> int:
    """Return how many messages are in *queue*."""
    with app.connection_for_read() as connection:
        found = measure_queue(connection, queue)
    return 0 if found is None else int(found.message_count)


def test_what_is_not_ours_stays_in_its_queue(installation: Installation) -> None:
    """
    None of it is lost, changed or copied, and it is told. Ours run behind it: if two of
    one id were taken in a second, they would wait for two minutes.
    """
    app = make_app(installation.settings)
    theirs = make_strangers()
    send(app, theirs)
    expected = {
        (QUICK, StrangerReason.OTHER_INSTALLATION, OTHERS),
        (QUICK, StrangerReason.UNKNOWN_TASK, "shop.count"),
        (QUICK, StrangerReason.UNKNOWN_TASK, "theirs"),
    }

    def are_told() -> bool:
        told = read_by(installation.engine, fetch_strangers)
        return expected == {(each.queue, each.reason, each.name) for each in told}

    with at_work(installation) as run_beside:
        run_beside([])
        wait_until(are_told, what="all to be told")
        assert installation.read_log("worker").count('"message_not_ours"') >= 3
    # RabbitMQ gives back what a worker had a moment after that has gone; one that
    # confirms too late is asked once more.
    wait_until(lambda: count_waiting(app) >= len(theirs), what="theirs to be back")

    wanted, found = (
        Counter(json.dumps(each, sort_keys=True) for each in contents)
        for contents in (theirs, take_all(app))
    )
    assert wanted <= found
    assert wanted.keys() == found.keys()
    assert found.total() < 2 * wanted.total()
    assert 0 == count_waiting(app, BYSTANDER)
    assert 0 == count_aside(installation)
