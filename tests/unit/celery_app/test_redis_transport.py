"""What a worker takes off Redis, and puts back."""

from __future__ import annotations

import ssl
from types import SimpleNamespace
from typing import Any

import pytest

from celery_app.app import make_app
from celery_app.redis_transport import Channel, Transport, _QoS
from settings import read_settings


def connect(url: str) -> Any:
    """Return what would be a connection to *url*, were anybody there."""
    settings = read_settings({"MINUTEHAND_BROKER_URL": url}, env_file=None)
    return make_app(settings).connection_for_read()


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_redis_is_asked_for_no_acknowledgement(scheme: str):
    """
    The address is still shown as it was written, but for its password.
    """
    connection = connect(f"{scheme}://:secret@somewhere:6379/0")

    assert isinstance(connection.transport, Transport)
    assert connection.transport.Channel is Channel
    assert connection.as_uri() == f"{scheme}://:**@somewhere:6379/0"


def test_other_brokers_have_their_own_transport():
    """
    RabbitMQ acknowledges by itself, and at no cost.
    """
    connection = connect("amqp://somewhere//")

    assert not isinstance(connection.transport, Transport)
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
    """
    By default kombu warns, and takes any.
    """
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
    """
    What was taken counts until it has ended.
    """
    qos = take(FakeChannel(ConnectionError), "first", "second")
    assert not qos.can_consume()

    qos.ack("first")

    assert qos.can_consume()


@pytest.mark.parametrize("error", [ConnectionError, KeyError])
def test_broker_that_takes_nothing_back_is_asked_once(
    error: type[Exception], capfd: pytest.CaptureFixture[str]
):
    """
    Kombu would ask for each, complain and write a file; ours are sent again anyway.
    """
    channel = FakeChannel(error)

    take(channel, "first", "second").restore_unacked_once()

    assert channel.asked == 1
    assert capfd.readouterr() == ("", "")
