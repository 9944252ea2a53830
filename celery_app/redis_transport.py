"""
Redis for messages that need no acknowledgement, for the row of each says what ran.

Redis itself knows none: kombu keeps each message that was taken in two more
structures until it is acknowledged, at the price of two transactions a message. What
a dead worker had taken then comes back after an hour; the table knows after seconds
or minutes (operations/rescue.py).
"""

# ruff: noqa: SLF001 - what kombu's own transports use of each other

from __future__ import annotations

import time
from contextlib import suppress
from json import JSONDecodeError
from typing import Any

import structlog
from kombu import Connection
from kombu.transport import redis, virtual
from kombu.utils.json import dumps

from telemetry import Event

log = structlog.get_logger()

# In logs they are still called as in the URL.
Connection.resolve_aliases |= {
    f"{__name__}:Transport": "redis",
    f"{__name__}:TlsTransport": "rediss",
    f"{__name__}:SocketTransport": "redis",
}


_errors = redis.get_redis_error_classes()

#: What Redis, or the way to it, may say; not asked of a connection that may be gone.
_ERRORS = (*_errors.connection_errors, *_errors.channel_errors)


class _QoS(virtual.QoS):
    """Remembers what was taken in this process, to hold it to its prefetch count."""

    #: Of time.monotonic.
    _paused_until = 0.0

    def pause(self, seconds: float) -> None:
        """Take nothing for so long."""
        self._paused_until = time.monotonic() + seconds

    def can_consume(self) -> bool:
        """Tell whether another message may be taken now."""
        if time.monotonic() < self._paused_until:
            return False
        return bool(virtual.QoS.can_consume(self))

    def restore_unacked(self) -> list[Any]:
        """
        Put back what was taken and not ended, as this worker stops or lost its broker.

        Returns:
            No errors, of which kombu would make files: what cannot be put back is
            sent again.
        """
        taken = [
            message
            for tag, message in self._delivered.items()
            if tag not in self._dirty  # ended
        ]
        self._delivered.clear()
        # After the first that fails, each of the others would wait for the same.
        with suppress(*_ERRORS):
            for message in reversed(taken):
                self._put_back(message)
        return []

    def _put_back(self, message: virtual.Message) -> None:
        """Let *message* be the next that is taken."""
        channel = self.channel
        with channel.conn_or_acquire() as client:
            address = message.delivery_info
            priority = channel._get_message_priority(message._raw)
            for queue in channel._lookup(address["exchange"], address["routing_key"]):
                # Senders push on the left, workers take from the right.
                client.rpush(channel._q_for_pri(queue, priority), dumps(message._raw))

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:  # noqa: FBT001, FBT002 - as kombu asks
        """Let go of a message; *requeue* lets it wait again, behind all others."""
        # Or it was put back with its connection, which its task has outlived.
        if delivery_tag in self._delivered:
            virtual.QoS.reject(self, delivery_tag, requeue=requeue)


class Channel(redis.Channel):
    """Takes messages off Redis for good."""

    ack_emulation = False

    def _brpop_read(self, **options: Any) -> Any:
        """
        Take what has come; what is no message at all ends no worker.

        Whoever pushed it knows no kombu, so there is nobody to put it back for.
        """
        try:
            return super()._brpop_read(**options)  # type: ignore[no-untyped-call]  # kombu has no hints
        except (JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
            log.error(  # noqa: TRY400 - the traceback is kombu's
                Event.MESSAGE_DROPPED, error=f"{type(error).__name__}: {error}"
            )
            return True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Connect, as kombu's own does."""
        self._address: dict[str, Any] = {}
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        self.QoS: Any = _QoS  # which it sets by itself to one with errors
        self._connparams()

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002 - kombu's
        """
        Say where Redis is, also when kombu has let go of the connection.

        Of a connection that broke it does so first; then it closes the channel, which
        puts back what was taken.
        """
        if asynchronous:
            return dict(super()._connparams(asynchronous=True))  # type: ignore[no-untyped-call]
        if not self._address:
            self._address = super()._connparams()  # type: ignore[no-untyped-call]
        return dict(self._address)

    def close(self) -> None:
        """Close, as kombu's own does, and what was opened once more to put back."""
        super().close()  # type: ignore[no-untyped-call]
        self._disconnect_pools()  # type: ignore[no-untyped-call]


class Transport(redis.Transport):
    """Redis without acknowledgements."""

    Channel = Channel


class TlsTransport(Transport):
    """The same through TLS."""


class SocketTransport(Transport):
    """The same through a Unix socket: ``socket:///run/redis.sock?virtual_host=0``."""

    can_parse_url = True  # kombu's own parser would take the path for a database
