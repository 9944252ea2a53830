"""Messages that would end a worker of Celery, made of real ones."""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any
from uuid import UUID

import amqp
from celery import Celery

from celery_app.routing import (
    EXECUTE_SCHEDULED_ACTION_QUICK,
    INSTALLATION_HEADER,
    find_broker_names,
)
from models.operation_state import Queue

QUICK = find_broker_names(Queue.QUICK, "minutehand")[0]

Envelope = dict[str, Any]

_DEEP = "[" * 100_000 + "]" * 100_000


def make_envelope(app: Celery, operation_id: UUID) -> Envelope:
    """Return what kombu writes to Redis for an operation."""
    made = app.amqp.as_task_v2(
        str(operation_id),
        EXECUTE_SCHEDULED_ACTION_QUICK,
        kwargs={"triggerrer": "a neighbour"},
        argsrepr="()",
        kwargsrepr="{}",
        ignore_result=True,
    )
    return {
        "body": encode(made.body),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": made.headers | {INSTALLATION_HEADER: None},
        "properties": {
            "correlation_id": str(operation_id),
            "reply_to": "",
            "delivery_mode": 2,
            "delivery_info": {"exchange": QUICK, "routing_key": QUICK},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": str(operation_id),
        },
    }


def encode(body: object) -> str:
    """Return *body* as it stands in an envelope; a text is taken as it is."""
    text = body if isinstance(body, str) else json.dumps(body)
    return b64encode(text.encode(errors="surrogatepass")).decode()


def _with(**parts: Any) -> Callable[[Envelope], str]:
    return lambda envelope: json.dumps(envelope | parts)


def _with_property(name: str, value: Any) -> Callable[[Envelope], str]:
    return lambda envelope: json.dumps(
        envelope | {"properties": envelope["properties"] | {name: value}}
    )


def _with_header(name: str, value: Any) -> Callable[[Envelope], str]:
    return lambda envelope: json.dumps(
        envelope | {"headers": envelope["headers"] | {name: value}}
    )


#: Each ended a worker, and the next that was started.
FORMS: dict[str, Callable[[Envelope], str]] = {
    "an empty body": _with(body=encode([])),
    "an object as body": _with(body=encode({"a": 1})),
    "a text as body": _with(body=encode('"x"')),
    "a text as limit": _with_header("timelimit", "x"),
    "texts as limits": _with_header("timelimit", ["a", "b"]),
    "a list as encoding": _with(**{"content-encoding": [1]}),
    "no content type": _with(**{"content-type": None}),
    "another encoding of the body": _with_property("body_encoding", "rot13"),
    "headers that are no object": _with(headers=[1]),
    "properties that are no object": _with(properties="x"),
    "delivery info that is no object": _with_property("delivery_info", "x"),
    "a deep body": _with(body=encode(_DEEP)),
    "a deep envelope": lambda _envelope: _DEEP,
}

#: Others that should not do anything either.
MORE: dict[str, Callable[[Envelope], str]] = {
    "an id that is no text": _with_header("id", {}),
    "an id of nothing": _with_header("id", "x"),
    "a task that is no text": _with_header("task", ["x"]),
    "no task": _with(headers={}),
    "an installation that is no text": _with_header(INSTALLATION_HEADER, [1]),
    "a time of its own": _with_header("eta", "2999-01-01T00:00:00"),
    "an end of its own": _with_header("expires", "2001-01-01T00:00:00"),
    "a pickle": _with(
        **{"content-type": "application/x-python-serialize"}, body=encode("(dp0")
    ),
    "a body that is cut off": _with(body=encode("{")),
    "not UTF-8": lambda _envelope: "\udcff",
    "nothing": lambda _envelope: "",
    "ten megabytes": lambda envelope: json.dumps(envelope | {"x": "x" * 10_000_000}),
}

#: They are wrong in what kombu writes to Redis alone.
OF_REDIS = {
    "another encoding of the body",
    "properties that are no object",
    "delivery info that is no object",
    "ten megabytes",
}

