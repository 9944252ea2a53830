"""
RabbitMQ's confirms for a batch of messages, awaited once for the whole batch.

A confirm alone is not enough: a message to a queue that does not exist is confirmed and
dropped. With ``mandatory``, RabbitMQ returns it just before its confirm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

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
            msg = f"the broker refused {many}"
            raise BrokerUnreachableError(msg)
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
