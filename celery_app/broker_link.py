"""
A connection to a broker, opened when it is needed, and anew after each error.

Each call has a deadline. RabbitMQ confirms many messages at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, TypeVar

from celery import Celery
from celery.exceptions import CeleryError
from kombu.exceptions import KombuError, OperationalError
from redis.exceptions import AskError, ClusterCrossSlotError

from models.errors import BrokerUnreachableError
from models.units import format_count

#: Messages published between two waits. Returned messages come back whole, and must fit
#: into the buffers of a connection that is still busy publishing.
SLICE = 250


class Confirms:
    """
    The confirms and returns of one channel, on which nobody else publishes.

    Args:
        channel: A new channel of py-amqp: its delivery tags are counted from 1.
    """

    def __init__(self, channel: Any) -> None:
        """Ask the broker to confirm each message from now on."""
        self._published = 0
        self._open: set[int] = set()
        self._refused = 0
        self._returned: list[str] = []
        channel.confirm_select()
        channel.events["basic_ack"].add(self._on_ack)
        channel.events["basic_nack"].add(self._on_nack)
        channel.events["basic_return"].add(self._on_return)

    def expect(self) -> None:
        """Count the message that is published next."""
        self._published += 1
        self._open.add(self._published)

    def wait(self, drain: Callable[[float], object], *, timeout_s: float) -> set[str]:
        """
        Wait until the broker has confirmed everything that was published.

        Args:
            drain: Reads the broker's answers, for that many seconds at most.
            timeout_s: Seconds for all confirms together.

        Returns:
            Task ids of the messages that found no queue.

        Raises:
            BrokerUnreachableError: The broker refused a message, or did not confirm
                all of them in time.
        """
        give_up_at = time.monotonic() + timeout_s
        while self._open:
            left_s = give_up_at - time.monotonic()
            if left_s <= 0:
                many = format_count(len(self._open), "message", "messages")
                msg = f"{many} not confirmed within {timeout_s:g} s"
                raise BrokerUnreachableError(msg)
            drain(left_s)
        if self._refused:
            many = format_count(self._refused, "message", "messages")
            raise BrokerUnreachableError(f"the broker refused {many}")
        returned, self._returned = set(self._returned), []
        return returned

    def _on_ack(self, tag: int, multiple: bool) -> None:  # noqa: FBT001 - py-amqp's
        self._settle(tag, multiple=multiple)

    def _on_nack(self, tag: int, multiple: bool) -> None:  # noqa: FBT001 - py-amqp's
        self._refused += len(self._settle(tag, multiple=multiple))

    def _on_return(
        self, _error: Exception, _exchange: str, _routing_key: str, message: Any
    ) -> None:
        # Celery's correlation id is the task id.
        self._returned.append(message.properties["correlation_id"])

    def _settle(self, tag: int, *, multiple: bool) -> Collection[int]:
        settled = {each for each in self._open if each <= tag} if multiple else {tag}
        self._open -= settled
        return settled


_Item = TypeVar("_Item")


class BrokerLink:
    """
    One connection; who opens it closes it after an error.

    Args:
        app: Its configuration says how to reach the broker.
        timeout_s: For connecting, and for the confirms of some messages.
    """

    def __init__(self, app: Celery, timeout_s: float) -> None:
        """Open nothing yet."""
        self.app = app
        self.timeout_s = timeout_s
        #: Of kombu. None: it is closed.
        self.connection: Any = None
        self.confirms: Confirms | None = None
        #: Whether RabbitMQ has said that it lets nobody publish now.
        self._is_blocked = False

    def open(self, heartbeat_s: float = 0) -> Any:
        """
        Connect to the first server that answers, of a list separated by ``;``.

        Args:
            heartbeat_s: RabbitMQ closes a connection that is silent for longer. 0:
                none is.

        Raises:
            Exception: One of ``errors``.
        """
        connection = self.connection = self.app.connection_for_write(
            connect_timeout=self.timeout_s,
            heartbeat=heartbeat_s,
            # We wait for confirms ourselves; py-amqp would wait for each message.
            transport_options={
                "confirm_publish": False,
                "on_blocked": self._note_blocked,
                "on_unblocked": self._note_blocked,
            },
        )
        # kombu tries the next server only if it may retry for ever, and begins with the
        # one that has just failed.
        for left in reversed(range(len(connection.alt) + 1)):
            try:
                connection.ensure_connection(
                    max_retries=0, timeout=self.timeout_s, errback=None
                )
            except self.errors:
                if not left:
                    raise
                connection.maybe_switch_next()
            else:
                break
        return connection

    def close(self) -> None:
        """Drop the connection without waiting for the broker."""
        connection, self.connection, self.confirms = self.connection, None, None
        self._is_blocked = False
        if connection is not None:
            with suppress(*self.errors):
                connection.collect(socket_timeout=0.1)

    @property
    def is_amqp(self) -> bool:
        """Whether the open connection leads to RabbitMQ."""
        return bool(self.connection.transport.driver_type == "amqp")

    def publish_confirmed(
        self, items: Sequence[_Item], publish: Callable[[_Item], object]
    ) -> set[str]:
        """
        Publish *items*, each in one message on the default channel, and wait.

        Returns:
            Task ids of the messages that found no queue.

        Raises:
            BrokerUnreachableError: RabbitMQ refused one, or did not confirm all.
        """
        if self.confirms is None:
            self.confirms = Confirms(self.connection.default_channel)
        returned: set[str] = set()
        for start in range(0, len(items), SLICE):
            with self._explaining_alarm():
                for item in items[start : start + SLICE]:
                    self.confirms.expect()
                    publish(item)
                returned |= self.confirms.wait(self._drain, timeout_s=self.timeout_s)
        return returned

    def _drain(self, timeout_s: float) -> None:
        self.connection.drain_events(timeout=timeout_s)

    @contextmanager
    def _explaining_alarm(self) -> Iterator[None]:
        try:
            yield
        except self.errors as error:
            # While much was published, nobody read that it is blocked.
            with suppress(*self.errors):
                self._drain(0.1)
            if not self._is_blocked:
                raise
            msg = (
                "RabbitMQ lets nobody publish, for it lacks memory or disk:"
                " 'rabbitmqctl status' names the alarm"
            )
            raise BrokerUnreachableError(msg) from error

    def _note_blocked(self, reason: str = "") -> None:
        """Be told that the connection is blocked, or, without *reason*, no more."""
        self._is_blocked = bool(reason)

    @cached_property
    def absence(self) -> tuple[type[BaseException], ...]:
        """Errors that mean that the broker is away, whatever the call was."""
        connection = self.app.connection_for_write()
        return (
            *(OperationalError, OSError, BrokerUnreachableError),
            *connection.connection_errors,
        )

    @cached_property
    def errors(self) -> tuple[type[BaseException], ...]:
        """Errors that a call to the broker may raise."""
        connection = self.app.connection_for_write()
        return (KombuError, CeleryError, *self.absence, *connection.channel_errors)


def describe(error: BaseException) -> str:
    """Return what *error* says, or its name if it says nothing."""
    told = str(error).strip() or type(error).__name__
    # A moved key is one that is asked for elsewhere, for redis-py.
    if isinstance(error, AskError | ClusterCrossSlotError):
        return f"{told}: this is a Redis Cluster, which cannot be used (docs/broker.md)"
    return told


#: AMQP's code for a queue that does not exist.
_NOT_FOUND = "404"


def measure_queue(connection: Any, queue: str) -> Any:
    """Return the broker's figures of *queue*; None if there is no such queue."""
    is_amqp = connection.transport.driver_type == "amqp"
    # A channel of its own, because RabbitMQ closes it if there is no such queue.
    channel = connection.channel() if is_amqp else connection.default_channel
    try:
        return channel.queue_declare(queue, passive=True)
    except connection.channel_errors as error:
        # a number, or a text in kombu's own transports
        if str(getattr(error, "reply_code", "")) != _NOT_FOUND:
            raise
        return None
    finally:
        if is_amqp:
            channel.close()


def declare_absent(connection: Any, queue: str, arguments: dict[str, Any]) -> None:
    """
    Make *queue* on RabbitMQ, durable, unless there is one.

    One that exists is left as it is: its owner may have made it otherwise, and RabbitMQ
    would refuse.
    """
    if measure_queue(connection, queue) is None:
        connection.default_channel.queue_declare(
            queue, durable=True, auto_delete=False, arguments=arguments
        )
