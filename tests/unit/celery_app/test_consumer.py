"""What is done at most so often, and what is left of a message that is taken."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from celery import Celery
from celery.worker import consumer as celery_consumer
from celery.worker.request import Request

from celery_app.consumer import Consumer, Quota
from celery_app.received import ReceivedMessage, make_anew, read_task


def test_what_a_message_asks_for_besides_is_gone():
    """Celery would call it when a child dies, and settle nothing if it cannot."""
    with Celery(set_as_current=False) as app:
        task = app.task(test_what_a_message_asks_for_besides_is_gone, name="ours")
        besides = {"errbacks": [7], "chain": [7], "chord": {"a": 1}, "id": "another"}
        message: Any = ReceivedMessage(
            json.dumps([[1], {"triggerrer": "somebody", "a": 1}, besides]).encode(),
            headers={"task": "ours", "id": str(UUID(int=7))},
            content_type="application/json",
            content_encoding="utf-8",
            delivery_info={},
        )
        make_anew(message, read_task(message), app.amqp.as_task_v2)
        request = Request(message, app=app, task=task)

        assert (request.id, request.errbacks) == (str(UUID(int=7)), None)
        assert [[], {"triggerrer": "somebody"}] == message.payload[:2]
        assert not any(message.payload[2].values())


def test_each_thing_is_done_once_within_the_while():
    """Asked again, it has to wait for what is left of the while, and no longer."""
    quota = Quota(every_s=60, most=10)

    assert [0.0, 0.0, 59.0, 0.5] == [
        quota.ask("a", now=0.0),
        quota.ask("b", now=0.5),
        quota.ask("a", now=1.0),
        quota.ask("b", now=60.0),
    ]
    assert quota.ask("a", now=60.0) == 0.0


def test_so_many_things_at_most():
    """The next has to wait until the first may be done again; asking does not count."""
    quota = Quota(every_s=1, most=2)
    quota.ask("a", now=0.0)
    quota.ask("b", now=0.25)

    assert [0.5, 0.25, 0.0] == [
        quota.ask("c", now=0.5),
        quota.ask("d", now=0.75),
        quota.ask("c", now=1.0),
    ]


def test_strangers_do_not_slow_a_worker_that_loses_its_broker_once(
    monkeypatch: pytest.MonkeyPatch,
):
    """It waits only for what is refused again, whatever else was told meanwhile."""
    worker: Any = object.__new__(Consumer)
    told, refused = (Quota(every_s=60, most=20) for _ in range(2))
    vars(worker).update(_told=told, _refused=refused, channel_errors=(OSError,))
    for number in range(20):
        told.ask(str(number), now=0.0)
    waits: list[float] = []
    monkeypatch.setattr("celery_app.consumer.time.monotonic", lambda: 1.0)
    monkeypatch.setattr("celery_app.consumer.time.sleep", waits.append)
    name = "on_connection_error_after_connected"
    monkeypatch.setattr(celery_consumer.Consumer, name, lambda *_: None)

    worker.on_connection_error_after_connected(OSError("NOPERM"))
    assert [] == waits
    worker.on_connection_error_after_connected(OSError("NOPERM"))
    assert 1 == len(waits)
