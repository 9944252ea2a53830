"""
Tasks of the users' own Celery applications. Pure.

What each is given and told of its operation, and the token by which its end comes back.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from pydantic import JsonValue

import tracing
from models.errors import RuleError, StepError
from models.fields.duration import parse_elapsed
from models.fields.placeholders import PLACEHOLDERS, fill
from models.occurrence import write_uuid
from models.operation_state import Trigger
from models.run_task import OUR_HEADERS, RunTaskModel, write_given

#: The end of an operation's attempt, as ``make_token`` writes it.
_TOKEN = re.compile(r"([0-9a-f-]{36})\.([0-9]{1,9})\.([0-9a-f]{32})", re.ASCII)


def make_token(secret: str, operation_id: UUID, attempt: int) -> str:
    """
    Return what an answer must bring that is to end *operation_id*.

    Args:
        secret: Of the installation, at most 64 bytes.
        operation_id: Whose task it is.
        attempt: In which it is sent, from 1; an answer to a former one does not count.
    """
    said = f"{operation_id}.{attempt}"
    signed = _key(secret).copy()
    signed.update(said.encode())
    return f"{said}.{signed.hexdigest()}"


@lru_cache(maxsize=8)
def _key(secret: str) -> blake2b:
    # Keyed BLAKE2 (RFC 7693): HMAC would take a twentieth of the time of a tick.
    return blake2b(key=secret.encode(), digest_size=16)


def read_token(secret: str, token: str) -> tuple[UUID, int] | None:
    """
    Return the operation and the attempt of *token*; None if it is not one of ours.

    >>> nobody = UUID(int=0)
    >>> read_token("ours", make_token("ours", nobody, 2)) == (nobody, 2)
    True
    >>> read_token("ours", make_token("theirs", nobody, 2)) is None
    True
    """
    found = _TOKEN.fullmatch(token)
    if found is None:
        return None
    try:
        operation_id, attempt = UUID(found[1]), int(found[2])
    except ValueError:
        return None
    wanted = make_token(secret, operation_id, attempt)
    return (operation_id, attempt) if hmac.compare_digest(wanted, token) else None


class ForeignTask(NamedTuple):
    """
    A task to be sent; thousands are made in a tick.

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
        limits_s: Seconds after which its worker kills it, and after which it is told
            before. None: as its worker has it.
        headers: Of the message, besides Celery's own.
        app: Small app whose action asks for it. None: nobody's.
        token: Comes back with the answer that tells how the task ended. None: nobody
            waits for one.
        with_value: Whether the answer has what the task returned.
        written: The args and kwargs as JSON. None: nobody has written them yet.
    """

    name: str
    id: str
    args: Sequence[JsonValue] = ()
    kwargs: Mapping[str, JsonValue] = {}
    queue: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    connection: str | None = None
    priority: int | None = None
    expires_at: datetime | None = None
    limits_s: tuple[float | None, float | None] = (None, None)
    headers: Mapping[str, JsonValue] = {}
    app: str | None = None
    token: str | None = None
    with_value: bool = True
    written: str | None = None

    @property
    def given(self) -> str:
        """Args and kwargs as JSON."""
        return self.written or write_given(self.args, self.kwargs)

    @property
    def place(self) -> str:
        """Where it goes, for people."""
        if self.exchange is None:
            return f"queue {self.queue}"
        return f"exchange {self.exchange} with key {self.routing_key or ''!r}"

    def in_trace(self, place: tracing.TracePlace | None) -> ForeignTask:
        """Return the task as a part of the span at *place*; None: it is not traced."""
        if place is None:
            return self
        # A trace of theirs, which the action names, counts more.
        return self._replace(headers={tracing.HEADER: place.write(), **self.headers})

    def describe(self) -> dict[str, JsonValue]:
        """Return where it was sent, for the result of the step."""
        place: dict[str, JsonValue] = (
            {"queue": self.queue}
            if self.exchange is None
            else {"exchange": self.exchange, "routing_key": self.routing_key or ""}
        )
        return {
            "task_id": self.id,
            "name": self.name,
            **place,
            "connection": self.connection,
        }


# -- what it is given ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskOccasion:
    """
    Which operation runs, and for whom.

    Args:
        operation_id: Also the Celery task id.
        app: Uid of the small app; action_uid and action_name are the action's.
        occurrence: Aware UTC. None: a manual run.
        scheduled_for: Aware UTC: the occurrence; of a manual run, when it was recorded.
        trigger: What made the operation.
        user_id: The triggering user. None: no user triggered the operation.
        event: Name of the event, which happened at event_at (aware UTC). None: none.
        attempt: Number of the attempt, from 1.
        now: Aware UTC, the database's clock when the step began.
    """

    operation_id: UUID
    app: str
    action_uid: str
    action_name: str
    occurrence: datetime | None
    scheduled_for: datetime
    trigger: Trigger
    user_id: str | None
    event: str | None
    event_at: datetime | None
    attempt: int
    now: datetime


def make_task_id(operation_id: UUID) -> str:
    """Return the id of the user's task, which is the same in every attempt."""
    return write_uuid(f"{operation_id} | run_task")


