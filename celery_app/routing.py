"""
Which task and which queue carry an operation. Names are explicit and never change.

If task names were derived from module paths, messages under way would be orphaned
whenever a file is moved. On the broker, all our names have a prefix: others may use the
same broker, and half of all Celery projects have a queue called celery.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from celery.app import amqp
from kombu import Exchange
from kombu import Queue as KombuQueue
from kombu.utils.functional import maybe_list

from models.fields.task_rules import ANSWERS_WITHOUT_PREFIX
from models.operation_state import LANES, WORKER_QUEUES, Queue

EXECUTE_SCHEDULED_ACTION = "execute_scheduled_action"
EXECUTE_SCHEDULED_ACTION_QUICK = "execute_scheduled_action_quick"

#: The task of the scheduler's own maintenance, on Celery's default queue. Its
#: name is the original's: docs/origin.md.
metatask_schedule = "metatask_schedule"

#: Header of a message: which installation sent it (operations/fleet/processes.py).
INSTALLATION_HEADER = "installation"

TASK_OF_QUEUE = {
    Queue.HEAVY: EXECUTE_SCHEDULED_ACTION,
    Queue.QUICK: EXECUTE_SCHEDULED_ACTION_QUICK,
    Queue.DEFAULT: metatask_schedule,
}


#: Exchanges of remote control and monitoring. Without a prefix they have the names
#: that Celery gives them.
_CONTROL_EXCHANGE = "celery"
_EVENT_EXCHANGE = "celeryev"


def find_broker_names(queue: Queue, prefix: str) -> tuple[str, ...]:
    """
    Return the names on the broker that make up *queue*.

    Args:
        queue: The queue as people name it.
        prefix: ``MINUTEHAND_QUEUE_PREFIX``; empty: no prefix.

    Returns:
        The name of each of its lanes; a worker that takes *queue* takes all of them.
    """
    name = f"{prefix}.{queue.value}" if prefix else queue.value
    return name, *(f"{name}.behind-{lane}" for lane in range(1, LANES[queue]))


def find_answer_queue(prefix: str, installation: str) -> str:
    """
    Return the queue where the answers of users' own tasks come, on whatever broker.

    Args:
        prefix: As above. The name has one in any case, by which ``TaskRules`` knows it.
        installation: Its id: of several with the same prefix, each has its own queue.
    """
    return f"{prefix or ANSWERS_WITHOUT_PREFIX}.answers.{installation}"


def find_aside_queue(prefix: str) -> str:
    """Return the queue of what no worker could read (aside.py); it has a prefix too."""
    return f"{prefix or ANSWERS_WITHOUT_PREFIX}.aside"


def make_names(prefix: str) -> dict[str, Any]:
    """Return Celery's settings for the names of its own objects on the broker."""
    events = f"{prefix}.events" if prefix else _EVENT_EXCHANGE
    return {
        "task_default_queue": find_broker_names(Queue.DEFAULT, prefix)[0],
        "control_exchange": prefix or _CONTROL_EXCHANGE,
        "event_exchange": events,
        "event_queue_prefix": events,
        "aside_queue": find_aside_queue(prefix),  # ours, not Celery's
    }


def make_queues(
    *, prefix: str, quorum: bool, acknowledged_within: timedelta | None
) -> list[KombuQueue]:
    """
    Return our queues as Celery declares them; the alias of each is our name for it.

    Args:
        prefix: Begins their names and those of their exchanges; empty: no prefix.
        quorum: Whether they are replicated quorum queues; RabbitMQ only.
        acknowledged_within: How long a worker may keep a message unacknowledged before
            RabbitMQ (since 3.11.15) closes its channel. None: the server's own limit,
            30 minutes by default.
    """
    arguments = {"x-queue-type": "quorum"} if quorum else None
    # An argument of the consumer: an existing queue cannot be declared with a new one.
    consumer_arguments = None
    if acknowledged_within is not None:
        milliseconds = int(acknowledged_within.total_seconds() * 1000)
        consumer_arguments = {"x-consumer-timeout": milliseconds}
    return [
        KombuQueue(
            name,
            Exchange(name, type="direct"),
            routing_key=name,
            alias=queue.value,
            queue_arguments=arguments,
            consumer_arguments=consumer_arguments,
        )
        for queue in WORKER_QUEUES
        for name in find_broker_names(queue, prefix)
    ]


class Queues(amqp.Queues):  # type: ignore[misc]  # Celery has no type hints
    """
    Our queues, by name and by alias; no other queue is consumed.

    Celery would declare and consume any other queue that is asked for: one with a typo
    in its name, or, for a word such as celery, somebody else's.
    """

    def __setitem__(self, name: str, queue: Any) -> None:
        """Add *queue*; if several have the same alias, it means the first."""
        first = self.aliases.get(queue.alias)
        super().__setitem__(name, queue)
        if first is not None and first.name != name:
            self.aliases[queue.alias] = first

    def find_ours(self, word: str) -> list[Any]:
        """Return the lanes of the queue that *word* names, by its alias or a lane."""
        ours = [queue for queue in self.values() if queue.alias]
        meant = {queue.alias for queue in ours if word in (queue.alias, queue.name)}
        return [queue for queue in ours if queue.alias in meant]

    def select(self, include: str | Iterable[str] | None) -> None:
        """
        Let a worker consume *include*; None: all queues.

        Raises:
            KeyError: One of them is not ours.
        """
        if include:
            super().select(self._find_names(include))

    def deselect(self, exclude: str | Iterable[str] | None) -> None:
        """
        Let a worker not consume *exclude*.

        Raises:
            KeyError: One of them is not ours.
        """
        if exclude:
            super().deselect(self._find_names(exclude))

    def _find_names(self, words: str | Iterable[str]) -> list[str]:
        names: list[str] = []
        for word in maybe_list(words):
            found = self.find_ours(word)
            if not found:
                raise KeyError(word)
            names += [queue.name for queue in found]
        return names


class Amqp(amqp.AMQP):  # type: ignore[misc]  # as above
    """Celery's AMQP, with our class of queues."""

    queues_cls = Queues
