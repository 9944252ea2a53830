"""What is left of frames that strangers have filled."""

from __future__ import annotations

from struct import pack
from typing import Any

import amqp
import pytest
from amqp import spec

from celery_app.rabbit_transport import RabbitMessage, make_readable

_HEADER = 2


def make_header(table: bytes = b"", *, content_type: bytes = b"text/plain") -> bytes:
    """Return the payload of a header: 7 bytes will follow, and *table* are headers."""
    flags = 0b1010_0000_0000_0000
    names = bytes([len(content_type)]) + content_type
    headers = pack(">I", len(table)) + table
    return pack(">HHQH", spec.Basic.Deliver[0], 0, 7, flags) + names + headers


def field(kind: str, value: bytes) -> bytes:
    """Return the header "a" of a *kind* of AMQP."""
    return b"\x01a" + kind.encode() + value


def nest(depth: int) -> bytes:
    """Return lists within each other."""
    value = b""
    for _level in range(depth):
        value = b"A" + pack(">I", len(value)) + value
    return value


def read(payload: bytes) -> amqp.Message:
    """Return the message that py-amqp makes of the header."""
    message = amqp.Message()
    message.inbound_header(make_readable((_HEADER, 1, payload))[2])
    return message


def test_what_can_be_read_stays_as_it_is():
    """Headers and content type come through."""
    message = read(make_header(field("S", b"\0\0\0\x01b")))

    assert {"a": "b"} == message.headers
    assert message.properties["content_type"] == "text/plain"


@pytest.mark.parametrize(
    "payload",
    [
        make_header(field("T", pack(">Q", 2**60))),
        make_header(field("?", b"")),
        make_header(b"\x01a" + nest(20_000)),
        make_header(content_type=b"\xff"),
        make_header(b"\x05a"),
    ],
    ids=["year", "type", "depth", "name", "end"],
)
def test_message_without_readable_properties_still_comes(payload: bytes):
    """It has none then, and its body follows."""
    message = read(payload)

    assert message.properties == {}
    assert message.body_size == 7
    assert not message.ready


@pytest.mark.parametrize("key", [b"minutehand.quick", b"\xff"])
def test_routing_key_of_any_bytes_is_handed_out(key: bytes):
    """Tag and flag stay: the message can be acknowledged."""
    payload = (
        pack(">HH", *spec.Basic.Deliver)
        + b"\x04tag1"
        + pack(">QB", 42, 1)
        + b"\0"
        + bytes([len(key)])
        + key
    )

    _kind, _channel, readable = make_readable((1, 1, payload))

    arguments = amqp.serialization.loads("sLbss", readable, 4)[0]
    assert ["tag1", 42, True] == arguments[:3]


def test_body_is_not_decompressed_before_somebody_reads_it():
    """A few bytes may be gigabytes."""
    headers: Any = {"compression": "zlib", "task": "theirs"}
    raw = amqp.Message(b"x\x9c", application_headers=headers)
    raw.delivery_info = {"delivery_tag": 1}

    message = RabbitMessage(raw)

    assert not message.errors
    assert b"x\x9c" == message.body
    assert headers == message.headers