def make_values(occasion: TaskOccasion) -> dict[str, JsonValue]:
    """Return what placeholders stand for, the same in each attempt."""
    scheduled_for = _write(occasion.scheduled_for)
    return {
        "occurrence": None if occasion.occurrence is None else scheduled_for,
        "scheduled_for": scheduled_for,
        "operation.id": str(occasion.operation_id),
        "operation.trigger": str(occasion.trigger),
        "action.uid": occasion.action_uid,
        "action.name": occasion.action_name,
        "app.uid": occasion.app,
        "user.id": occasion.user_id,
        "event.name": occasion.event,
        "event.at": _write(occasion.event_at),
    }


#: Placeholders that need a look into the directory.
LOOKED_UP = ("app.name", "user.email", "user.name", "user.locale")

#: Our headers of a task's message: ``minutehand-operation-id`` and so on.
_HEADERS = {
    name: OUR_HEADERS + name.replace(".", "-").replace("_", "-")
    for name in (*PLACEHOLDERS, "attempt")
}


def name_task(operation_id: UUID, asked: RunTaskModel) -> ForeignTask:
    """Return the task that *asked* means, whoever it is for."""
    return outline_task(asked)._replace(id=make_task_id(operation_id))


def outline_task(asked: RunTaskModel) -> ForeignTask:
    """Return what all tasks that *asked* means have in common."""
    return ForeignTask(
        **{name: getattr(asked, name) for name in _AS_ASKED},
        id="",
        limits_s=(_read_limit(asked.time_limit), _read_limit(asked.soft_time_limit)),
        with_value=asked.returned,
        written=asked.given,
    )


#: What a task has as it was asked for.
_AS_ASKED = (
    *("name", "args", "kwargs", "headers", "queue", "exchange", "routing_key"),
    *("connection", "priority"),
)


def make_task(
    occasion: TaskOccasion,
    asked: RunTaskModel,
    looked_up: Mapping[str, JsonValue],
    *,
    token: str | None = None,
    outline: ForeignTask | None = None,
) -> ForeignTask:
    """
    Return the task that *asked* means on this *occasion*.

    Args:
        occasion: When, and for whom.
        asked: By the action.
        looked_up: Values of the placeholders that need a look into the directory; those
            that nothing asks for may be missing.
        token: For its answer. None: nobody waits for one.
        outline: ``outline_task`` of *asked*, if it is at hand.

    Raises:
        StepError: Permanent: a text has a placeholder that has no value.
    """
    own = make_values(occasion)
    task = outline_task(asked) if outline is None else outline
    if not asked.is_constant:
        values = {**own, **looked_up}
        given: Any = asked.args, asked.kwargs, asked.headers
        try:
            filled: list[Any] = [fill(each, values) for each in given]
        except RuleError as error:
            raise StepError(str(error), permanent=True) from None
        args, kwargs, headers = filled
        written = write_given(args, kwargs)
        task = task._replace(args=args, kwargs=kwargs, headers=headers, written=written)
    told = {**task.headers, **{_HEADERS[name]: value for name, value in own.items()}}
    told[_HEADERS["attempt"]] = occasion.attempt
    expires = asked.expires
    return task._replace(
        id=make_task_id(occasion.operation_id),
        expires_at=None if expires is None else occasion.now + parse_elapsed(expires),
        headers={key: value for key, value in told.items() if value is not None},
        app=occasion.app,
        token=token,
    )


def _read_limit(text: str | None) -> float | None:
    return None if text is None else parse_elapsed(text).total_seconds()


@lru_cache(maxsize=1024)
def _write(at: datetime | None) -> str | None:
    """Write an instant; cached, since many tasks of a tick share one."""
    return None if at is None else at.astimezone(UTC).isoformat()


# -- how its end comes back ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """
    What a worker of the user's told of the end of a task.

    Args:
        token: That went with the task; anybody may have written it.
        succeeded: Whether it ended well; a failure is the last, after its own retries.
        returned: What it returned, within bounds.
        note: What else there is to say, such as that a value was cut. None: nothing.
    """

    token: str
    succeeded: bool
    returned: JsonValue = None
    note: str | None = None


#: Is given answers; returns the tokens of those to leave where they are, if any.
Keep = Callable[[Sequence[TaskAnswer]], Collection[str] | None]


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

    def receive(self, connection: str | None, keep: Keep, *, limit: int) -> int | None:
        """
        Take answers to tasks off a broker, at most *limit*.

        Args:
            connection: Its name. None: our own broker.
            keep: Is given the answers; they are taken off when this returns, but for
                those to leave. Others may be given the same ones.
            limit: How many messages at most; there are fewer if they are large.

        Returns:
            How many these were, also those that are no answers. 0: all that was there
            has been given; what was left then comes again. None: another reader is at
            it, and may hold what is not seen here.

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
