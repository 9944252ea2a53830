"""Tasks of the users' own Celery applications, as steps hand them over. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import JsonValue


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

    @property
    def place(self) -> str:
        """Where it goes, for people."""
        if self.exchange is None:
            return f"queue {self.queue}"
        return f"exchange {self.exchange} with key {self.routing_key or ''!r}"
