"""Couriers: tasks on their way to a real Redis, and one that hangs."""

from __future__ import annotations

import json
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
import redis
from celery import signals

from celery_app import couriers as couriers_module
from celery_app.couriers import MOST, TaskCouriers
from celery_app.task_sender import CeleryTaskSender
from dispatch.task_outbox import Delivery
from models.operation_state import Queue
from operations.foreign_tasks import ForeignTask
from operations.sending.order import Message
from operations.sending.tasks import Ready
from tests.scheduling import make_settings
from tests.servers import find_free_port, run_silent_server, wait_until

INSTALLATION = str(uuid4())
ODD = "%s %(id)s {id} \\ \" ' é € \U0001f552 \x00 \x1f \x7f \u2028 </a>"


def make(
    url: str, monotonic: Callable[[], float] = time.monotonic, **more: str
) -> TaskCouriers:
    """Return couriers with a connection to *url*."""
    given = {"BROKER_URL": "memory://", "BROKER_TIMEOUT": "PT30S"}
    given["TASK_CONNECTIONS"] = f"shop={url}"
    settings = make_settings(**{**given, **more})
    sender = CeleryTaskSender(settings, lambda: INSTALLATION)
    return TaskCouriers(settings, sender, monotonic)


def make_ready(**task: Any) -> Ready:
    message = Message(uuid4(), Queue.TASKS, "a", 0)
    given = {"queue": "reports", "connection": "shop", "token": "the token", **task}
    return Ready(message, ForeignTask("shop.report", str(uuid4()), **given), None, 2)


def wait_for(couriers: TaskCouriers, count: int = 1) -> list[Delivery]:
    """Return as many deliveries, when they are there."""
    found: list[Delivery] = []

    def are_there() -> bool:
        found.extend(couriers.collect())
        return len(found) >= count

    wait_until(are_there, what="the deliveries")
    return found


def fetch(url: str, queue: str = "reports") -> list[dict[str, Any]]:
    """Return the messages in *queue*, the first first, with their bodies read."""
    with redis.Redis.from_url(url) as client:
        texts = client.lrange(queue, 0, -1)
    messages = [json.loads(text) for text in reversed(texts)]
    for each in messages:
        each["body"] = json.loads(b64decode(each["body"]))
        del each["properties"]["delivery_tag"]
    return messages


KINDS: Sequence[dict[str, Any]] = (
    {},
    {"token": None},
    {"with_value": False},
    {"priority": 6},
    {"limits_s": (600.0, None)},
    {"expires_at": datetime(2026, 1, 5, tzinfo=UTC)},
    {"args": [1, ODD, {"a": None}], "kwargs": {"b": [1.5, True], ODD: ODD}},
    {"headers": {"tenant": ODD, "minutehand-operation-id": "7"}},
)


@pytest.mark.parametrize("kind", KINDS)
def test_filled_messages_are_those_of_celery(redis_url: str, kind: dict[str, Any]):
    """Whatever they hold: a project's worker sees no difference."""
    couriers = make(redis_url)
    batch = [make_ready(**kind) for _ in range(3)]

    def listen(**_: object) -> None:
        """Want to see each message, which Celery then makes one by one."""

    couriers.take("shop", batch)
    wait_for(couriers)
    filled = fetch(redis_url, "reports\x06\x166" if kind.get("priority") else "reports")
    with redis.Redis.from_url(redis_url) as client:
        client.flushdb()
    signals.before_task_publish.connect(listen)
    try:
        couriers.take("shop", batch)
        wait_for(couriers)
    finally:
        signals.before_task_publish.disconnect(listen)
    whole = fetch(redis_url, "reports\x06\x166" if kind.get("priority") else "reports")

    assert 3 == len(filled)
    assert whole == filled
    assert [each.task.id for each in batch] == [m["headers"]["id"] for m in filled]


def test_what_was_sent_is_told(redis_url: str, monkeypatch: pytest.MonkeyPatch):
    """At once, if the broker answers while somebody is patient."""
    monkeypatch.setattr(couriers_module, "PATIENCE_S", 60)
    couriers = make(redis_url)
    batch = [make_ready(), make_ready(queue="mail")]

    assert couriers.take("shop", batch) is None
    couriers.settle()

    (delivery,) = couriers.collect()
    assert (batch, {}, None) == (delivery.batch, delivery.refused, delivery.error)
    assert [1, 1] == [len(fetch(redis_url, each)) for each in ("reports", "mail")]


def test_broker_that_is_away_is_left_alone_for_a_while():
    """Nothing is taken for it meanwhile."""
    couriers = make(f"redis://127.0.0.1:{find_free_port()}/0")
    couriers.take("shop", [make_ready()])
    (delivery,) = wait_for(couriers)

    refusal = couriers.take("shop", [make_ready()])

    assert delivery.error is not None
    assert "connection 'shop' did not accept the task" in delivery.error
    assert refusal == delivery.error


def test_broker_that_hangs_holds_up_nobody_else(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
):
    """Its courier takes a bounded number meanwhile, and tells what became of them."""
    monkeypatch.setattr(couriers_module, "PATIENCE_S", 0.001)
    task = make_ready(connection="hung")
    with run_silent_server() as place:
        couriers = make(
            redis_url,
            BROKER_TIMEOUT="PT59S",
            TASK_CONNECTIONS=f"shop={redis_url},hung=redis://{place}/0",
        )
        assert couriers.take("hung", [task]) is None
        couriers.settle()
        refusal = couriers.take("hung", [task] * MOST)
        assert couriers.take("shop", [make_ready()]) is None
        [first] = wait_for(couriers)

    assert "on its way over it" in str(refusal)
    assert ("shop", None) == (first.batch[0].task.connection, first.error)
    [hung] = wait_for(couriers)
    assert [task] == list(hung.batch)
    assert hung.error is not None


def test_one_that_nobody_expected_ends_no_courier(redis_url: str):
    """It is told, and after a while the next is sent."""
    now = [0.0]
    couriers = make(redis_url, lambda: now[0])
    odd = make_ready()
    couriers.take("shop", [odd._replace(task=odd.task._replace(args=[object()]))])  # type: ignore[list-item]
    (broken,) = wait_for(couriers)
    now[0] = 60.0

    couriers.take("shop", [make_ready()])

    (delivery,) = wait_for(couriers)
    assert "TypeError" == broken.error
    assert delivery.error is None
