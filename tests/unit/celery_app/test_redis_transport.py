"""What a worker takes off Redis, and puts back."""

from __future__ import annotations

import ast
import inspect
import re
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kombu
import pytest
from kombu.transport import redis, virtual
from redis.exceptions import ClusterCrossSlotError, MovedError, ResponseError

from celery_app import redis_transport
from celery_app.app import make_app
from celery_app.broker_link import describe
from celery_app.redis_transport import RedisChannel, RedisTransport, _QoS
from tests.scheduling import make_settings

#: What celery_app/redis_transport.py takes from kombu beyond what that documents, and
#: with which parameters. What else starts with an underscore there is our own.
NAMES: dict[Any, dict[str, list[str] | None]] = {
    kombu.Connection: {"resolve_aliases": None},
    redis: {"get_redis_error_classes": []},
    redis.Channel: {
        "ack_emulation": None,
        "_brpop_read": ["self", "options"],
        "_connparams": ["self", "asynchronous"],
        "_disconnect_pools": ["self"],
        "_flush_brpop_reauth": ["self"],
        "_get": ["self", "queue"],
        "_handle_message": ["self", "client", "r"],
        "_in_poll": None,
        "_next_delivery_tag": ["self"],
        "close": ["self"],
        "conn_or_acquire": ["self", "client"],
    },
    redis.SentinelChannel: {"_sentinel_managed_pool": ["self", "asynchronous"]},
    redis.Transport: {
        "Channel": None,
        "_deliver": ["self", "message", "queue"],
        "can_parse_url": None,
    },
    virtual.QoS: {
        "_delivered": None,
        "_dirty": None,
        "can_consume": ["self"],
        "ack": ["self", "delivery_tag"],
        "reject": ["self", "delivery_tag", "requeue"],
        "restore_unacked": ["self"],
        "restore_unacked_once": ["self", "stderr"],
    },
    redis.get_redis_error_classes(): {
        "connection_errors": None,
        "channel_errors": None,
    },
}
OURS = {"_address", "_paused_until", "_put_back"}
#: Of a channel, when it has been made.
OF_A_CHANNEL = {"_queue_cycle"}
_MISSING = object()


def find_private_names(module: Any) -> set[str]:
    """Return the names with one underscore that *module* asks of anything."""
    tree = ast.parse(Path(inspect.getfile(module)).read_text())
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr)
    }


def find_others(owner: Any, names: dict[str, list[str] | None]) -> list[str]:
    """Return those of *names* that *owner* has not, or with other parameters."""
    found = []
    for name, parameters in names.items():
        value: Any = getattr(owner, name, _MISSING)
        is_right = value is not _MISSING and (
            parameters is None
            or parameters == list(inspect.signature(value).parameters)
        )
        if not is_right:
            of = getattr(owner, "__name__", type(owner).__name__)
            found.append(f"{of}.{name}")
    return found


def test_kombu_has_the_names_that_the_transport_uses():
    """A newer kombu that renames one fails here, and not in a worker that stops."""
    named = {name for names in NAMES.values() for name in names}
    others = [
        each for owner, names in NAMES.items() for each in find_others(owner, names)
    ]

    used = find_private_names(redis_transport) - OURS - OF_A_CHANNEL
    assert used <= named, "complete NAMES above"
    assert set(redis.Channel.__init__.__code__.co_names) >= OF_A_CHANNEL
    assert others == [], (
        f"kombu {kombu.__version__} has changed what celery_app/redis_transport.py "
        "builds on. Read kombu/transport/redis.py (Channel, Transport) and "
        "kombu/transport/virtual/base.py (QoS, Channel): how a message is taken, "
        "counted and put back there; then docs/adr/0007-no-acknowledgement-on-redis.md"
        ", change celery_app/redis_transport.py and this list, and run "
        "tests/integration/celery_app/test_redis_transport.py."
    )


def connect(url: str) -> Any:
    """Return what would be a connection to *url*, were anybody there."""
    return make_app(make_settings(BROKER_URL=url)).connection_for_read()


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_redis_is_asked_for_no_acknowledgement(scheme: str):
    """The address is still shown as it was written, but for its password."""
    connection = connect(f"{scheme}://:secret@somewhere:6379/0")

    assert isinstance(connection.transport, RedisTransport)
    assert connection.transport.Channel is RedisChannel
    assert connection.as_uri() == f"{scheme}://:**@somewhere:6379/0"


def test_other_brokers_have_their_own_transport():
    """RabbitMQ acknowledges by itself, and at no cost."""
    connection = connect("amqp://somewhere//")

    assert not isinstance(connection.transport, RedisTransport)
    assert connection.transport.driver_type == "amqp"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", {"ssl_cert_reqs": ssl.CERT_REQUIRED}),
        ("?ssl_ca_certs=/ca.pem", {"ssl_ca_certs": "/ca.pem"}),
        ("?ssl_cert_reqs=none", {"ssl_cert_reqs": ssl.CERT_NONE}),
    ],
)
def test_certificate_is_checked_unless_the_url_says_otherwise(
    query: str, expected: dict[str, object]
):
    """By default kombu warns, and takes any."""
    assert connect(f"rediss://somewhere:6379/0{query}").ssl == expected
    assert not connect("redis://somewhere:6379/0").ssl


class FakeChannel:
    """A channel whose Redis is not there."""

    do_restore = True

    def __init__(self, error: type[Exception]):
        self.connection = SimpleNamespace(
            connection_errors=(ConnectionError,), channel_errors=(KeyError,)
        )
        self.error = error
        self.asked = 0

    def conn_or_acquire(self) -> None:
        """Do not connect."""
        self.asked += 1
        raise self.error


def take(channel: FakeChannel, *messages: str) -> _QoS:
    """Take *messages*, whose tags are their names."""
    qos = _QoS(channel, prefetch_count=2)
    qos._on_collect.cancel()  # at the end of the process
    for message in messages:
        qos.append(message, message)
    return qos


def test_no_more_is_taken_than_may_be_at_once():
    """What was taken counts until it has ended."""
    qos = take(FakeChannel(ConnectionError), "first", "second")
    assert not qos.can_consume()

    qos.ack("first")

    assert qos.can_consume()


@pytest.mark.parametrize("error", [ConnectionError, KeyError])
def test_broker_that_takes_nothing_back_is_asked_once(
    error: type[Exception], capfd: pytest.CaptureFixture[str]
):
    """Kombu would ask for each, and complain in a file; ours are sent again anyway."""
    channel = FakeChannel(error)

    take(channel, "first", "second").restore_unacked_once()

    assert channel.asked == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "error",
    [
        MovedError("7365 10.0.0.2:6379"),
        ClusterCrossSlotError("Keys in request don't hash to the same slot"),
    ],
)
def test_a_cluster_is_refused_by_name(error: ResponseError):
    """Whoever reads what Redis says of slots need not know what that means."""
    assert "a Redis Cluster, which cannot be used" in describe(error)
