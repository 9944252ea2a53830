"""
Where tasks of the users' own may go: what an installation says of them. Pure.

The form of ``run_task`` is checked whoever reads it. What depends on the settings is
checked where an action is posted or previewed, for then its author is still there, and
once more by the worker, since settings change.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.errors import RuleError
from models.fields.strict_model import show, suggest
from models.operation_state import Queue

#: Where the rules stand in the context of a validation.
TASK_RULES = "task_rules"


@dataclass(frozen=True, slots=True)
class TaskRules:
    """
    What this installation says of tasks of the users' own.

    Args:
        own_prefix: What the names of our queues have before a dot on the broker; a task
            sent there would meet our workers, which do not know it. Empty: they have no
            more than what people call them.

        default_queue: Of tasks that name none. None: they must name one.

        connections: The names under which other brokers are known.

        has_broker: Whether our own broker reaches other processes; the one in memory
            does not.
    """

    own_prefix: str
    default_queue: str | None = None
    connections: tuple[str, ...] = ()
    has_broker: bool = True

    def read_queue(self, queue: str | None) -> str:
        """
        Return the queue that is meant by *queue*, which may be None.

        Raises:
            RuleError: There is none, or it is one of ours.
        """
        meant = self.default_queue if queue is None else queue
        if meant is None:
            msg = "'queue' is missing: on the default queue any worker may take a task."
            raise RuleError(
                msg,
                'Write the queue that workers of your project take, such as "queue": '
                '"reports" (Celery\'s own default is "celery").',
            )
        if self.is_own(meant):
            msg = f"{show(meant)} is a queue of Minutehand's own workers."
            raise RuleError(msg, 'Write one that yours take, such as "reports".')
        return meant

    def check_connection(self, connection: str | None) -> None:
        """
        Refuse a connection that is not known; None is our own broker.

        Raises:
            RuleError: It is not known, or our own broker ends at this process.
        """
        if connection in self.connections:
            return
        known = suggest(connection or "", self.connections) if self.connections else ""
        if connection is None:
            if self.has_broker:
                return
            msg = "The broker is memory://, which no worker of another project reaches."
        else:
            msg = f"{show(connection)} is not a connection of this installation."
        raise RuleError(
            msg,
            known or "An operator names connections in MINUTEHAND_TASK_CONNECTIONS.",
        )

    def is_own(self, queue: str) -> bool:
        """Tell whether *queue* is, or looks like, one that our workers take."""
        if self.own_prefix:
            return f"{queue}.".startswith(f"{self.own_prefix}.")
        return queue in set(Queue)
