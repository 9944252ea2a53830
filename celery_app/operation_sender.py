"""
Hand operations to the broker, in batches, each call with a deadline.

After an error, some messages of the batch may have arrived. The whole batch is
sent again later, and the claim rejects the second copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any

from celery import Celery
from celery.utils.nodenames import anon_nodename

import tracing
from celery_app.broker_link import BrokerLink, describe
from celery_app.message_form import MessageForms
from celery_app.redis_transport import RedisChannel
from celery_app.routing import INSTALLATION_HEADER, TASK_OF_QUEUE
from models.errors import BrokerUnreachableError
from models.operation_state import WORKER_QUEUES, Queue
from operations.sending.order import Message


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
        self._link = BrokerLink(app, timeout.total_seconds())
        self._read_installation = read_installation
        self._producer: Any = None
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
            if self._link.is_amqp:
                self._send_confirmed(messages)
            elif self._forms is None or not self._forms.push(messages):
                with self._producer.batch():
                    self._publish_all(messages)
        except BrokerUnreachableError:
            self.close()
            raise
        except self._link.errors as error:
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
        except self._link.errors as error:
            self.close()
            raise _unreachable(error) from error

    def find_evicting_policy(self) -> str | None:
        """
        Return the policy by which a Redis deletes whole queues when it lacks memory.

        None: it deletes at most what expires, which our queues never do; it tells us
        nothing; or it is no Redis.
        """
        try:
            self._connect()
            if self._link.is_amqp:
                return None
            told = self._link.connection.default_channel.client.info("memory")
        except self._link.errors:
            return None
        policy = str(told.get("maxmemory_policy"))
        return policy if policy.startswith("allkeys") else None

    def close(self) -> None:
        """Drop the connection without waiting for the broker."""
        self._producer = self._forms = None
        self._link.close()

    @cached_property
    def _installation(self) -> str | None:
        return self._read_installation()

    def _connect(self) -> None:
        if self._producer is not None:
            return
        connection = self._link.open()
        self._declare_queues()
        self._producer = self._app.amqp.Producer(connection, auto_declare=False)
        if isinstance(connection.default_channel, RedisChannel):
            self._forms = MessageForms(connection.default_channel, self._publish_all)

    def _declare_queues(self) -> None:
        for queue in WORKER_QUEUES:
            for each in self._app.amqp.queues.find_ours(queue.value):
                each(self._link.connection.default_channel).declare()

    def _publish_all(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._publish(message)

    def _publish(self, message: Message) -> None:
        amqp, task = self._app.amqp, TASK_OF_QUEUE[message.queue]
        body = amqp.as_task_v2(
            str(message.id),
            task,
            kwargs={"triggerrer": message.triggered_by},
            argsrepr="()",
            kwargsrepr="{}",
            origin=anon_nodename(),
            ignore_result=True,
        )
        if self._installation is not None:
            body.headers[INSTALLATION_HEADER] = self._installation
        if (batch := tracing.find_current()) is not None:
            body.headers[tracing.HEADER] = batch.write()
        amqp.send_task_message(
            self._producer,
            task,
            body,
            queue=amqp.queues.find_ours(message.queue.value)[message.lane],
            declare=[],
            retry=False,
            mandatory=True,
        )

    def _send_confirmed(self, messages: Sequence[Message]) -> None:
        returned = self._link.publish_confirmed(messages, self._publish)
        if not returned:
            return
        self._declare_queues()
        left = [each for each in messages if str(each.id) in returned]
        if again := self._link.publish_confirmed(left, self._publish):
            msg = f"{len(again)} messages found no queue, although it was declared"
            raise BrokerUnreachableError(msg)

    def _count(self, queue: Queue) -> int:
        """Return how many messages wait in *queue*, declared again if it is gone."""
        # Not passive: RabbitMQ closes the channel if the queue does not exist, and
        # for Redis no empty queue exists.
        channel = self._link.connection.default_channel
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


def _unreachable(error: BaseException) -> BrokerUnreachableError:
    return BrokerUnreachableError(f"the call to the broker failed: {describe(error)}")
