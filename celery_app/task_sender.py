"""
Send tasks of the users' own applications, each over the connection its action names.

A foreign queue is never declared: if it was declared with other arguments, RabbitMQ
would refuse and close the channel. The message goes to the queue of that name through
the default exchange, as Celery itself sends to a direct queue; if there is no such
queue, RabbitMQ returns the message, and the step says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import redis
from celery import Celery
from celery.exceptions import CeleryError
from celery.utils.nodenames import anon_nodename
from kombu import Queue as KombuQueue
from kombu.exceptions import KombuError, OperationalError

from celery_app.answer_queue import AnswerQueue, declare_answers, open_answers
from celery_app.app import make_config
from celery_app.routing import find_answer_queue
from celery_app.task_answers import make_links
from celery_app.task_results import fetch_failure
from models.errors import PlatformError, RuleError, StepError
from operations.foreign_tasks import Answer, ForeignTask
from settings import Settings

#: Errors that a connection may raise, besides those of its transport.
_ERRORS = (KombuError, CeleryError, OSError)

#: AMQP's code for a message that found no queue.
_NO_ROUTE = 312

#: AMQP's code for an exchange that does not exist.
_NOT_FOUND = 404


#: The part of our configuration that says how to reach a broker; nothing about queues.
_OF_A_CONNECTION = (
    "broker_url",
    "broker_transport",
    "broker_use_ssl",
    "broker_connection_timeout",
    "broker_transport_options",
)


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
        self._rules = settings.task_rules
        self._prefix = settings.queue_prefix
        self._results = settings.task_results
        self._timeout_s = settings.broker_timeout.total_seconds()
        self._read_installation = read_installation
        self._links: dict[str | None, Link] = {None: Link(settings, None)}
        for name in settings.task_connections:
            self._links[name] = Link(settings, name)

    def send(self, task: ForeignTask) -> ForeignTask:
        """Send *task*; return it with its queue."""
        try:
            # Checked again: the settings may have changed since the action was posted.
            self._rules.check_connection(task.connection)
            if task.exchange is None:
                task = replace(task, queue=self._rules.read_queue(task.queue))
            else:
                self._rules.check_exchange(task.exchange)
                self._rules.check_that_it_has_exchanges(task.connection)
        except RuleError as error:
            raise StepError(str(error), permanent=True) from None
        answers = None if task.token is None else self._answers
        self._links[task.connection].send(task, answers)
        return task

    def receive(
        self,
        connection: str | None,
        keep: Callable[[Sequence[Answer]], object],
        *,
        limit: int,
    ) -> int:
        """Take answers off a broker; see ports.TaskSender."""
        try:
            self._rules.check_connection(connection)
        except RuleError as error:
            raise StepError(str(error), permanent=True) from None
        return self._links[connection].receive(self._answers, keep, limit=limit)

    def fetch_failure(self, connection: str | None, task_id: str) -> str | None:
        """Return why a task failed, if we know where its project stores that."""
        url = None if connection is None else self._results.get(connection)
        if url is None:
            return None
        try:
            return fetch_failure(url, task_id, timeout_s=self._timeout_s)
        except (redis.RedisError, OSError) as error:
            said = str(error).strip() or type(error).__name__
            return (
                "the log of its worker says why, for the results of connection"
                f" {connection!r} cannot be read: {said}"
            )

    @cached_property
    def _answers(self) -> str:
        """The queue where answers come, on each broker that tasks are sent to."""
        installation = self._read_installation()
        if installation is None:
            msg = "the database has no id of this installation. Run: minutehand migrate"
            raise PlatformError(msg)
        return find_answer_queue(self._prefix, installation)


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
        self.timeout_s = settings.broker_timeout.total_seconds()
        self._settings = settings
        # kombu tries the other nodes of a cluster only if it may retry for ever.
        self._urls = url.split(";")
        self._lock = threading.Lock()
        self._open: tuple[Celery, Any] | None = None
        self._queue: AnswerQueue | None = None

    def send(self, task: ForeignTask, answers: str | None = None) -> None:
        """
        Send *task* over the open connection, or over a new one.

        Args:
            task: To send.

            answers: The queue for the answer. None: nobody waits for one.

        Raises:
            PlatformError: The broker was away, or did not answer in time.

            StepError: Temporary: the broker answers, but has no such queue.
        """
        with self._lock:
            if self._open is not None:
                # The broker may have closed an idle connection. Then the task is sent
                # again on a new one, under the same id.
                with suppress(*self.errors):
                    self._publish(*self._open, task, answers)
                    return
                self._close()
            try:
                self._publish(*self._connect(), task, answers)
            except self.errors as error:
                self._close()
                told = self._explain(error, task)
                if isinstance(error, self._absence):
                    raise PlatformError(told) from error
                raise StepError(told, permanent=False) from error

    def receive(
        self, answers: str, keep: Callable[[Sequence[Answer]], object], *, limit: int
    ) -> int:
        """
        Give *keep* what is in the queue *answers*, and take it off.

        Raises:
            PlatformError: The broker was away, or did not answer in time.
        """
        with self._lock:
            try:
                if self._open is not None:
                    # The broker may have closed an idle connection.
                    with suppress(*self.errors):
                        return self._take(answers, keep, limit=limit)
                    self._close()
                self._connect()
                return self._take(answers, keep, limit=limit)
            except self.errors as error:
                self._close()
                said = str(error).strip() or type(error).__name__
                msg = f"{self.title} does not give the answers of tasks: {said}"
                raise PlatformError(msg) from error
            except BaseException:
                self._close()  # what was not kept goes back into the queue
                raise

    def _take(
        self, answers: str, keep: Callable[[Sequence[Answer]], object], *, limit: int
    ) -> int:
        assert self._open is not None  # by the caller
        if self._queue is None:
            self._queue = open_answers(self._open[1], answers)
        return self._queue.take(keep, limit=limit)

    @contextmanager
    def connecting(self) -> Iterator[tuple[Celery, Any]]:
        """Give an application and a connection to this broker, for the block."""
        with self._lock:
            try:
                yield self._connect()
            finally:
                self._close()

    @cached_property
    def errors(self) -> tuple[type[BaseException], ...]:
        """Errors that a call to this broker may raise."""
        connection = self._make_app(self._urls[0]).connection_for_write()
        return (*_ERRORS, *connection.connection_errors, *connection.channel_errors)

    @cached_property
    def _absence(self) -> tuple[type[BaseException], ...]:
        """Errors that mean that the broker is away, whatever the call was."""
        connection = self._make_app(self._urls[0]).connection_for_write()
        return (OperationalError, OSError, *connection.connection_errors)

    def _make_app(self, url: str) -> Celery:
        """Return an application that can reach *url*, and has nothing else of ours."""
        config = make_config(self._settings.model_copy(update={"broker_url": url}))
        app = Celery("minutehand-tasks", set_as_current=False)
        app.conf.update({key: config[key] for key in _OF_A_CONNECTION})
        # Their workers look for a message where its priority puts it.
        app.conf.broker_transport_options.pop("priority_steps", None)
        return app

    def _connect(self) -> tuple[Celery, Any]:
        """Connect to the first server that answers."""
        for n, url in enumerate(self._urls, 1):
            app = self._make_app(url)
            connection = app.connection_for_write(connect_timeout=self.timeout_s)
            self._open = app, connection
            try:
                connection.ensure_connection(max_retries=0, timeout=self.timeout_s)
            except self.errors:
                if n == len(self._urls):
                    raise
                self._close()
            else:
                break
        assert self._open is not None  # there is at least one URL
        return self._open

    def _publish(
        self, app: Celery, connection: Any, task: ForeignTask, answers: str | None
    ) -> None:
        links: dict[str, Any] = {}
        if answers is not None:
            # Otherwise RabbitMQ would drop an answer that finds no queue.
            declare_answers(connection, answers)
            links = make_links(task, answers)
        body = app.amqp.as_task_v2(
            task.id,
            task.name,
            args=list(task.args),
            kwargs=dict(task.kwargs),
            expires=None if task.expires_at is None else task.expires_at.isoformat(),
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
            app.amqp.Producer(connection, auto_declare=False),
            task.name,
            body,
            **place,
            headers=dict(task.headers),
            declare=[],
            retry=False,
            mandatory=True,
        )

    def _explain(self, error: BaseException, task: ForeignTask) -> str:
        code = getattr(error, "reply_code", None)
        if task.exchange is not None and code in {_NO_ROUTE, _NOT_FOUND}:
            wrong = "does not exist" if code == _NOT_FOUND else "leads to no queue"
            return f"{task.place} {wrong} ({self.title}): bind it, or name a queue"
        if code == _NO_ROUTE:
            return (
                f"{self.title} has no queue {task.queue!r}: start a worker that takes "
                f"it (celery worker -Q {task.queue}), or name another queue"
            )
        said = str(error).strip() or type(error).__name__
        return f"{self.title} did not accept the task: {said}"

    def _close(self) -> None:
        if self._open is None:
            return
        (_, connection), self._open = self._open, None
        self._queue = None
        with suppress(*self.errors):
            connection.collect(socket_timeout=0.1)
