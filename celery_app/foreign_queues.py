"""
Find out whether anybody consumes the queues that ``run_task`` sends to, for doctor.

RabbitMQ knows the consumers of a queue. Redis does not, so there we ask the workers, as
``celery inspect active_queues`` does; workers without remote control do not answer, and
only answers in JSON are read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, NamedTuple
from uuid import uuid4

from celery import Celery
from kombu import Consumer
from kombu.exceptions import OperationalError

from actions.read_actions import TaskQueue
from celery_app.broker_link import describe, measure_queue
from celery_app.received import UnreadableError
from celery_app.task_sender import Link
from models.errors import RuleError
from models.units import format_count
from settings import Settings

#: How long workers have to answer, after the last that did; one that runs tasks in its
#: main thread may be late. And for how long answers are read at most.
_ANSWERS_WITHIN_S = 1.5
_LONGEST_S = 10.0

#: Unknown tasks that a message names.
_MOST_LISTED = 5


@dataclass(frozen=True, slots=True)
class QueueFinding:
    """
    The result of a look at one queue.

    Args:
        subject: The queue and its connection, in words.
        detail: What was found, and what to do.
        is_well: Whether somebody consumes the queue.
        is_reachable: Whether its broker answers at all.
    """

    subject: str
    detail: str
    is_well: bool
    is_reachable: bool = True


def look_at_task_queues(
    queues: Sequence[TaskQueue], settings: Settings
) -> list[QueueFinding]:
    """
    Return, for each of *queues*, whether a worker consumes it.

    Args:
        queues: Sorted by their connection.
        settings: Have the connections, and the deadline of each call.
    """
    found: list[QueueFinding] = []
    for name, group in groupby(queues, key=lambda each: each.connection):
        found += _look_at_connection(name, list(group), settings)
    return found


def _look_at_connection(
    name: str | None, queues: Sequence[TaskQueue], settings: Settings
) -> Iterator[QueueFinding]:
    rules = settings.make_task_rules()
    asked: dict[str, TaskQueue] = {}
    for each in queues:
        try:
            rules.check_connection(name)
            asked[rules.read_queue(each.queue)] = each
        except RuleError as error:
            # Its name in the detail alone: subjects are in support bundles.
            detail = f"{error} Such as the action {each.example!r}."
            yield QueueFinding("tasks", detail, is_well=False)
    if not asked:
        return
    link = Link(settings, name)
    try:
        with link.connecting() as (app, connection):
            workers = _ask_workers(app, connection)
            counts = {
                each: _count_consumers(
                    connection, measure_queue(connection, each), each, workers
                )
                for each in asked
            }
    except link.errors as error:
        said = str(error).strip().rstrip(".") or type(error).__name__
        setting = "BROKER_URL" if name is None else "TASK_CONNECTIONS"
        detail = f"{said}. Start the broker, or correct MINUTEHAND_{setting}."
        yield QueueFinding(link.title, detail, is_well=False, is_reachable=False)
        return
    for queue, each in asked.items():
        unknown = [task for task in each.senders if not workers.may_know(queue, task)]
        if unknown:
            yield QueueFinding(
                f"task queue {queue}",
                f"{_describe_unknown(link.title, queue, unknown)}, such as the action"
                f" {each.senders[unknown[0]]!r}{workers.note}",
                is_well=False,
            )
        else:
            found = _judge(link.title, queue, each, *counts[queue])
            note = "" if found.is_well else workers.note
            yield replace(found, detail=found.detail + note)


class Silence(NamedTuple):
    """
    Why tasks of one name that were sent to one place do not answer.

    Args:
        why: For all of them. None: nothing is known that would be.
        of: By their ids, of those that were asked for.
    """

    why: str | None = None
    of: Mapping[str, str | None] = {}


def describe_silence(
    settings: Settings,
    name: str | None,
    queue: str | None,
    task: str,
    ids: Collection[str],
) -> Silence:
    """
    Say why tasks that were sent do not answer, as far as their broker can tell.

    Args:
        settings: Have the connection, and the deadline of each call.
        name: Name of the connection. None: our own broker.
        queue: Where they were sent. None: to an exchange.
        task: Their name.
        ids: Of each.

    Returns:
        Nothing if nobody can tell. Of an exchange, nobody knows the queues: then any
        worker that knows *task* will do.
    """
    if name is not None and name not in settings.task_connections:
        gone = f"connection {name!r} is no longer in MINUTEHAND_TASK_CONNECTIONS"
        return Silence(gone)
    link = Link(settings, name)
    try:
        with link.connecting() as (app, connection):
            # First: of what leaves the queue meanwhile, a worker tells.
            size = None if queue is None else measure_queue(connection, queue)
            workers = _ask_workers(app, connection, ids)
            if queue is None:
                return Silence(_describe_exchange(workers, link.title, task))
            counts = _count_consumers(connection, size, queue, workers)
    except link.errors:
        return Silence()
    why = _describe_queue(workers, link.title, queue, task, *counts)
    if why is not None:
        return Silence(why)
    place = f"queue {queue} ({link.title})"
    return Silence(
        of={each: _describe_task(workers, place, queue, each, *counts) for each in ids}
    )


#: What a worker does with a task; scheduled is one that waits for its own time.
_HELD = {
    "active": "{} has begun it",
    "reserved": "{} holds it, behind others that it runs: its pool is full",
}


def _describe_task(
    workers: _Workers,
    place: str,
    queue: str,
    task_id: str,
    consumers: int | None,
    waiting: int | None,
) -> str | None:
    """Say where a task is that was sent to a queue whose workers know it."""
    for worker, held in workers.held.items():
        if task_id in held:
            said = _HELD.get(held[task_id])
            return said and said.format(worker)
    takers = workers.find_takers(queue)
    if workers.note or not takers <= workers.held.keys() or len(takers) != consumers:
        return None
    if waiting:
        left = format_count(waiting, "message waits", "messages wait")
        return f"no worker has begun it, and {left} in {place}: its workers are busy"
    return (
        f"no worker that answers has begun it, and {place} is empty: the message was"
        " lost, unless the task waits for its own retry or has replaced itself. To send"
        " it anew, cancel the operation, then retry it"
    )


def _describe_queue(
    workers: _Workers,
    title: str,
    queue: str,
    task: str,
    consumers: int | None,
    waiting: int | None,
) -> str | None:
    if consumers is None and workers.refusal:
        return None
    if not consumers:
        left = format_count(waiting or 0, "message waits", "messages wait")
        taken = f"takes queue {queue} ({title})" + (
            f", where {left}" if waiting else ""
        )
        return _doubt(taken, queue, consumers) + workers.note
    if not workers.may_know(queue, task):
        return _describe_unknown(title, queue, [task]) + workers.note
    return None


def _describe_exchange(workers: _Workers, title: str, task: str) -> str | None:
    if workers.refusal:
        return None
    if not workers.known:
        return (
            f"no worker answers ({title}). Start one that takes a queue to which the"
            f" exchange leads: celery -A PROJECT worker -Q QUEUE{workers.note}"
        )
    if any(task in names for names in workers.known.values()):
        return None
    return (
        f"no worker that answers ({title}) knows the task {task}: import its module"
        f" there, or correct the name{workers.note}"
    )


def _describe_unknown(title: str, queue: str, tasks: Sequence[str]) -> str:
    listed = ", ".join(tasks[:_MOST_LISTED])
    return (
        f"no worker that takes queue {queue} ({title}) knows the task {listed}: import"
        " its module there, or correct the name"
    )


@dataclass(frozen=True, slots=True)
class _Workers:
    """
    What the workers of a broker told.

    Args:
        taken: The queues of each.
        known: The tasks of each.
        held: What each does with those that were asked for by their ids.
        unread: Those whose answers are not read, as far as they can be named.
        refusal: Why the broker lets us not ask. Empty: it does.
    """

    taken: dict[str, list[str]] = field(default_factory=dict)
    known: dict[str, set[str]] = field(default_factory=dict)
    held: dict[str, dict[str, str]] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    refusal: str = ""

    def find_takers(self, queue: str) -> set[str]:
        """Return those that take *queue*."""
        return {name for name, queues in self.taken.items() if queue in queues}

    def may_know(self, queue: str, task: str) -> bool:
        """Tell whether a worker of *queue* knows *task*, or nobody can tell."""
        takers = self.find_takers(queue)
        told = [self.known[name] for name in takers & self.known.keys()]
        return not told or any(task in names for names in told)

    def learn(self, command: str, answers: Any) -> None:
        """Keep what was answered to *command*, if it is in the form that Celery has."""
        for worker, entries in answers.items():
            if command == "registered":
                # "name [rate_limit=10/m]": what is asked for stands behind the name
                self.known[worker] = {each.partition(" [")[0] for each in entries}
            elif command == "query_task":
                self.held[worker] = {key: each[0] for key, each in entries.items()}
            else:
                self.taken[worker] = [each["name"] for each in entries]

    @property
    def note(self) -> str:
        """Who else there is, to be said behind what the others did not tell."""
        if self.refusal:
            return f". Workers cannot be asked: {self.refusal}"
        if not self.unread:
            return "" if self.taken else _WITHOUT_JSON
        names = ", ".join(sorted(self.unread)[:_MOST_LISTED])
        return f". What {names} answers is not read: it is not JSON"


#: Why workers that run may not answer, nor do what they are sent.
_WITHOUT_JSON = (
    ". (One whose accept_content has no json drops what it is sent, and says so in its"
    " log alone)"
)

#: Names a worker in an answer of any kind, such as a pickle.
_NAME = re.compile(rb"[A-Za-z0-9_.-]+@[A-Za-z0-9_.-]+")


def _ask_workers(app: Celery, connection: Any, ids: Collection[str] = ()) -> _Workers:
    """
    Ask each worker for its queues and its tasks, unless the broker forbids that.

    And for what it does with those of these *ids*.
    """
    try:
        return _ask(app, connection, ids)
    except (OperationalError, *connection.channel_errors) as error:
        # kombu wraps what Redis says to a publisher
        if not isinstance(error.__cause__ or error, connection.channel_errors):
            raise
        return _Workers(refusal=describe(error))


def _ask(app: Celery, connection: Any, ids: Collection[str]) -> _Workers:
    """Ask as ``celery inspect`` does."""
    mailbox = app.control.mailbox(connection)
    channel = connection.default_channel
    asked: dict[str, dict[str, Any]] = {
        "active_queues": {},
        # with Celery's own, such as celery.backend_cleanup
        "registered": {"builtins": True},
        "query_task": {"ids": list(ids)},
    }
    tickets = {str(uuid4()): command for command in asked}
    workers = _Workers()

    def take(message: Any) -> None:
        command = tickets.get(message.headers.get("ticket"))
        if command is None:
            return
        try:
            workers.learn(command, message.decode())
        except (UnreadableError, AttributeError, LookupError, TypeError):
            named = _NAME.search(message.body)
            workers.unread.add("a worker" if named is None else named[0].decode())

    for ticket, command in tickets.items():
        mailbox._publish(  # noqa: SLF001 - what else it has reads whatever it is sent
            command,
            asked[command],
            reply_ticket=ticket,
            timeout=_ANSWERS_WITHIN_S,
            channel=channel,
        )
    queue = mailbox.reply_queue
    until = time.monotonic() + _LONGEST_S
    listening = Consumer(
        channel,
        [queue],
        no_ack=True,
        on_message=take,
        on_decode_error=lambda _message, _error: None,
    )
    try:
        with listening, suppress(TimeoutError):
            while time.monotonic() < until:
                connection.drain_events(timeout=_ANSWERS_WITHIN_S)
    finally:
        channel.after_reply_message_received(queue.name)
    return workers


def _judge(
    title: str, queue: str, asked: TaskQueue, consumers: int | None, waiting: int | None
) -> QueueFinding:
    subject = f"task queue {queue}"
    if consumers:
        workers = format_count(consumers, "consumer", "consumers")
        return QueueFinding(subject, f"{workers}, {title}", is_well=True)
    actions = format_count(asked.actions, "action sends", "actions send")
    there = "it does not exist" if waiting is None else f"{waiting:,} waiting"
    taken = f"takes it ({title}; {there}). {actions} to it, such as {asked.example!r}"
    return QueueFinding(subject, _doubt(taken, queue, consumers), is_well=False)


def _doubt(taken: str, queue: str, consumers: int | None) -> str:
    if consumers is None:
        return f"nobody can tell whether a worker {taken}"
    start = f"Start one: celery -A PROJECT worker -Q {queue}"
    return f"no worker that answers {taken}. {start}"


def _count_consumers(
    connection: Any, size: Any, queue: str, workers: _Workers
) -> tuple[int | None, int | None]:
    """
    Return how many consume *queue* of that *size*, and how many messages wait there.

    Returns:
        None for the consumers: nobody can tell; for the messages: no such queue.
    """
    if connection.transport.driver_type == "amqp":
        return (0, None) if size is None else (size.consumer_count, size.message_count)
    consumers = sum(taken.count(queue) for taken in workers.taken.values())
    told = consumers or (None if workers.unread or workers.refusal else 0)
    # Redis does not know an empty queue.
    return told, 0 if size is None else size.message_count
