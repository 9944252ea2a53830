"""
How a worker reads its queues: messages that are not ours go back.

Celery discards a task that it does not know and a message that it cannot decode: it
assumes that every queue is its own. Our queues have names of their own, but somebody
may send to them by mistake, and two installations may have been given the same names.
Such a message is put at the back of its queue, unchanged, and reported; the program it
is meant for may still take it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import structlog
from amqp import Message as AmqpMessage
from celery.exceptions import WorkerShutdown
from celery.worker import consumer as celery_consumer
from celery.worker.state import maybe_shutdown

from celery_app.routing import INSTALLATION_HEADER
from celery_app.worker import get_worker
from models.database.engine import reading, writing
from models.errors import UnreachableError, UsageError
from operations.fleet.installation import fetch_installation
from operations.fleet.strangers import Reason, Stranger, record_stranger
from telemetry import Event

log = structlog.get_logger()

#: Seconds between two looks for a database that is away, and before a message that was
#: just put back is taken again: then there is nothing else in its queue.
PAUSE_S = 1.0

#: Messages put back within PAUSE_S at most. A message of ours behind a thousand others
#: gets its turn after ten seconds; the cost is a few percent of a core.
MOST = 100

#: Each thing is reported once in this many seconds, and at most so many things.
_TELL_EVERY_S = 60.0
_TOLD_MOST = 20


class Consumer(celery_consumer.Consumer):  # type: ignore[misc]  # Celery has no hints
    """Celery's consumer, but it drops nothing and declares only our queues."""

    class Blueprint(celery_consumer.Consumer.Blueprint):  # type: ignore[misc]  # as above
        """
        Celery's steps, without its 28 queues and exchanges for countdowns.

        Celery declares them wherever there is a quorum queue; our messages have no
        countdown.
        """

        default_steps = tuple(
            step
            for step in celery_consumer.Consumer.Blueprint.default_steps
            if not step.endswith(":DelayedDelivery")
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Prepare, as Celery's consumer does; connect to nothing."""
        super().__init__(*args, **kwargs)
        self._installation: str | None = None
        self._pace = Quota(every_s=PAUSE_S, most=MOST)
        self._told = Quota(every_s=_TELL_EVERY_S, most=_TOLD_MOST)
        self._is_paused = False
        self._aside: Any = None

    def start(self) -> None:
        """Read which installation this is, then take messages until stopped."""
        self._installation = self._wait_for_installation()
        super().start()

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Any], None]:
        """Return what is called with each message."""
        receive = super().create_task_handler(*args, **kwargs)
        ours = self._installation

        def on_task_received(message: Any) -> None:
            headers = message.headers
            theirs = headers.get(INSTALLATION_HEADER) if headers else None
            # a message without the header was sent by an older version, or by hand
            if theirs is None or ours is None or theirs == ours:
                receive(message)
            else:
                self._return(message, Reason.OTHER_INSTALLATION, str(theirs))

        return on_task_received

    def update_strategies(self) -> None:
        """Know our tasks only; Celery's own, such as groups, are never sent to us."""
        super().update_strategies()
        for name in [name for name in self.strategies if name.startswith("celery.")]:
            del self.strategies[name]

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:  # noqa: ARG002 - as Celery calls it; the three below too
        """Put back a task that is not ours."""
        self._return(message, Reason.UNKNOWN_TASK, str(exc.args[0]))

    def on_unknown_message(self, body: Any, message: Any) -> None:  # noqa: ARG002
        """Put back a message that is not a task."""
        self._return(message, Reason.UNREADABLE, "not a Celery task")

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:  # noqa: ARG002
        """Put back one of our tasks with arguments that cannot be read."""
        self._return(message, Reason.UNREADABLE, str(exc))

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """Put back a message that is not JSON, or not of the type that it claims."""
        self._return(message, Reason.UNREADABLE, str(exc))

    def add_task_queue(self, queue: str, *_args: Any, **_options: Any) -> None:
        """Consume *queue* too, as remote control asks, if it is ours."""
        ours = self.app.amqp.queues.find_ours(queue)
        if not ours:
            log.error(Event.QUEUE_REFUSED, queue=queue)
        for each in ours:
            super().add_task_queue(each.name)

    def cancel_task_queue(self, queue: str) -> None:
        """Stop consuming *queue*, as remote control asks."""
        for each in self.app.amqp.queues.find_ours(queue):
            super().cancel_task_queue(each.name)

    def _wait_for_installation(self) -> str | None:
        while True:
            try:
                found: str | None = self._call_database(fetch_installation, reading)
            except UnreachableError as error:
                self._warn_of_database(error)
            except UsageError as error:
                # The schema could not be checked when the worker started.
                log.error(Event.SCHEMA_REFUSED, error=str(error))  # noqa: TRY400 - no bug
                raise WorkerShutdown(error.exit_code) from None
            else:
                return found
            maybe_shutdown()
            time.sleep(PAUSE_S)

    def _call_database(
        self, call: Callable[..., Any], begin: Callable[..., Any]
    ) -> Any:
        engine = get_worker().engine
        try:
            with begin(engine) as connection:
                return call(connection)
        finally:
            # No connection may be open when the next child is forked.
            engine.dispose()

    def _warn_of_database(self, error: UnreachableError) -> None:
        if not self._told.ask("database", now=time.monotonic()):
            log.warning(Event.DATABASE_UNREACHABLE, error=str(error))

    def _return(self, message: Any, reason: Reason, name: str) -> None:
        """Put *message* back behind all others, and report it."""
        queue = self._find_queue(message)
        identity = _identify(message)
        self._tell(Stranger(queue=queue, reason=reason, name=name[:200]), identity)
        if wait_s := self._pace.ask(identity, now=time.monotonic()):
            self._pause(wait_s)
        self._put_back(message, queue)

    def _pause(self, seconds: float) -> None:
        """
        Take no message for *seconds*.

        If we kept the message here meanwhile, Redis would lose it when this process is
        killed. On RabbitMQ, two installations, each with its slots full of the other's
        messages, would wait for each other for ever.
        """
        qos = getattr(self.task_consumer.channel, "qos", None)
        if pause := getattr(qos, "pause", None):
            pause(seconds)  # Redis: celery_app/redis_transport.py
        elif not self._is_paused:
            self._is_paused = True
            self.task_consumer.cancel()
            self.timer.call_after(seconds, self.call_soon, (self._resume,))

    def _resume(self) -> None:
        self._is_paused = False
        if self.task_consumer is not None:  # None while it reconnects
            self.task_consumer.consume()

    def _put_back(self, message: Any, queue: str) -> None:
        if getattr(message.channel, "connection", None) is None:
            return  # the connection was lost meanwhile, and the message is back
        errors = (*self.connection_errors, *self.channel_errors)
        try:
            if self.connection.transport.driver_type == "amqp":
                self._send_behind(message, queue)
                message.ack()
            else:
                message.reject(requeue=True)
        except errors as error:
            log.warning(Event.SEND_FAILED, queue=queue, error=str(error))
            self.timer.call_after(
                PAUSE_S, self.call_soon, (self._put_back, message, queue)
            )

    def _send_behind(self, message: Any, queue: str) -> None:
        """
        Send *message* to the back of its own queue, and wait for RabbitMQ's confirm.

        A rejected message would come back at the front, before all of ours, and newer
        versions drop a message that was rejected too often.
        """
        if self._aside is None:
            # A connection of its own, because its confirms are awaited. It has no
            # heartbeat, because nobody would send it.
            self._aside = self.app.connection_for_write(heartbeat=0)
        try:
            self._aside.default_channel.basic_publish(
                AmqpMessage(message.body, **message.properties),
                exchange="",
                routing_key=queue,
                confirm_timeout=self.app.conf.broker_connection_timeout,
            )
        except (*self.connection_errors, *self.channel_errors):
            aside, self._aside = self._aside, None
            aside.collect(socket_timeout=0.1)
            raise

    def _find_queue(self, message: Any) -> str:
        """Return the queue that *message* was taken from."""
        info = message.delivery_info or {}
        tags = self.task_consumer._active_tags  # noqa: SLF001 - kombu has no public name for it
        tag = info.get("consumer_tag")
        return next(
            (name for name, each in tags.items() if each == tag),
            str(info.get("routing_key")),
        )

    def _tell(self, stranger: Stranger, identity: str) -> None:
        """Log *stranger*, and record it for doctor: each one once a minute."""
        key = f"{stranger.queue} {stranger.reason} {stranger.name}"
        if self._told.ask(key, now=time.monotonic()):
            return
        log.error(
            Event.MESSAGE_NOT_OURS,
            queue=stranger.queue,
            reason=stranger.reason,
            name=stranger.name,
            task_id=identity,
            hint=stranger.hint,
        )

        def write(connection: Any) -> None:
            record_stranger(connection, stranger, worker=self.hostname)

        try:
            self._call_database(write, writing)
        except UnreachableError as error:
            self._warn_of_database(error)


def _identify(message: Any) -> str:
    """Return the text by which *message* is recognised when it comes again."""
    headers, properties = message.headers or {}, message.properties or {}
    found = headers.get("id") or properties.get("correlation_id")
    return str(found or properties.get("delivery_tag") or hash(message.body))[:200]


class Quota:
    """
    Allow each thing once within a period, and a limited number of things.

    Args:
        every_s: The period, in seconds.

        most: Things that are allowed within one period.
    """

    def __init__(self, *, every_s: float, most: int) -> None:
        """Let the first things pass."""
        self._every_s = every_s
        self._most = most
        self._until: dict[str, float] = {}

    def ask(self, thing: str, *, now: float) -> float:
        """
        Count *thing* if it may be done now.

        Args:
            thing: A text that tells it from other things.

            now: Seconds of a clock that never jumps.

        Returns:
            0 if it may be done; otherwise the seconds to wait, and it is not counted.
        """
        self._until = {each: at for each, at in self._until.items() if at > now}
        if thing in self._until:
            return self._until[thing] - now
        if len(self._until) >= self._most:
            return min(self._until.values()) - now
        self._until[thing] = now + self._every_s
        return 0.0
