"""
Where ``run_task`` may send tasks, as the installation allows. Pure.

The form of ``run_task`` is always checked. What depends on the settings is checked when
an action is posted or previewed, while its author is there to read the message, and
again by the worker, since settings change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from pydantic import ConfigDict, TypeAdapter, with_config

from models.errors import RuleError
from models.fields.field_types import AppOrAll
from models.fields.sql_connection import EVERY_APP
from models.fields.strict_model import read_setting, show, suggest
from models.operation_state import WORKER_QUEUES

#: The key of the rules in the context of a validation.
TASK_RULES = "task_rules"

#: What is said of a task without a connection if our own broker is in memory.
NO_BROKER = "The broker is memory://, which no worker of another project can reach."

#: Begins the name of the queue of answers if our other queues have no prefix.
ANSWERS_WITHOUT_PREFIX = "minutehand"


#: Names of queues in which transports keep what is theirs: bindings, questions to
#: workers and their answers, messages that were taken.
_OF_TRANSPORTS = ("_kombu.*", "*.pidbox", "*.reply.*", "unacked*", "amq.*")

#: Names of queues of another installation, as far as they can be told.
_OF_OTHERS = re.compile(r"minutehand(\..*)?|.*\.answers\.[0-9a-f]{8}-[0-9a-f-]{27}")

_EXAMPLE = (
    'Write {"shop": {"apps": ["shop"], "queues": ["reports", "mail.*"],'
    ' "transport_options": {"global_keyprefix": "shop:"}}}.'
)


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True)
class ConnectionRules:
    """
    Who may use a connection, for what, and how.

    Args:
        apps: Uids of small apps; ``*`` is any. None: any.
        queues: Names of queues, or patterns as of files. None: any.
        transport_options: As kombu calls them.
    """

    apps: list[AppOrAll] | None = None
    queues: list[str] | None = None
    transport_options: dict[str, Any] = field(default_factory=dict)

    @property
    def master(self) -> object:
        """What Sentinels call the Redis that is meant. None: nobody says."""
        return self.transport_options.get("master_name")

    def admits(self, app: str) -> bool:
        """Tell whether small app *app* may use it."""
        return self.apps is None or not {app, EVERY_APP}.isdisjoint(self.apps)


_ANYTHING = ConnectionRules()
_ADAPTER = TypeAdapter(dict[str, ConnectionRules])


def read_connection_rules(text: str) -> dict[str, ConnectionRules]:
    """
    Return the rules in a JSON object, by the names of connections; "" is our broker.

    Raises:
        RuleError: It is not such an object. The message has no value of an option.
    """
    return read_setting(_ADAPTER, text, _EXAMPLE)


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
        by_connection: Rules of some of the connections, by name; None as before.
        most_bytes: Of args and kwargs together, as JSON.
        app: Small app whose action it is. None: that does not matter.
    """

    own_prefix: str
    default_queue: str | None = None
    connections: tuple[str, ...] = ()
    has_broker: bool = True
    with_exchanges: frozenset[str | None] = frozenset()
    by_connection: Mapping[str | None, ConnectionRules] = field(default_factory=dict)
    most_bytes: int = 65_536
    app: str | None = None

    def of(self, app: str | None) -> TaskRules:
        """Return those for the actions of small app *app*."""
        return replace(self, app=app)

    def read_queue(self, queue: str | None) -> str:
        """
        Return *queue*, or the default queue if it is None.

        Raises:
            RuleError: If there is no default, or the queue is one of ours, of another
                installation, or of a transport.
        """
        meant = self.default_queue if queue is None else queue
        if meant is None:
            msg = (
                "'queue' is missing: any worker may take a task from the default queue."
            )
            hint = (
                'Write the queue that workers of your project take, such as "queue": '
            )
            raise RuleError(
                msg, f'{hint}"reports" (Celery\'s own default is "celery").'
            )
        wrong = ""
        if self.is_own(meant):
            wrong = "a queue of Minutehand's own workers"
        elif _OF_OTHERS.fullmatch(meant):
            wrong = "a queue of another installation of Minutehand"
        elif _matches(meant, _OF_TRANSPORTS):
            wrong = "a queue that Celery or the broker keeps for itself"
        if wrong:
            msg = f"{show(meant)} is {wrong}."
            raise RuleError(
                msg, 'Write a queue that your own workers take, such as "reports".'
            )
        return meant

    def check_listed(self, connection: str | None, queue: str | None) -> None:
        """
        Refuse a queue that the rules of its connection do not list.

        Args:
            connection: None: our own broker.
            queue: None: it goes to an exchange, whose queues nobody here knows.

        Raises:
            RuleError: They list others.
        """
        listed = self._find(connection).queues
        if listed is None or (queue and _matches(queue, listed)):
            return
        over = "" if connection is None else f" over {show(connection)}"
        given = "An exchange is" if queue is None else f"{show(queue)} is"
        msg = f"{given} not among the queues to which tasks may be sent{over}."
        raise RuleError(msg, f"Write one of: {', '.join(listed)}.")

    def check_size(self, given: str) -> None:
        """
        Refuse args and kwargs, as JSON, that are more than a message should carry.

        Raises:
            RuleError: Both together are too large.
        """
        if len(given) > self.most_bytes:
            msg = (
                f"Arguments take {len(given):,} bytes, of at most {self.most_bytes:,}."
            )
            hint = "Write where the data is, such as a key, and let the task read it."
            raise RuleError(msg, hint)

    def _find(self, connection: str | None) -> ConnectionRules:
        return self.by_connection.get(connection, _ANYTHING)

    def check_connection(self, connection: str | None) -> None:
        """
        Refuse a connection that is not for the small app; None is our own broker.

        The refusal does not tell whether there is one that is for others.

        Raises:
            RuleError: If it is unknown, or is our own broker and that is in memory, or
                its rules list other apps.
        """
        known = [name for name in self.connections if self._admits(name)]
        is_there = self.has_broker if connection is None else connection in known
        if is_there and self._admits(connection):
            return
        hint = "An operator names connections in MINUTEHAND_TASK_CONNECTIONS, and the"
        hint += " apps that may use them in MINUTEHAND_TASK_RULES."
        if connection is None and not self.has_broker:
            msg = NO_BROKER
        elif self.app is None:
            msg = f"{show(connection)} is not a connection of this installation."
        else:
            over = _name(connection)
            msg = f"Small app {show(self.app)} may send no tasks over {over}."
        raise RuleError(msg, suggest(connection or "", known) if known else hint)

    def _admits(self, connection: str | None) -> bool:
        return self.app is None or self._find(connection).admits(self.app)

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
        msg = f"{_name(connection)} is not RabbitMQ, and only RabbitMQ has exchanges."
        hint = 'Leave out "exchange" and "routing_key", and name a queue.'
        raise RuleError(msg, hint)

    def is_own(self, queue: str) -> bool:
        """Tell whether *queue* is, or looks like, one that our workers consume."""
        if self.own_prefix:
            return f"{queue}.".startswith(f"{self.own_prefix}.")
        return queue in WORKER_QUEUES or queue.startswith(
            f"{ANSWERS_WITHOUT_PREFIX}.answers"
        )


def _name(connection: str | None) -> str:
    return "Minutehand's own broker" if connection is None else show(connection)


def _matches(queue: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(queue, pattern) for pattern in patterns)
