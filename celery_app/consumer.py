"""
How a worker reads its queues: what is not ours goes back, what nobody can read aside.

Celery discards a task that it does not know and a message that it cannot decode, and
ends of many others: it assumes that every queue is its own. Our queues have names of
their own, but somebody may send to them by mistake, and two installations may have been
given the same names. Such a message is put at the back of its queue, unchanged, and
reported; the program it is meant for may still take it. One that cannot be read is for
no program: it is put aside (aside.py), once.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog
from amqp import Message as AmqpMessage
from celery.exceptions import CPendingDeprecationWarning, WorkerShutdown
from celery.worker import consumer as celery_consumer
from celery.worker.state import maybe_shutdown, successful_requests
from kombu.exceptions import OperationalError

from celery_app.aside import Aside, UnreadableMessage
from celery_app.broker_link import describe, measure_queue
from celery_app.received import UnreadableError, make_anew, read_installation, read_task
from celery_app.worker import get_worker
from models.database.engine import read_host_clock, reading, writing
from models.database.plain_json import make_plain_text
from models.errors import UnreachableError, UsageError
from operations.fleet.processes import fetch_installation
from operations.fleet.strangers import Stranger, StrangerReason, record_stranger
from telemetry import Event

log = structlog.get_logger()

#: Seconds between two looks for a database that is away, and before a message that was
#: just put back is taken again: then there is nothing else in its queue.
PAUSE_S = 1.0

#: Seconds before a broker is asked again that refused the same a moment ago.
REFUSED_PAUSE_S = 5.0

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
        Celery's steps, without what we have no use for, and with our remote control.

        Celery declares 28 queues and exchanges for countdowns wherever there is a
        quorum queue; our messages have no countdown. What workers tell each other is in
        our table, and anybody could tell them, too: which tasks are revoked, or events
        that end whoever reads them.
        """

        default_steps = tuple(
            f"celery_app.remote_control:{step.rpartition(':')[2]}"
            if step.endswith((":Control", ":Tasks"))
            else step
            for step in celery_consumer.Consumer.Blueprint.default_steps
            if not step.endswith((":DelayedDelivery", ":Mingle", ":Gossip"))
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Prepare, as Celery's consumer does; connect to nothing."""
        super().__init__(*args, **kwargs)
        self._installation: str | None = None
        self._pace = Quota(every_s=PAUSE_S, most=MOST)
        self._told = Quota(every_s=_TELL_EVERY_S, most=_TOLD_MOST)
        self._refused = Quota(every_s=_TELL_EVERY_S, most=_TOLD_MOST)
        self._is_paused = False
        self._beside: Any = None
        self._aside: Aside | None = None

    def start(self) -> None:
        """Read which installation this is, then take messages until stopped."""
        self._installation = self._wait_for_installation()
        super().start()

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Any], None]:
        """Return what is called with each message."""
        receive = super().create_task_handler(*args, **kwargs)
        ours = self._installation

        def on_task_received(message: Any) -> None:
            try:
                name = read_task(message)
                theirs = read_installation(message)
                # without the header, somebody sent it by hand
                if theirs is not None and ours is not None and theirs != ours:
                    self._return(message, StrangerReason.OTHER_INSTALLATION, theirs)
                    return
                if name not in self.strategies:
                    self._return(message, StrangerReason.UNKNOWN_TASK, name)
                    return
                make_anew(message, name, self.app.amqp.as_task_v2)
            except UnreadableError as error:
                self._set_aside(message, str(error))
            else:
                receive(message)

        return on_task_received

    def update_strategies(self) -> None:
        """Know our tasks only; Celery's own, such as groups, are never sent to us."""
        super().update_strategies()
        for name in [name for name in self.strategies if name.startswith("celery.")]:
            del self.strategies[name]

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """Put aside a message of which nothing can be read."""
        self._set_aside(message, str(exc))

    def cancel_active_requests(self) -> None:
        """
        End what runs, for this worker stops and does not wait.

        Celery spares an id that was done with here, and waits for it: a second message
        of an operation is done with while the first still runs.
        """
        successful_requests.clear()
        super().cancel_active_requests()

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """
        Say why the connection is left; one that is refused again and again has to wait.

        Celery would connect anew four times a second: a key of another type, a right
        that lacks, a replica. Its own warning, with the reason as Python writes it,
        comes beside ours; each is logged once a minute.
        """
        error = describe(exc)
        log.warning(Event.BROKER_LOST, error=error)
        is_again = self._refused.ask(error, now=time.monotonic()) > 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CPendingDeprecationWarning)
            super().on_connection_error_after_connected(exc)
        if is_again and isinstance(exc, self.channel_errors):
            time.sleep(REFUSED_PAUSE_S)

    def add_task_queue(self, queue: str, *_args: Any, **_options: Any) -> None:
        """Consume all lanes of *queue*, which is ours, again."""
        for each in self.app.amqp.queues.find_ours(queue):
            super().add_task_queue(each.name)

    def cancel_task_queue(self, queue: str) -> None:
        """Stop consuming all lanes of *queue*."""
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

    def _return(self, message: Any, reason: StrangerReason, name: str) -> None:
        """Put *message* back behind all others, and report it."""
        queue = self._find_queue(message)
        if queue is None:
            self._let_go(message, message.requeue)
            return
        identity = _identify(message)
        self.tell(queue, reason, name, identity)
        now = time.monotonic()
        wait_s = self._pace.ask(identity, now=now)
        if wait_s and self._count_behind(queue) > self._pace.count:
            # It is another one that says the same: not all had their turn.
            wait_s = self._pace.ask(f"{identity} {message.delivery_tag}", now=now)
        if wait_s:
            self._pause(wait_s)
        self._let_go(message, partial(self._put_back, message, queue))

    def _set_aside(self, message: Any, problem: str) -> None:
        """Put *message* where people find it, and workers do not; report it."""
        queue = self._find_queue(message) or ""
        self.tell(queue, StrangerReason.UNREADABLE, problem, _identify(message))
        entry = UnreadableMessage.make(
            message, queue=queue, problem=problem, at=read_host_clock()
        )
        self._let_go(message, partial(self._keep, message, entry))

    def _keep(self, message: Any, entry: UnreadableMessage) -> None:
        if self._aside is None:
            self._aside = Aside(self._connect_beside(), self.app.conf.aside_queue)
        self._aside.put(entry, timeout_s=self.app.conf.broker_connection_timeout)
        message.ack()

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

    def _let_go(self, message: Any, move: Callable[[], object]) -> None:
        """Call *move*, which ends with *message*, until the broker lets it."""
        if getattr(message.channel, "connection", None) is None:
            return  # the connection was lost meanwhile, and the message is back
        try:
            move()
        except self._broker_errors as error:
            self._disconnect_beside()
            log.warning(Event.SEND_FAILED, error=str(error))
            self.timer.call_after(
                PAUSE_S, self.call_soon, (self._let_go, message, move)
            )

    def _put_back(self, message: Any, queue: str) -> None:
        if self.connection.transport.driver_type == "amqp":
            self._send_behind(message, queue)
            message.ack()
        else:
            message.reject(requeue=True)

    def _send_behind(self, message: Any, queue: str) -> None:
        """
        Send *message* to the back of its own queue, and wait for RabbitMQ's confirm.

        A rejected message would come back at the front, before all of ours, and newer
        versions drop a message that was rejected too often.
        """
        # RabbitMQ would send copies to the queues in CC, and refuse another's user_id.
        kept = {k: v for k, v in message.headers.items() if k not in ("CC", "BCC")}
        properties = message.properties | {"application_headers": kept, "user_id": None}
        self._connect_beside().default_channel.basic_publish(
            AmqpMessage(message.body, **properties),
            exchange="",
            routing_key=queue,
            confirm_timeout=self.app.conf.broker_connection_timeout,
        )

    def _count_behind(self, queue: str) -> int:
        """Return how many messages wait in *queue*; 0 if the broker does not say."""
        try:
            found = measure_queue(self._connect_beside(), queue)
        except self._broker_errors as error:
            self._disconnect_beside()
            log.warning(Event.SEND_FAILED, error=str(error))
            return 0
        return 0 if found is None else int(found.message_count)

    @property
    def _broker_errors(self) -> tuple[type[BaseException], ...]:
        # the first by who connects
        return (OperationalError, *self.connection_errors, *self.channel_errors)

    def _connect_beside(self) -> Any:
        if self._beside is None:
            # A connection of its own, because its confirms are awaited. It has no
            # heartbeat, because nobody would send it.
            self._beside = self.app.connection_for_write(heartbeat=0)
        return self._beside

    def _disconnect_beside(self) -> None:
        beside, self._beside, self._aside = self._beside, None, None
        if beside is not None:
            beside.collect(socket_timeout=0.1)

    def _find_queue(self, message: Any) -> str | None:
        """
        Return the queue that *message* was taken from, not one that it names.

        None: we do not consume that queue any more.
        """
        info = message.delivery_info
        if "consumer_tag" not in info:
            return str(info["routing_key"])  # of redis_transport.py, or of ourselves
        tags = self.task_consumer._active_tags  # noqa: SLF001 - kombu has no public name for it
        return next((q for q, tag in tags.items() if tag == info["consumer_tag"]), None)

    def tell(
        self, queue: str, reason: StrangerReason, name: str, identity: str | None = None
    ) -> None:
        """
        Log what is not ours, and record it for doctor: each thing once a minute.

        Args:
            queue: Where it was, by its name on the broker.
            reason: Why it is not ours.
            name: See Stranger; whatever its sender wrote.
            identity: Of the message.
        """
        stranger = Stranger(queue, reason, make_plain_text(name[:200]))
        key = f"{stranger.queue} {stranger.reason} {stranger.name}"
        if self._told.ask(key, now=time.monotonic()):
            return
        log.error(
            Event.MESSAGE_NOT_OURS,
            queue=stranger.queue,
            reason=stranger.reason,
            name=stranger.name,
            task_id=identity and make_plain_text(identity),
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
    found = message.headers.get("id") or message.properties.get("correlation_id")
    return found[:200] if isinstance(found, str) else str(hash(message.body))


@dataclass(slots=True)
class Quota:
    """
    Allow each thing once within a period, and a limited number of things.

    Args:
        every_s: The period, in seconds.
        most: Things that are allowed within one period.
    """

    every_s: float
    most: int
    _until: dict[str, float] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many things were done within the period before it was asked last."""
        return len(self._until)

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
        if len(self._until) >= self.most:
            return min(self._until.values()) - now
        self._until[thing] = now + self.every_s
        return 0.0
