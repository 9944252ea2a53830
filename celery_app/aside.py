"""
What no worker could read, put aside at the broker: for people, and within bounds.

On Redis it is a list, on RabbitMQ a queue; both keep the newest. An entry is what of a
message fits in it, with what is wrong and where it was. In the memory of one process
nobody but ourselves sends anything, and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from amqp import Message as AmqpMessage
from celery.utils.saferepr import saferepr

from celery_app.app import make_app
from celery_app.broker_link import BrokerLink, declare_absent, describe, measure_queue
from celery_app.received import UnreadableError, read_json
from celery_app.routing import find_aside_queue
from models.errors import BrokerUnreachableError
from models.json_form import write_json
from settings import Settings

#: Entries that are kept; with the next bound, some MB at the broker.
MOST = 1_000

#: Letters of a message, and of its properties on RabbitMQ, that are kept.
_LONGEST = 4_000


@dataclass(frozen=True, slots=True)
class UnreadableMessage:
    """
    A message that could not be read.

    Args:
        at: When it was put aside, by the worker's clock.
        queue: Where it was, by its name on the broker.
        problem: What is wrong with it.
        size: Bytes of it, without properties on RabbitMQ.
        text: How it began.
    """

    at: datetime
    queue: str
    problem: str
    size: int
    text: str

    @classmethod
    def make(cls, message: Any, *, queue: str, problem: str, at: datetime) -> Self:
        """Return the entry of *message*, of whatever broker."""
        text = getattr(message, "text", None)
        before = ""
        if text is None:
            text = bytes(message.body)
            before = saferepr(message.properties, maxlen=_LONGEST) + " "
        begin = before + text[:_LONGEST].decode("utf-8", "backslashreplace")
        return cls(at, queue, problem, len(text), begin)

    @classmethod
    def read(cls, text: bytes) -> Self:
        """
        Return the entry that a worker wrote; somebody else may have, too.

        Raises:
            UnreadableError: It is none.
        """
        told = read_json(text, "it")
        try:
            at = datetime.fromisoformat(told["at"])
            queue, problem = str(told["queue"]), str(told["problem"])
            return cls(at, queue, problem, int(told["size"]), str(told["text"]))
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableError(str(error)) from None


class Aside:
    """
    The list, or the queue, at one broker.

    Args:
        connection: Of kombu; opened when it is needed.
        name: Of the list or queue.
    """

    def __init__(self, connection: Any, name: str) -> None:
        """Ask nothing yet."""
        self._connection = connection
        self._name = name
        self._is_declared = False

    def put(self, entry: UnreadableMessage, *, timeout_s: float) -> None:
        """
        Keep *entry*, and let the oldest go if there are too many.

        Raises:
            Exception: Those of the connection; it may have been kept.
        """
        # a half character that somebody sent is an escape of JSON then
        text = write_json(entry).encode(errors="backslashreplace")
        channel = self._connection.default_channel
        match self._connection.transport.driver_type:
            case "amqp":
                self._declare()
                channel.basic_publish(
                    # In memory: else RabbitMQ waits for its disk before it confirms.
                    AmqpMessage(text, content_type="application/json", delivery_mode=1),
                    exchange="",
                    routing_key=self._name,
                    confirm_timeout=timeout_s,
                )
            case "redis":
                with channel.client.pipeline() as pipeline:
                    pipeline.lpush(self._name, text)
                    pipeline.ltrim(self._name, 0, MOST - 1)
                    pipeline.execute()

    def count(self) -> int:
        """Return how many entries there are."""
        match self._connection.transport.driver_type:
            case "amqp":
                found = measure_queue(self._connection, self._name)
                return 0 if found is None else int(found.message_count)
            case "redis":
                return int(self._connection.default_channel.client.llen(self._name))
        return 0

    def look(self) -> list[UnreadableMessage]:
        """Return all entries, the oldest first; they stay."""
        found = []
        for text in self._look():
            try:
                found.append(UnreadableMessage.read(text))
            except UnreadableError:
                continue  # of somebody who may write there, too
        return found

    def _look(self) -> Iterator[bytes]:
        if self._connection.transport.driver_type == "redis":
            client = self._connection.default_channel.client
            yield from reversed(client.lrange(self._name, 0, MOST - 1))
        elif self.count():
            channel = self._connection.channel()
            try:
                for _number in range(MOST):
                    got = channel.basic_get(self._name, no_ack=False)
                    if got is None:
                        break
                    yield bytes(got.body)
            finally:
                channel.close()  # all that was taken goes back to its place

    def empty(self) -> int:
        """Delete all entries; return how many there were."""
        count = self.count()
        if count:
            self._connection.default_channel.queue_purge(self._name)
        return count

    def _declare(self) -> None:
        if not self._is_declared:
            # No quorum queue: RabbitMQ 4 drops from one what was looked at often.
            arguments = {"x-max-length": MOST, "x-overflow": "drop-head"}
            declare_absent(self._connection, self._name, arguments)
            self._is_declared = True


@contextmanager
def open_aside(settings: Settings) -> Iterator[Aside]:
    """
    Give what was put aside at the broker of *settings*, for the block.

    Raises:
        BrokerUnreachableError: The broker does not answer in time, or refuses.
    """
    link = BrokerLink(make_app(settings), settings.broker_timeout.total_seconds())
    try:
        yield Aside(link.open(), find_aside_queue(settings.queue_prefix))
    except link.errors as error:
        msg = f"the call to the broker failed: {describe(error)}"
        raise BrokerUnreachableError(msg) from error
    finally:
        link.close()
