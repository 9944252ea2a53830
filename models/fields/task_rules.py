"""
Where ``run_task`` may send tasks, as the installation allows. Pure.

The form of ``run_task`` is always checked. What depends on the settings is checked when
an action is posted or previewed, while its author is there to read the message, and
again by the worker, since settings change.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.errors import RuleError
from models.fields.strict_model import show, suggest
from models.operation_state import WORKER_QUEUES

#: The key of the rules in the context of a validation.
TASK_RULES = "task_rules"

#: What is said of a task without a connection if our own broker is in memory.
NO_BROKER = "The broker is memory://, which no worker of another project can reach."

#: Begins the name of the queue of answers if our other queues have no prefix.
ANSWERS_WITHOUT_PREFIX = "minutehand"


@dataclass(frozen=True, slots=True)
class TaskRules:
    """
    Where this installation lets ``run_task`` send tasks.

    Args:
        own_prefix: The prefix of our queues' names on the broker, before a dot. A task
            sent to such a queue would reach our workers, which do not know it. Empty:
            our queues have no prefix.
        default_queue: The queue of tasks that name none. None: they must name one.
        connections: The names of other brokers.
        has_broker: Whether our own broker reaches other processes; one in memory does
            not.
        with_exchanges: The connections that have exchanges: those to RabbitMQ. None in
            it is our own broker.
    """

    own_prefix: str
    default_queue: str | None = None
    connections: tuple[str, ...] = ()
    has_broker: bool = True
    with_exchanges: frozenset[str | None] = frozenset()

    def read_queue(self, queue: str | None) -> str:
        """
        Return *queue*, or the default queue if it is None.

        Raises:
            RuleError: If there is no default, or the queue is one of ours.
        """
        meant = self.default_queue if queue is None else queue
        if meant is None:
            msg = (
                "'queue' is missing: any worker may take a task from the default queue."
            )
            raise RuleError(
                msg,
                'Write the queue that workers of your project take, such as "queue": '
                '"reports" (Celery\'s own default is "celery").',
            )
        if self.is_own(meant):
            msg = f"{show(meant)} is a queue of Minutehand's own workers."
            raise RuleError(
                msg, 'Write a queue that your own workers take, such as "reports".'
            )
        return meant

    def check_connection(self, connection: str | None) -> None:
        """
        Refuse an unknown connection; None is our own broker.

        Raises:
            RuleError: If it is unknown, or is our own broker and that is in memory.
        """
        if connection in self.connections:
            return
        known = suggest(connection or "", self.connections) if self.connections else ""
        hint = "names connections in MINUTEHAND_TASK_CONNECTIONS."
        if connection is None:
            if self.has_broker:
                return
            msg = NO_BROKER
            hint = f"An operator sets MINUTEHAND_BROKER_URL, or {hint}"
        else:
            msg = f"{show(connection)} is not a connection of this installation."
            hint = f"An operator {hint}"
        raise RuleError(msg, known or hint)

    def check_exchange(self, exchange: str) -> None:
        """
        Refuse an exchange of ours, whose queues our own workers take.

        Raises:
            RuleError: It is one of ours.
        """
        if self.is_own(exchange):
            msg = f"{show(exchange)} is an exchange of Minutehand's own."
            raise RuleError(msg, "Write an exchange of your own project.")

    def check_that_it_has_exchanges(self, connection: str | None) -> None:
        """
        Refuse a connection that has no exchanges; None is our own broker.

        Raises:
            RuleError: It does not lead to RabbitMQ.
        """
        if connection in self.with_exchanges:
            return
        named = "Minutehand's own broker" if connection is None else show(connection)
        msg = f"{named} is not RabbitMQ, and only RabbitMQ has exchanges."
        hint = 'Leave out "exchange" and "routing_key", and name a queue.'
        raise RuleError(msg, hint)

    def is_own(self, queue: str) -> bool:
        """Tell whether *queue* is, or looks like, one that our workers consume."""
        if self.own_prefix:
            return f"{queue}.".startswith(f"{self.own_prefix}.")
        return queue in WORKER_QUEUES or queue.startswith(
            f"{ANSWERS_WITHOUT_PREFIX}.answers"
        )
