"""
Send tasks of the users' own applications, each over the connection its action names.

A foreign queue is never declared: if it was declared with other arguments, RabbitMQ
would refuse and close the channel. The message goes to the queue of that name through
the default exchange, as Celery itself sends to a direct queue; if there is no such
queue, RabbitMQ returns the message, and the step says so.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import groupby
from typing import Any, TypeVar

import redis
from celery import Celery
from celery.utils.nodenames import anon_nodename
from kombu import Queue as KombuQueue

import tracing
from celery_app.answer_queue import AnswerQueue, declare_answers, open_answers
from celery_app.app import make_config
from celery_app.broker_link import BrokerLink, describe, measure_queue
from celery_app.message_form import TaskForms
from celery_app.routing import find_answer_queue
from celery_app.task_answers import fetch_failure, make_links
from models.errors import PlatformError, RuleError, StepError
from models.fields.task_rules import TaskRules
from models.units import format_count
from operations.foreign_tasks import ForeignTask, Keep
from settings import Settings

_Result = TypeVar("_Result")

#: AMQP's code for an exchange that does not exist.
_NOT_FOUND = 404

#: Seconds of silence after which RabbitMQ takes a reader of answers for dead, and lets
#: another one read what it held.
_HEARTBEAT_S = 60.0


#: Places that are known to be allowed.
_PLACES = 10_000

#: Seconds for which the length of a queue is believed, but for what we add.
_BELIEVED_S = 5.0

#: The part of our configuration that says how to reach a broker; nothing about queues.
_OF_A_CONNECTION = (
    "broker_url",
    "broker_transport",
    "broker_use_ssl",
    "broker_connection_timeout",
    "broker_transport_options",
)


@dataclass(slots=True)
class NotSent:
    """
    Tasks that a broker has not taken, and why, by their ids.

    Args:
        refused: It has no such place, or refuses the task itself.
        held: Their queues are full.
    """

    refused: dict[str, str] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)


class CeleryTaskSender:
    """
    Sends tasks of users' own Celery applications; see ports.TaskSender.

    A connection is opened when it is first used, in the process that uses it, and stays
    open between two tasks; the threads of a worker share it. If it hangs, only threads
    that use the same connection wait, until its deadline.
    """

    def __init__(
        self,
        settings: Settings,
        read_installation: Callable[[], str | None] = lambda: None,
    ) -> None:
        """
        Open nothing yet.

        Args:
            settings: Have the connections.
            read_installation: Returns the installation's id, which is part of the name
                of the queue where answers come. Called when one is first waited for.
        """
        self._rules = settings.make_task_rules()
        # not of ourselves: that would keep our connections open when we are dropped
        self._find_queue = lru_cache(_PLACES)(partial(_find_queue, self._rules))
        self._prefix = settings.queue_prefix
        self._results = settings.task_results
        self._timeout_s = settings.broker_timeout.total_seconds()
        self._read_installation = read_installation
        names = None, *settings.task_connections
        self._links = {name: Link(settings, name) for name in names}

    def place(self, task: ForeignTask) -> ForeignTask:
        """Return *task* with its queue; StepError if the settings forbid it."""
        try:
            # Checked again: the settings may have changed since the action was posted,
            # and placeholders may stand for much.
            self._rules.check_size(task.given)
            queue = self._find_queue(
                task.app, task.connection, task.exchange, task.queue
            )
        except RuleError as error:
            raise StepError(str(error), permanent=True) from None
        return task if queue == task.queue else task._replace(queue=queue)

    def send(self, task: ForeignTask) -> ForeignTask:
        """Send *task*; return it with its queue."""
        task = self.place(task).in_trace(tracing.find_current())
        left = self.send_all(task.connection, [task])
        if task.id in left.held:
            raise PlatformError(left.held[task.id])
        if task.id in left.refused:
            raise StepError(left.refused[task.id], permanent=False)
        return task

    def send_all(self, connection: str | None, tasks: Sequence[ForeignTask]) -> NotSent:
        """
        Send tasks, each with its place, over one connection.

        Raises:
            PlatformError: The broker was away, or did not answer in time: any of them
                may have arrived.
            StepError: Temporary: the broker refuses them.
        """
        waited = any(task.token is not None for task in tasks)
        link, answers = self._links[connection], self._answers if waited else None
        left = NotSent()
        # An exchange that does not exist ends the channel, and nobody learns which of
        # the messages before it were taken: so each is sent to by itself.
        batches = deque(_split_by_exchange(tasks))
        while batches:
            batch = batches.popleft()
            try:
                one = link.send(batch, answers)
            except PlatformError:
                raise
            except StepError as error:
                if len(tasks) == 1:
                    raise
                if len(batch) == 1:
                    left.refused[batch[0].id] = str(error)
                # One that is refused must not stop the others.
                else:
                    batches.extend([each] for each in batch)
            else:
                left.refused |= one.refused
                left.held |= one.held
        return left

    def receive(self, connection: str | None, keep: Keep, *, limit: int) -> int | None:
        """Take answers off a broker; see ports.TaskSender."""
        try:
            self._rules.check_connection(connection)
        except RuleError as error:
            raise StepError(str(error), permanent=True) from None
        return self._links[connection].receive(self._answers, keep, limit=limit)

    def fetch_failure(self, connection: str | None, task_id: str) -> str | None:
        """Return why a task failed, if we know where its project stores that."""
        url = self._results.get(connection or "")
        if url is None:
            return None
        try:
            return fetch_failure(url, task_id, timeout_s=self._timeout_s)
        except (redis.RedisError, OSError) as error:
            return (
                "the log of its worker says why, for the results of"
                f" {self._links[connection].title} cannot be read: {describe(error)}"
            )

    @cached_property
    def _answers(self) -> str:
        """The queue where answers come, on each broker that tasks are sent to."""
        installation = self._read_installation()
        if installation is None:
            msg = "the database has no id of this installation. Run: minutehand migrate"
            raise PlatformError(msg)
        return find_answer_queue(self._prefix, installation)


def _split_by_exchange(tasks: Sequence[ForeignTask]) -> Iterator[list[ForeignTask]]:
    def find(task: ForeignTask) -> str:
        return task.exchange or ""

    for _exchange, group in groupby(sorted(tasks, key=find), find):
        yield list(group)


def _find_queue(
    rules_of_all: TaskRules,
    app: str | None,
    connection: str | None,
    exchange: str | None,
    queue: str | None,
) -> str | None:
    """Return the queue that is meant; RuleError if the settings forbid it."""
    rules = rules_of_all.of(app)
    rules.check_connection(connection)
    if exchange is None:
        queue = rules.read_queue(queue)
    else:
        rules.check_exchange(exchange)
        rules.check_that_it_has_exchanges(connection)
    rules.check_listed(connection, queue)
    return queue


class Link:
    """
    A broker, and one connection to it.

    Args:
        settings: Have the URL and the deadline.
        name: A name in ``MINUTEHAND_TASK_CONNECTIONS``. None: our own broker.
    """

    def __init__(self, settings: Settings, name: str | None) -> None:
        """Open nothing yet."""
        url = settings.broker_url if name is None else settings.task_connections[name]
        self.title = "our broker" if name is None else f"connection {name!r}"
        config = make_config(settings.model_copy(update={"broker_url": url}))
        # It can reach the broker, and has nothing else of ours.
        app = Celery("minutehand-tasks", set_as_current=False)
        app.conf.update({key: config[key] for key in _OF_A_CONNECTION})
        ours = app.conf.broker_transport_options
        # Their workers look for a message where its priority puts it.
        ours.pop("priority_steps", None)
        rules = settings.task_rules.get(name or "")
        theirs = {} if rules is None else rules.transport_options
        app.conf.broker_transport_options = {**theirs, **ours}
        self._link = BrokerLink(app, settings.broker_timeout.total_seconds())
        self._lock = threading.Lock()
        self._queue: AnswerQueue | None = None
        self._forms: TaskForms | None = None
        self._is_declared = False
        self._most = settings.task_queue_max
        #: How many more a queue takes, and until when that is believed.
        self._room: dict[str, tuple[float, int]] = {}

    def send(self, tasks: Sequence[ForeignTask], answers: str | None = None) -> NotSent:
        """
        Send *tasks* over the open connection, or over a new one.

        Args:
            tasks: To send.
            answers: The queue for the answers. None: nobody waits for one.

        Raises:
            PlatformError: The broker was away, or did not answer in time.
            StepError: Temporary: the broker answers, but refuses.
        """
        with self._lock:
            try:
                return self._call(lambda: self._publish_all(tasks, answers))
            except self.errors as error:
                self._close()
                told = self._explain(error, tasks[0])
                if isinstance(error, self._link.absence):
                    raise PlatformError(told) from error
                raise StepError(told, permanent=False) from error

    def receive(self, answers: str, keep: Keep, *, limit: int) -> int | None:
        """
        Give *keep* what is in the queue *answers*, and take it off.

        Returns:
            How many these were. None: another reader is at it.

        Raises:
            PlatformError: The broker was away, or did not answer in time.
        """

        def take() -> int | None:
            if self._queue is None:
                self._queue = open_answers(self._link.connection, answers)
            return None if self._queue is None else self._queue.take(keep, limit=limit)

        with self._lock:
            try:
                return self._call(take, _HEARTBEAT_S)
            except self.errors as error:
                self._close()
                told = describe(error)
                msg = f"{self.title} does not give the answers of tasks: {told}"
                raise PlatformError(msg) from error
            except BaseException:
                self._close()  # what was not kept goes back into the queue
                raise

    def _call(self, use: Callable[[], _Result], heartbeat_s: float = 0) -> _Result:
        """Return what *use* does with the open connection, or with a new one."""
        if self._link.connection is not None:
            # The broker may have closed an idle one. Then the same is done again: tasks
            # are sent under the same ids.
            with suppress(*self.errors):
                return use()
            self._close()
        self._link.open(heartbeat_s)
        return use()

    @contextmanager
    def connecting(self) -> Iterator[tuple[Celery, Any]]:
        """Give an application and a connection to this broker, for the block."""
        with self._lock:
            try:
                yield self._link.app, self._link.open()
            finally:
                self._close()

    @property
    def errors(self) -> tuple[type[BaseException], ...]:
        """Errors that a call to this broker may raise."""
        return self._link.errors

    def _hold_back(self, tasks: Sequence[ForeignTask]) -> dict[str, str]:
        """Return those whose queues are full, and why; count in the others."""
        held: dict[str, str] = {}
        for queue, count in Counter(task.queue for task in tasks).items():
            if queue is None:
                continue
            until, room = self._find_room(queue)
            self._room[queue] = until, room - min(count, max(room, 0))
            if count > room:
                many = format_count(self._most, "message", "messages")
                why = (
                    f"queue {queue} ({self.title}) holds {many} or more, and takes no"
                    " more of ours (MINUTEHAND_TASK_QUEUE_MAX)"
                )
                to_it = [task.id for task in tasks if task.queue == queue]
                held |= dict.fromkeys(to_it[max(room, 0) :], why)
        return held

    def _find_room(self, queue: str) -> tuple[float, int]:
        now = time.monotonic()
        known = self._room.get(queue)
        if known is not None and now < known[0]:
            return known
        connection = self._link.connection
        size = None
        # RabbitMQ may forbid the question: then the queue counts as empty.
        with suppress(*connection.channel_errors):
            size = measure_queue(connection, queue)
        waiting = 0 if size is None else size.message_count
        return now + _BELIEVED_S, self._most - waiting

    def _publish_all(
        self, tasks: Sequence[ForeignTask], answers: str | None
    ) -> NotSent:
        connection = self._link.connection
        held = self._hold_back(tasks)
        tasks = [task for task in tasks if task.id not in held] if held else tasks
        if answers is not None and not self._is_declared:
            # Without it, RabbitMQ would drop an answer that finds no queue.
            declare_answers(connection, answers)
            self._is_declared = True
        if self._link.is_amqp:
            returned = self._link.publish_confirmed(
                tasks, lambda task: self._publish(task, answers)
            )
            lost = (each for each in tasks if each.id in returned)
            return NotSent({each.id: self._explain_return(each) for each in lost}, held)
        if self._forms is None:
            self._forms = TaskForms(connection.default_channel, self._publish)
        refused = self._forms.push(tasks, answers)
        for error in refused.values():
            if len(refused) == len(tasks) or isinstance(error, self._link.absence):
                raise error
        named = {task.id: task for task in tasks}
        return NotSent(
            {each: self._explain(refused[each], named[each]) for each in refused}, held
        )

    def _publish(self, task: ForeignTask, answers: str | None) -> None:
        app = self._link.app
        links: dict[str, Any] = {}
        if task.token is not None and answers is not None:
            links = make_links(task, answers)
        body = app.amqp.as_task_v2(
            task.id,
            task.name,
            args=list(task.args),
            kwargs=dict(task.kwargs),
            expires=None if task.expires_at is None else task.expires_at.isoformat(),
            time_limit=task.limits_s[0],
            soft_time_limit=task.limits_s[1],
            origin=anon_nodename(),
            **links,
        )
        # Celery would take an empty key, or a direct exchange, for the name of a queue.
        place: dict[str, Any] = (
            {"queue": KombuQueue(task.queue)}
            if task.exchange is None
            else {
                "exchange": task.exchange,
                "exchange_type": "topic",
                "routing_key": task.routing_key or "",
            }
        )
        if task.priority is not None:
            place["priority"] = task.priority
        app.amqp.send_task_message(
            app.amqp.Producer(self._link.connection, auto_declare=False),
            task.name,
            body,
            **place,
            headers=dict(task.headers),
            declare=[],
            retry=False,
            mandatory=True,
        )

    def _explain_return(self, task: ForeignTask) -> str:
        if task.exchange is not None:
            wrong = f"{task.place} leads to no queue"
            return f"{wrong} ({self.title}): bind it, or name a queue"
        return (
            f"{self.title} has no queue {task.queue!r}: start a worker that takes "
            f"it (celery worker -Q {task.queue}), or name another queue"
        )

    def _explain(self, error: BaseException, task: ForeignTask) -> str:
        code = getattr(error, "reply_code", None)
        if task.exchange is not None and code == _NOT_FOUND:
            wrong = f"{task.place} does not exist"
            return f"{wrong} ({self.title}): bind it, or name a queue"
        return f"{self.title} did not accept the task: {describe(error)}"

    def _close(self) -> None:
        self._queue = self._forms = None
        self._is_declared = False
        self._link.close()
