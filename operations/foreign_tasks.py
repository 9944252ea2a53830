"""Tasks of the users' own Celery applications, and how their end comes back. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from pydantic import JsonValue

#: How long after a deadline answers are still looked for: until then, a broker that
#: cannot be read keeps an operation from being judged; later ones change nothing.
LISTEN_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ForeignTask:
    """
    A task to be sent.

    Args:
        name: As its application has registered it.

        id: Of the task.

        queue: A queue of that application. None: ``MINUTEHAND_TASK_QUEUE``, unless
            there is an exchange.

        exchange: Of RabbitMQ, instead of a queue.

        routing_key: For the exchange.

        connection: Name of the broker's connection. None: our own broker.

        priority: As for Celery. None: none is sent.

        expires_at: Aware UTC; a worker that takes the task later drops it. None: never.

        headers: Of the message, besides Celery's own.

        token: Comes back with the answer that tells how the task ended. None: nobody
            waits for one.

        with_value: Whether the answer has what the task returned.
    """

    name: str
    id: str
    args: Sequence[JsonValue] = ()
    kwargs: Mapping[str, JsonValue] = field(default_factory=dict)
    queue: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    connection: str | None = None
    priority: int | None = None
    expires_at: datetime | None = None
    headers: Mapping[str, JsonValue] = field(default_factory=dict)
    token: UUID | None = None
    with_value: bool = True

    @property
    def place(self) -> str:
        """Where it goes, for people."""
        if self.exchange is None:
            return f"queue {self.queue}"
        return f"exchange {self.exchange} with key {self.routing_key or ''!r}"


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What a worker of the user's told of the end of a task.

    Args:
        token: That went with the task.

        succeeded: Whether it ended well; a failure is the last, after its own retries.

        returned: What it returned, within bounds.

        note: What else there is to say, such as that a value was cut. None: nothing.
    """

    token: UUID
    succeeded: bool
    returned: JsonValue = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """
    What an operation waits for.

    Args:
        token: Goes with the task, and comes back.

        deadline: Aware UTC; whoever looks later waits no longer.

        is_over: Whether the deadline has passed.

        is_sent: Whether the task was certainly sent.

        answer: How it ended. None: nobody has told.

        remark: Why perhaps nobody will; empty: nothing is wrong. None: nobody looked.
    """

    token: UUID
    deadline: datetime
    is_over: bool
    is_sent: bool
    answer: Answer | None
    remark: str | None


class TaskSender(Protocol):
    """Sends tasks of the users' own Celery applications."""

    def send(self, task: ForeignTask) -> ForeignTask:
        """
        Send *task*.

        Returns:
            The task as it was sent: with the queue of the settings if it named none.

        Raises:
            StepError: Temporary: the broker did not accept it in time, or has no such
                queue. Permanent: the settings forbid this queue or connection.
        """

    def receive(
        self,
        connection: str | None,
        keep: Callable[[Sequence[Answer]], object],
        *,
        limit: int,
    ) -> int:
        """
        Take answers to tasks off a broker, at most *limit*.

        Args:
            connection: Its name. None: our own broker.

            keep: Is given the answers; they are taken off when this returns. Others may
                be given the same ones.

            limit: How many messages at most; there are fewer if they are large.

        Returns:
            How many were taken, also those that are no answers.

        Raises:
            StepError: The broker does not give them, for now or for good.
        """

    def fetch_failure(self, connection: str | None, task_id: str) -> str | None:
        """
        Return why a task failed, in a line, within a deadline; None: nobody can tell.

        Args:
            connection: Over which it was sent.

            task_id: Its id.
        """


class Waits(Protocol):
    """What a step waits for while no worker is held."""

    def fetch(self) -> Wait | None:
        """Return what this step waits for; None: it has not begun to."""

    def begin(
        self, task: ForeignTask, within: timedelta, token: UUID | None = None
    ) -> Wait:
        """Commit that the end of *task* is waited for; *token* None: a new one."""

    def mark_sent(self) -> None:
        """Commit that the task was sent."""

    def keep(self, answers: Sequence[Answer]) -> None:
        """Commit *answers*, to whatever operations they are."""
