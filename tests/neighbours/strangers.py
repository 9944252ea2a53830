"""What is in our queues and not ours: of a mistake, or of another installation."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from celery import Celery

from celery_app.app import make_app
from celery_app.aside import open_aside
from celery_app.broker_link import measure_queue
from celery_app.routing import (
    EXECUTE_SCHEDULED_ACTION_QUICK,
    INSTALLATION_HEADER,
    find_broker_names,
)
from models.database.engine import reading
from models.operation_state import Queue
from operations.fleet.strangers import StrangerReason, fetch_strangers
from tests.chaos.installation import Installation
from tests.neighbours.meeting import SOME, count_effects, count_states, record_many
from tests.servers import wait_until

QUICK = find_broker_names(Queue.QUICK, "minutehand")[0]

#: Where a message of somebody's has come through the broker unharmed, this is equal.
Content = tuple[str, str, dict[str, Any]]


def make_strangers() -> tuple[list[Content], list[Content]]:
    """Return what no worker of ours may take, or drop; and what none can read."""
    headers: dict[str, Any] = {
        "lang": "py",
        "task": "shop.count",
        "id": "theirs",
        "retries": 0,
    }
    of_another = {
        **headers,
        "task": EXECUTE_SCHEDULED_ACTION_QUICK,
        "id": str(uuid4()),
        INSTALLATION_HEADER: str(uuid4()),
    }
    broken = {**headers, "task": EXECUTE_SCHEDULED_ACTION_QUICK, "id": str(uuid4())}
    body, json = '[[], {}, {"callbacks": null}]', "application/json"
    unreadable: list[Content] = [
        (body, json, {"about": "nothing"}),
        ("(dp0", "application/x-python-serialize", broken),
        ("{", json, broken),
    ]
    theirs = [(body, json, headers), (body, json, of_another)]
    return sorted(theirs, key=repr), unreadable


def send(app: Celery, contents: list[Content]) -> None:
    """Send *contents* to our quick queue."""
    with app.connection_for_write() as connection:
        app.amqp.queues[Queue.QUICK.value](connection.default_channel).declare()
        producer = connection.Producer(auto_declare=False)
        for text, content_type, headers in contents:
            producer.publish(
                text,
                exchange="",
                routing_key=QUICK,
                headers=headers,
                content_type=content_type,
                content_encoding="utf-8",
            )


def take_all(app: Celery) -> list[Content]:
    """Take all that is in our quick queue; return it in an order of its own."""
    found: list[Content] = []
    with app.connection_for_read() as connection:
        channel = connection.default_channel
        while (message := channel.basic_get(QUICK, no_ack=True)) is not None:
            if app.conf.broker_url.startswith("amqp"):
                message = channel.message_to_python(message)
            body = message.body
            text = body if isinstance(body, str) else bytes(body).decode()
            # RabbitMQ counts in a header of its own
            headers = {k: v for k, v in message.headers.items() if k[:2] != "x-"}
            found.append((text, str(message.content_type), headers))
    return sorted(found, key=repr)


def count_waiting(app: Celery) -> int:
    """Return how many messages are in our quick queue."""
    with app.connection_for_read() as connection:
        count: int = measure_queue(connection, QUICK).message_count
    return count


def check_that_strangers_stay(installation: Installation) -> None:
    """Assert that none of them is lost, changed or run, and that ours run meanwhile."""
    app = make_app(installation.settings)
    theirs, unreadable = make_strangers()
    send(app, theirs + unreadable)
    with installation.scheduler(), installation.worker(concurrency=1) as worker:
        ids = record_many(installation, SOME)
        wait_until(
            lambda: (
                len(count_effects(installation)) == len(ids)
                and installation.count_live() == 0
            ),
            what="ours to run",
        )
        wait_until(
            lambda: installation.read_log("worker").count('"message_not_ours"') >= 5,
            what="five things to be told",
        )
        assert worker.poll() is None
    with reading(installation.engine) as connection:
        noted = fetch_strangers(connection)
    # RabbitMQ gives back what a worker had a moment after that has gone.
    wait_until(lambda: count_waiting(app) == len(theirs), what="theirs to be back")

    assert theirs == take_all(app)
    with open_aside(installation.settings) as aside:
        assert len(unreadable) == aside.count()
    assert {"succeeded": SOME} == count_states(installation)
    told = installation.read_log("worker").count('"message_not_ours"')
    assert told == 5
    reasons = [StrangerReason.OTHER_INSTALLATION, StrangerReason.UNKNOWN_TASK]
    reasons += [StrangerReason.UNREADABLE] * 3
    assert reasons == [each.reason for each in noted]
    assert {QUICK} == {each.queue for each in noted}


def check_that_two_installations_do_not_mix(
    first: Installation, second: Installation, count: int = 40
) -> None:
    """Let both use the same names, and assert that each did its own, once."""
    sides = (first, second)
    with (
        first.worker(),
        second.worker("second"),  # two nodes of one name lock each other out
        first.scheduler(),
        second.scheduler(),
    ):
        ids = [record_many(each, count) for each in sides]
        wait_until(
            lambda: sum(each.count_live() for each in sides) == 0,
            timeout_s=200,
            every_s=0.2,
            what="all operations of both",
        )
    for each, own in zip(sides, ids, strict=True):
        assert dict.fromkeys(map(str, own), 1) == count_effects(each)
        assert {"succeeded": count} == count_states(each)
