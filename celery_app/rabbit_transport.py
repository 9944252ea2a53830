"""
RabbitMQ, but no property of a message ends whoever receives it.

RabbitMQ hands on what it was given. py-amqp decodes names and headers as their frame
arrives, in the middle of reading the connection: a year 10,000, a text that is not
UTF-8, or lists within each other raise errors there which no program survives. So such
a frame loses what cannot be read, and the message comes as one without headers.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import error as StructError  # noqa: N812 - it is a class
from struct import pack
from typing import Any

from amqp import Message as AmqpMessage
from amqp import spec
from amqp.exceptions import AMQPError
from amqp.method_framing import frame_handler
from amqp.serialization import loads
from kombu import Connection as KombuConnection
from kombu.transport import pyamqp

from celery_app import received

# Logs show them under the scheme of the URL.
KombuConnection.resolve_aliases |= {
    f"{__name__}:RabbitTransport": "amqp",
    f"{__name__}:RabbitTlsTransport": "amqps",
}

Frame = tuple[int, int, Any]

#: Types of frames: AMQP 0-9-1, section 4.2.3.
_METHOD, _HEADER = 1, 2

#: Bytes of a header before its properties: class, weight, size of the body.
_BEFORE_PROPERTIES = 12

#: What bytes of strangers make py-amqp raise.
_ERRORS = (
    *(AMQPError, ArithmeticError, LookupError, OSError),
    *(RecursionError, TypeError, ValueError, StructError),
)

#: Methods that hand out a message, by their first bytes: their arguments, and the ends
#: of these from the names of exchange and routing key on, if both are empty.
_HANDED_OUT = {
    pack(">HH", *spec.Basic.Deliver): ("sLbss", b"\0\0"),
    pack(">HH", *spec.Basic.GetOk): ("Lbssl", b"\0\0" + b"\0\0\0\0"),
}


class RabbitMessage(received.ReceivedMessage):
    """A message as RabbitMQ handed it out."""

    def __init__(self, raw: Any, channel: Any = None, **fields: Any) -> None:
        """Read nothing yet."""
        properties = raw.properties
        body = raw.body if isinstance(raw.body, bytes) else bytes(raw.body or b"")
        super().__init__(
            body,
            channel=channel,
            delivery_tag=raw.delivery_tag,
            content_type=properties.get("content_type"),
            content_encoding=properties.get("content_encoding"),
            delivery_info=raw.delivery_info,
            properties=properties,
            headers=properties.get("application_headers"),
            **fields,
        )


class RabbitChannel(pyamqp.Channel):
    """Gives bodies as bytes, whatever encoding they claim to have."""

    Message: Any = RabbitMessage

    def __init__(self, *args: Any, **options: Any) -> None:
        """Open, as kombu's channel does."""
        super().__init__(*args, **options)
        self.auto_decode = False  # Python's decoder of punycode alone takes minutes


def _handle_frames(
    connection: Any, callback: Callable[..., Any]
) -> Callable[[Frame], Any]:
    handle = frame_handler(connection, callback)
    return lambda frame: handle(make_readable(frame))


def make_readable(frame: Frame) -> Frame:
    """Return *frame* without properties or names that cannot be read, or written."""
    kind, channel, payload = frame
    if kind == _HEADER:
        probe = AmqpMessage()
        try:
            probe.inbound_header(payload)
            probe._serialize_properties()  # noqa: SLF001 - whoever puts it back must
        except _ERRORS:
            return kind, channel, bytes(payload[:_BEFORE_PROPERTIES]) + b"\0\0"
    elif kind == _METHOD and (found := _HANDED_OUT.get(bytes(payload[:4]))):
        arguments, nameless = found
        try:
            loads(arguments, payload, 4)
        except UnicodeDecodeError:
            names = loads(arguments[: arguments.index("ss")], payload, 4)[1]
            return kind, channel, bytes(payload[:names]) + nameless
    return frame


class RabbitConnection(pyamqp.Connection):
    """Reads frames that strangers have filled."""

    Channel = RabbitChannel

    def __init__(self, *args: Any, **options: Any) -> None:
        """Prepare, as kombu's connection does; connect to nothing."""
        super().__init__(*args, **options)
        self.frame_handler_cls = _handle_frames


class RabbitTransport(pyamqp.Transport):
    """RabbitMQ, read with care."""

    Connection = RabbitConnection


class RabbitTlsTransport(pyamqp.SSLTransport):
    """The same through TLS."""

    Connection = RabbitConnection
