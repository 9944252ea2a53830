"""
Which task and queue carry which operation. Names are explicit and never change.

A task name derived from a module path would orphan the messages under way
whenever a file moved.
"""

from __future__ import annotations

from datetime import timedelta

from kombu import Exchange
from kombu import Queue as KombuQueue

from models.operation_state import Queue

EXECUTE_SCHEDULED_ACTION = "execute_scheduled_action"
EXECUTE_SCHEDULED_ACTION_QUICK = "execute_scheduled_action_quick"

#: The task of the scheduler's own maintenance, on Celery's default queue; the
#: original documentation gives it two workers at most.
metatask_schedule = "metatask_schedule"

TASK_OF_QUEUE = {
    Queue.HEAVY: EXECUTE_SCHEDULED_ACTION,
    Queue.QUICK: EXECUTE_SCHEDULED_ACTION_QUICK,
    Queue.DEFAULT: metatask_schedule,
}


def make_queues(
    *, quorum: bool, acknowledged_within: timedelta | None = None
) -> list[KombuQueue]:
    """
    Return the three queues as Celery declares them.

    Args:
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
            queue.value,
            Exchange(queue.value, type="direct"),
            routing_key=queue.value,
            queue_arguments=arguments,
            consumer_arguments=consumer_arguments,
        )
        for queue in Queue
    ]
