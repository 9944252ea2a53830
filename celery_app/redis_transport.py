"""
Redis without acknowledgements: the row of each operation says what has run.

Redis itself has no acknowledgements: kombu would keep each taken message in two more
structures until it is acknowledged, which costs two transactions a message. What a dead
worker had taken would come back after an hour; the table knows after seconds or minutes
(operations/rescue.py).
"""

# ruff: noqa: SLF001 - kombu's own transports use these names of each other, too

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

# Logs show them under the scheme of the URL.
Connection.resolve_aliases |= {
    f"{__name__}:Transport": "redis",
    f"{__name__}:TlsTransport": "rediss",
    f"{__name__}:SocketTransport": "redis",
}


_errors = redis.get_redis_error_classes()

#: Errors of Redis and of the network; a connection that may be gone is not asked.
_ERRORS = (*_errors.connection_errors, *_errors.channel_errors)


class _QoS(virtual.QoS):
    """Remembers the messages that this process has taken, for the prefetch count."""

    #: An instant of time.monotonic.
    _paused_until = 0.0

    def pause(self, seconds: float) -> None:
        """Take no message for *seconds*."""
        self._paused_until = time.monotonic() + seconds

    def can_consume(self) -> bool:
        """Tell whether another message may be taken now."""
        if time.monotonic() < self._paused_until:
            return False
        return bool(virtual.QoS.can_consume(self))

    def restore_unacked(self) -> list[Any]:
        """
        Put back unfinished messages, because this worker stops or has lost its broker.

        Returns:
            Nothing; kombu would write errors to files. The leader sends again what
            cannot be put back.
        """
        taken = [
            message
            for tag, message in self._delivered.items()
            if tag not in self._dirty  # finished
        ]
        self._delivered.clear()
        # After one failure, each of the others would wait for the same timeout.
        with suppress(*_ERRORS):
            for message in reversed(taken):
                self._put_back(message)
        return []

    def _put_back(self, message: virtual.Message) -> None:
        """Make *message* the next one that is taken."""
        channel = self.channel
        with channel.conn_or_acquire() as client:
            address = message.delivery_info
            priority = channel._get_message_priority(message._raw)
            for queue in channel._lookup(address["exchange"], address["routing_key"]):
                # Senders push on the left, workers take from the right.
                client.rpush(channel._q_for_pri(queue, priority), dumps(message._raw))

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:  # noqa: FBT001, FBT002 - as kombu asks
        """Let go of a message; with *requeue* it waits again, behind all others."""
        # If it is missing, it was put back when its connection broke, before its task
        # ended.
        if delivery_tag in self._delivered:
            virtual.QoS.reject(self, delivery_tag, requeue=requeue)


class Channel(redis.Channel):
    """Takes messages from Redis for good."""

    ack_emulation = False

    def _brpop_read(self, **options: Any) -> Any:
        """
        Take the next message; an item that is not a message must not end the worker.

        Whoever pushed such an item does not use kombu, so it is not put back.
        """
        try:
            return super()._brpop_read(**options)  # type: ignore[no-untyped-call]  # kombu has no hints
        except (JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
            log.error(  # noqa: TRY400 - the traceback is kombu's
                Event.MESSAGE_DROPPED, error=f"{type(error).__name__}: {error}"
            )
            return True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Connect, as kombu's channel does."""
        self._address: dict[str, Any] = {}
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        self.QoS: Any = _QoS  # kombu has set its own, which raises errors
        self._connparams()

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002 - kombu's
        """
        Return where Redis is, even after kombu has dropped the connection.

        When a connection breaks, kombu drops it first; then it closes the channel,
        which puts messages back.
        """
        if asynchronous:
            return dict(super()._connparams(asynchronous=True))  # type: ignore[no-untyped-call]
        if not self._address:
            self._address = super()._connparams()  # type: ignore[no-untyped-call]
        return dict(self._address)

    def close(self) -> None:
        """Close, as kombu's channel does, and what was opened to put messages back."""
        super().close()  # type: ignore[no-untyped-call]
        self._disconnect_pools()  # type: ignore[no-untyped-call]


class Transport(redis.Transport):
    """Redis without acknowledgements."""

    Channel = Channel


class TlsTransport(Transport):
    """Redis without acknowledgements, through TLS."""


class SocketTransport(Transport):
    """The same on a Unix socket: ``socket:///run/redis.sock?virtual_host=0``."""

    can_parse_url = True  # kombu's parser would read the path as a database
