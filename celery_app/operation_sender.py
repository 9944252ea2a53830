"""
Hand operations to the broker, in batches, each call with a deadline.

After an error, some messages of the batch may have arrived. The whole batch is
sent again later, and the claim rejects the second copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cached_property
from typing import Any

from celery import Celery
from celery.exceptions import CeleryError
from celery.utils.nodenames import anon_nodename
from kombu.exceptions import KombuError, OperationalError

from celery_app.confirms import SLICE, Confirms
from celery_app.message_form import MessageForms
from celery_app.redis_cluster import REFUSAL, is_said_by_cluster
from celery_app.redis_transport import Channel as RedisChannel
from celery_app.routing import INSTALLATION_HEADER, TASK_OF_QUEUE
from models.errors import BrokerUnreachableError
from models.operation_state import WORKER_QUEUES, Queue
from operations.sending.order import Message

#: Errors that a broker connection may raise, besides those of its transport.
_BROKER_ERRORS = (KombuError, OperationalError, CeleryError, OSError)


class CelerySender:
    """
    One connection to the broker, opened when it is first used and after each error.

    Redis gets a batch in one pipeline, of messages that Celery makes once for each lane
    (message_form.py). RabbitMQ gets it message by message, and
    confirms are awaited for many at once; messages that found no queue are sent once
    more, after the queues were declared again.

    Args:
        app: Configured; its transport options have the deadlines.
        timeout: For connecting, and for the confirms.
        read_installation: Called once, before the first message; every message carries
            what it returns. If it raises UnreachableError, so does ``send``.
    """

    def __init__(
        self,
        app: Celery,
        *,
        timeout: timedelta,
        read_installation: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Open nothing yet."""
        self._app = app
        self._timeout_s = timeout.total_seconds()
        self._read_installation = read_installation
        self._connection: Any = None
        self._producer: Any = None
        self._confirms: Confirms | None = None
        self._forms: MessageForms | None = None

    def send(self, messages: Sequence[Message]) -> None:
        """
        Send *messages*, in their order.

        Raises:
            BrokerUnreachableError: The broker did not take all of them in time; any of
                them may have arrived.
        """
        if not messages:
            return
        _ = self._installation
        try:
            self._connect()
            if self._confirms is not None:
                self._send_confirmed(messages, self._confirms)
            elif self._forms is None or not self._forms.push(messages):
                with self._producer.batch():
                    self._publish(messages)
        except BrokerUnreachableError:
            self.close()
            raise
        except self._errors() as error:
            self.close()
            raise _unreachable(error) from error

    def find_empty_queues(self) -> set[Queue]:
        """
        Return the queues that are empty now.

        A queue that was deleted is declared again, and counts as empty.

        Raises:
            BrokerUnreachableError: The broker did not answer in time.
        """
        try:
            self._connect()
            return {queue for queue in WORKER_QUEUES if self._count(queue) == 0}
        except self._errors() as error:
            self.close()
            raise _unreachable(error) from error

    def close(self) -> None:
        """Drop the connection without waiting for the broker."""
        connection, self._connection, self._producer = self._connection, None, None
        self._confirms = self._forms = None
        if connection is not None:
            with suppress(*self._errors()):
                connection.collect(socket_timeout=0.1)

    @cached_property
    def _installation(self) -> str | None:
        return self._read_installation()

    def _connect(self) -> None:
        if self._producer is not None:
            return
        self._connection = self._app.connection_for_write(
            connect_timeout=self._timeout_s,
            # We wait for confirms ourselves; py-amqp would wait for each message.
            transport_options={"confirm_publish": False},
        )
        self._reach_a_node()
        self._declare_queues()
        self._producer = self._app.amqp.Producer(self._connection, auto_declare=False)
        channel = self._connection.default_channel
        if self._connection.transport.driver_type == "amqp":
            self._confirms = Confirms(channel)
        elif isinstance(channel, RedisChannel):
            self._forms = MessageForms(channel, self._publish)

    def _reach_a_node(self) -> None:
        """Connect to the first server that answers, of a list separated by ``;``."""
        # kombu tries the next server only if it may retry for ever, and begins with the
        # one that has just failed.
        for left in reversed(range(len(self._connection.alt) + 1)):
            try:
                self._connection.ensure_connection(
                    max_retries=0, timeout=self._timeout_s, errback=None
                )
            except self._errors():
                if not left:
                    raise
                self._connection.maybe_switch_next()
            else:
                return

    def _declare_queues(self) -> None:
        for queue in WORKER_QUEUES:
            for each in self._app.amqp.queues.find_ours(queue.value):
                each(self._connection.default_channel).declare()

    def _publish(self, messages: Sequence[Message]) -> None:
        amqp = self._app.amqp
        lanes = {queue: amqp.queues.find_ours(queue.value) for queue in WORKER_QUEUES}
        origin = anon_nodename()
        for message in messages:
            task = TASK_OF_QUEUE[message.queue]
            body = amqp.as_task_v2(
                str(message.id),
                task,
                kwargs={"triggerrer": message.triggered_by},
                argsrepr="()",
                kwargsrepr="{}",
                origin=origin,
                ignore_result=True,
            )
            if self._installation is not None:
                body.headers[INSTALLATION_HEADER] = self._installation
            if self._confirms is not None:
                self._confirms.expect()
            amqp.send_task_message(
                self._producer,
                task,
                body,
                queue=lanes[message.queue][message.lane],
                declare=[],
                retry=False,
                mandatory=True,
            )

    def _send_confirmed(self, messages: Sequence[Message], confirms: Confirms) -> None:
        returned: set[str] = set()
        for start in range(0, len(messages), SLICE):
            self._publish(messages[start : start + SLICE])
            returned |= confirms.wait(self._drain, timeout_s=self._timeout_s)
        if not returned:
            return
        self._declare_queues()
        self._publish([m for m in messages if str(m.id) in returned])
        again = confirms.wait(self._drain, timeout_s=self._timeout_s)
        if again:
            msg = f"{len(again)} messages found no queue, although it was declared"
            raise BrokerUnreachableError(msg)

    def _drain(self, timeout_s: float) -> None:
        self._connection.drain_events(timeout=timeout_s)

    def _count(self, queue: Queue) -> int:
        """Return how many messages wait in *queue*, declared again if it is gone."""
        # Not passive: RabbitMQ closes the channel if the queue does not exist, and
        # for Redis no empty queue exists.
        channel = self._connection.default_channel
        counts = (
            channel.queue_declare(
                queue=each.name,
                durable=each.durable,
                auto_delete=each.auto_delete,
                arguments=each.queue_arguments,
            ).message_count
            for each in self._app.amqp.queues.find_ours(queue.value)
        )
        return sum(map(int, counts))

    def _errors(self) -> tuple[type[BaseException], ...]:
        connection = self._connection
        if connection is None:
            return _BROKER_ERRORS
        return (
            *_BROKER_ERRORS,
            *connection.connection_errors,
            *connection.channel_errors,
        )


def _unreachable(error: BaseException) -> BrokerUnreachableError:
    said = str(error).strip() or type(error).__name__
    hint = f" ({REFUSAL})" if is_said_by_cluster(said) else ""
    return BrokerUnreachableError(f"the call to the broker failed: {said}{hint}")
