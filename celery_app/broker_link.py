"""
A connection to a broker, opened when it is needed, and anew after each error.

Each call has a deadline. RabbitMQ confirms many messages at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeVar

from celery import Celery
from celery.exceptions import CeleryError
from kombu.exceptions import KombuError, OperationalError

from celery_app.confirms import SLICE, Confirms
from models.errors import BrokerUnreachableError

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
            transport_options={"confirm_publish": False},
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
            for item in items[start : start + SLICE]:
                self.confirms.expect()
                publish(item)
            returned |= self.confirms.wait(
                lambda timeout_s: self.connection.drain_events(timeout=timeout_s),
                timeout_s=self.timeout_s,
            )
        return returned

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
    return str(error).strip() or type(error).__name__


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
