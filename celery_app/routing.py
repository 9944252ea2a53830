"""
Which task and queue carry which operation. Names are explicit and never change.

A task name derived from a module path would orphan the messages under way
whenever a file moved. On the broker all that is ours has a prefix of ours, for others
may be there, and half of all Celery projects have a queue called celery.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from celery.app import amqp
from kombu import Exchange
from kombu import Queue as KombuQueue
from kombu.utils.functional import maybe_list

from models.operation_state import LANES, Queue

EXECUTE_SCHEDULED_ACTION = "execute_scheduled_action"
EXECUTE_SCHEDULED_ACTION_QUICK = "execute_scheduled_action_quick"

#: The task of the scheduler's own maintenance, on Celery's default queue. Its
#: name is the original's: docs/origin.md.
metatask_schedule = "metatask_schedule"

#: Of a message: which installation it is of (operations/fleet/installation.py).
INSTALLATION_HEADER = "installation"

TASK_OF_QUEUE = {
    Queue.HEAVY: EXECUTE_SCHEDULED_ACTION,
    Queue.QUICK: EXECUTE_SCHEDULED_ACTION_QUICK,
    Queue.DEFAULT: metatask_schedule,
}


#: Beside the queues: what remote control and monitoring listen to. Without a prefix
#: they have the names that Celery gives them.
_CONTROL_EXCHANGE = "celery"
_EVENT_EXCHANGE = "celeryev"


def find_broker_names(queue: Queue, prefix: str) -> tuple[str, ...]:
    """
    Return what *queue* consists of on the broker.

    Args:
        queue: As people call it.

        prefix: Of the settings; empty: none.

    Returns:
        The name of each of its lanes; a worker that takes *queue* takes all of them.
    """
    name = f"{prefix}.{queue.value}" if prefix else queue.value
    return name, *(f"{name}.behind-{lane}" for lane in range(1, LANES[queue]))


def make_names(prefix: str) -> dict[str, Any]:
    """Return the names of Celery's own things on the broker, as it configures them."""
    events = f"{prefix}.events" if prefix else _EVENT_EXCHANGE
    return {
        "task_default_queue": find_broker_names(Queue.DEFAULT, prefix)[0],
        "control_exchange": prefix or _CONTROL_EXCHANGE,
        "event_exchange": events,
        "event_queue_prefix": events,
    }


def make_queues(
    *, prefix: str, quorum: bool, acknowledged_within: timedelta | None = None
) -> list[KombuQueue]:
    """
    Return our queues as Celery declares them; the alias of each is what people say.

    Args:
        prefix: Of their names and those of their exchanges; empty: none.

        quorum: Replicated quorum queues; RabbitMQ only.

        acknowledged_within: How long a worker may hold a message before RabbitMQ
            closes its channel; understood since 3.11.15. None: the server's own
            limit, of 30 minutes by default.
    """
    arguments = {"x-queue-type": "quorum"} if quorum else None
    # Of the consumer, not of the queue: a queue cannot be declared with another one.
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
        for queue in Queue
        for name in find_broker_names(queue, prefix)
    ]


class Queues(amqp.Queues):  # type: ignore[misc]  # Celery has no type hints
    """
    The queues by name and by what people call them; none but ours is consumed.

    Celery would declare, and consume, any other that is asked for: of a typo, or of a
    word such as celery, somebody else's.
    """

    def __setitem__(self, name: str, queue: Any) -> None:
        """Add *queue*; of several with one alias, the alias means the first."""
        first = self.aliases.get(queue.alias)
        super().__setitem__(name, queue)
        if first is not None and first.name != name:
            self.aliases[queue.alias] = first

    def find_ours(self, word: str) -> list[Any]:
        """Return the lanes of the queue that *word* means: an alias, or any name."""
        ours = [queue for queue in self.values() if queue.alias]
        meant = {queue.alias for queue in ours if word in (queue.alias, queue.name)}
        return [queue for queue in ours if queue.alias in meant]

    def select(self, include: str | Iterable[str] | None) -> None:
        """
        Let a worker consume *include*; None: all.

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
    """Celery's, with queues of ours."""

    queues_cls = Queues
