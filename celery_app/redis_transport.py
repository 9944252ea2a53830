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
from base64 import b64decode
from contextlib import suppress
from queue import Empty
from typing import Any, NamedTuple

import structlog
from kombu import Connection
from kombu.transport import redis, virtual
from kombu.utils.encoding import bytes_to_str
from redis.backoff import NoBackoff
from redis.retry import Retry

from celery_app import received
from telemetry import Event

log = structlog.get_logger()

# Logs show them under the scheme of the URL.
Connection.resolve_aliases |= {
    f"{__name__}:RedisTransport": "redis",
    f"{__name__}:RedisTlsTransport": "rediss",
    f"{__name__}:SocketTransport": "redis",
    f"{__name__}:SentinelTransport": "sentinel",
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

    def _put_back(self, message: RedisMessage) -> None:
        """Make *message* the next one that is taken."""
        with self.channel.conn_or_acquire() as client:
            # Senders push on the left, workers take from the right.
            client.rpush(message.queue, message.text)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:  # noqa: FBT001, FBT002 - as kombu asks
        """Let go of a message; with *requeue* it waits again, behind all others."""
        # If it is missing, it was put back when its connection broke, before its task
        # ended.
        if message := self._delivered.get(delivery_tag):
            if requeue:
                with self.channel.conn_or_acquire() as client:
                    client.lpush(message.queue, message.text)
            self.ack(delivery_tag)  # type: ignore[no-untyped-call]  # kombu has no hints


class _Taken(NamedTuple):
    """An item as it was taken off the list *queue*."""

    queue: str
    text: bytes


class RedisMessage(received.ReceivedMessage):
    """
    A message as it was taken off Redis, where the sender has written all of it.

    So it is told apart by a tag of our own, and goes back, byte by byte, to the queue
    that it came from and not to the one that it names.

    Args:
        payload: What was taken; or, if it was published to many, the envelope.
        channel: Over which it came.
        fields: Others, for kombu.
    """

    def __init__(self, payload: Any, channel: Any = None, **fields: Any) -> None:
        """Read the envelope."""
        self.queue, self.text = payload if isinstance(payload, _Taken) else ("", b"")
        body, fault = b"", None
        envelope: dict[str, Any] = {}
        try:
            envelope, body = _read_envelope(self.text or payload)
        except received.UnreadableError as error:
            fault = error
        super().__init__(
            body,
            channel=channel,
            delivery_tag=channel._next_delivery_tag(),
            content_type=envelope.get("content-type"),
            content_encoding=envelope.get("content-encoding"),
            delivery_info={"exchange": "", "routing_key": self.queue},
            headers=envelope.get("headers"),
            fault=fault,
            **fields,
        )


def _read_envelope(given: Any) -> tuple[dict[str, Any], bytes]:
    """
    Return the envelope that kombu wrote, and the body that is in it.

    Raises:
        UnreadableError: It is none.
    """
    if isinstance(given, bytes):
        given = received.read_json(given, "it")
    match given:
        case {"body": str(text), "properties": {**properties}}:
            pass
        case _:
            raise received.UnreadableError("it is no message of Celery")
    if not isinstance(properties.get("delivery_info", {}), dict):
        raise received.UnreadableError("its delivery_info is no object")
    try:
        match properties.get("body_encoding"):
            case None | "utf-8":
                return given, text.encode()
            case "base64":
                return given, b64decode(text)
    except ValueError:
        pass
    raise received.UnreadableError("its body is not in base64")


class RedisChannel(redis.Channel):
    """Takes messages from Redis for good."""

    ack_emulation = False
    Message: Any = RedisMessage

    def _brpop_read(self, **options: Any) -> bool:
        """Take the next message, as kombu does, but let ``RedisMessage`` read it."""
        try:
            try:
                taken = self.client.parse_response(
                    self.client.connection, "BRPOP", **options
                )
            except self.connection_errors:
                # The next look connects again.
                self.client.connection.disconnect()
                raise
            if not taken:
                raise Empty
            queue, text = bytes_to_str(taken[0]), taken[1]
            self._queue_cycle.rotate(queue)
            self.connection._deliver(_Taken(queue, text), queue)
            return True
        finally:
            self._in_poll: Any = None
            self._flush_brpop_reauth()  # type: ignore[no-untyped-call]  # kombu has no hints

    def _get(self, queue: str, timeout: float | None = None) -> _Taken:  # noqa: ARG002 - as kombu calls it
        """Take the next message at once."""
        with self.conn_or_acquire() as client:
            text = client.rpop(queue)
        if text is None:
            raise Empty
        return _Taken(queue, text)

    def _handle_message(self, client: Any, r: Any) -> dict[str, Any]:
        """Return what was published to many, without data that cannot be read."""
        told: dict[str, Any] = super()._handle_message(client, r)  # type: ignore[no-untyped-call]
        data = told["data"]
        if isinstance(data, bytes | str):
            try:
                received.read_json(data, "it")
            except received.UnreadableError as error:
                log.warning(Event.MESSAGE_DROPPED, error=str(error))
                told["data"] = None
        return told

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


class RedisTransport(redis.Transport):
    """Redis without acknowledgements."""

    Channel = RedisChannel


class RedisTlsTransport(RedisTransport):
    """Redis without acknowledgements, through TLS."""


class SocketTransport(RedisTransport):
    """The same on a Unix socket: ``socket:///run/redis.sock?virtual_host=0``."""

    can_parse_url = True  # kombu's parser would read the path as a database


class SentinelChannel(RedisChannel, redis.SentinelChannel):
    """
    The same at the master that Sentinels name.

    By default each is tried eleven times, for seconds, before the next one is asked,
    and without a deadline if there are options of its own, such as its password.
    """

    sentinel_kwargs: Any = None

    def _sentinel_managed_pool(self, asynchronous: bool = False) -> Any:  # noqa: FBT001, FBT002 - as kombu calls it
        parameters = self._connparams()
        deadlines = {k: parameters[k] for k in parameters if k.startswith("socket_")}
        self.sentinel_kwargs = {
            **(self.sentinel_kwargs or {}),
            **deadlines,
            "retry": Retry(NoBackoff(), 0),
        }
        return super()._sentinel_managed_pool(asynchronous)  # type: ignore[no-untyped-call]  # kombu has no hints


class SentinelTransport(RedisTransport, redis.SentinelTransport):
    """The same at the master that Sentinels name, for tasks of users' own."""

    Channel = SentinelChannel