_VALUES: list[Any] = [
    *(None, "", "x", 0, -1, 10**40, 1.5, True, [], {}, [1], {"a": 1}, [[[]]]),
    *("\0", "\udcff", "utf-8", "rot13", "punycode", "zlib", "application/json"),
]


def mutate(random: Random, envelope: Envelope) -> bytes:
    """Return *envelope* with another id and, mostly, with something wrong."""
    whole = json.loads(json.dumps(envelope))
    whole["headers"]["id"] = str(UUID(int=random.getrandbits(128)))
    for _time in range(random.choice([1, 1, 1, 2, 5])):
        place = whole
        if random.random() < 0.7:
            inner = place.get(random.choice(["headers", "properties"]))
            place = inner if isinstance(inner, dict) else place
        key = random.choice([*place, "compression", "chord", "update"])
        match random.randrange(3):
            case 0:
                place.pop(key, None)
            case 1:
                place[key] = deepcopy(random.choice(_VALUES))
            case 2:
                place[key] = encode(random.choice(_VALUES) or "[[], {}, 7]")
    text = json.dumps(whole).encode()
    if random.random() < 0.2:
        at, size = random.randrange(len(text)), random.randrange(9)
        text = text[:at] + random.randbytes(size) + text[at + size :]
    return text


def make_amqp(text: bytes) -> amqp.Message:
    """Return for RabbitMQ what *text* is for Redis, as far as it can be said there."""
    try:
        envelope = json.loads(text)
        headers, body = envelope["headers"], b64decode(envelope["body"])
        kinds = [envelope[f"content-{what}"] for what in ("type", "encoding")]
    except (ValueError, KeyError, TypeError, RecursionError):
        return amqp.Message(text)
    content_type, encoding = (
        each if isinstance(each, str) and len(each) < 200 else "x" for each in kinds
    )
    made = amqp.Message(
        body,
        content_type=content_type,
        content_encoding=encoding,
        application_headers=headers if isinstance(headers, dict) else {"task": headers},
    )
    try:
        made._serialize_properties()
    except (struct.error, ValueError):
        return amqp.Message(body)  # a number of more bits than AMQP has
    return made


#: Commands of Celery's remote control that change what a worker does, or show more
#: than it says of itself.
COMMANDS = (
    *("shutdown", "cancel_consumer", "add_consumer", "pool_grow", "pool_shrink"),
    *("pool_restart", "autoscale", "revoke", "terminate", "revoke_by_stamped_headers"),
    *("rate_limit", "time_limit", "enable_events", "disable_events", "heartbeat"),
    *("election", "hello", "conf", "report", "objgraph", "memdump", "memsample"),
)

_PING: dict[str, Any] = {
    "method": "ping",
    "arguments": {},
    "destination": None,
    "pattern": None,
    "matcher": None,
}

#: What is no command, or would do harm on its way to one.
BODIES: list[Any] = [
    *([], "x", None, 7, {}, {"method": []}, {**_PING, "method": ["ping"]}),
    {**_PING, "arguments": [1]},
    {**_PING, "destination": 7},
    {**_PING, "pattern": "(.*)*" * 9 + "x", "matcher": "pcre"},
    {**_PING, "reply_to": {"exchange": "", "routing_key": QUICK}, "ticket": "x"},
    {**_PING, "reply_to": 7},
    {**_PING, "self": 1, "body": 2},
    {**_PING, "method": "__class__"},
]


def tell_workers(app: Celery, body: Any, headers: dict[str, Any]) -> None:
    """Publish *body*, whatever it is, where our workers listen for commands."""
    mailbox = app.control.mailbox
    with app.connection_for_write() as connection:
        exchange = mailbox.exchange(connection.default_channel)
        producer = connection.Producer(exchange=exchange, serializer="json")
        producer.publish(body, headers=headers, declare=[exchange])
