"""
What a worker answers by Celery's remote control: questions, and no commands.

Whoever reaches the broker can send a command to every worker; none is signed. Celery
obeys: it stops, leaves its queues, forgets tasks. We have no use for that: a worker is
drained by its row, and stopped by a signal. So commands are refused, and told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery.worker import pidbox
from celery.worker.consumer import control as celery_control
from celery.worker.consumer import tasks as celery_tasks
from celery.worker.consumer.events import Events
from celery.worker.control import Panel

from celery_app.received import UnreadableError
from operations.fleet.strangers import StrangerReason

#: What changes nothing, costs little, and shows no setting.
QUESTIONS = frozenset(
    {
        "active",
        "active_queues",
        "clock",
        "ping",
        "query_task",
        "registered",
        "reserved",
        "revoked",
        "scheduled",
        "stats",
    }
)

_REFUSED = (
    "refused: workers answer questions only ({}). To stop one, send SIGTERM to it; to "
    "let it rest, run: minutehand workers drain NAME"
)


class _Handlers:
    """Celery's handlers of questions; of anything else, one that refuses."""

    def __init__(self, refuse: Callable[[str], dict[str, str]]) -> None:
        self._refuse = refuse

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name in QUESTIONS:
            handler: Callable[..., Any] = Panel.data[name]
            return handler
        return lambda _state, **_arguments: self._refuse(name)


class _Pidbox(pidbox.Pidbox):  # type: ignore[misc]  # Celery has no type hints
    """Listens for questions."""

    def __init__(self, consumer: Any) -> None:
        super().__init__(consumer)
        self.node.handlers = _Handlers(self._refuse)

    def start(self, c: Any) -> None:
        """Listen; what cannot be read is told, and gone."""
        super().start(c)
        self.consumer.on_decode_error = self._drop

    def on_message(self, body: Any, message: Any) -> None:
        """Answer a question, if *body* asks one of us."""
        asked = self._read(body)
        if asked is None:
            self._drop(message, UnreadableError("what is no command"))
            return
        message.headers = {}  # a clock, which would be taken over
        super().on_message(asked, message)

    def _read(self, body: Any) -> dict[str, Any] | None:
        """
        Return what we believe of *body*.

        Workers are named one by one: with a pattern of a stranger's, a match may take
        for ever. And the answer goes to where answers go, to no queue of a stranger's.
        """
        match body:
            case {
                "method": str(method),
                "arguments": None | dict() as arguments,
                "destination": None | list() as destination,
                "pattern": None,
            }:
                asked = {
                    "method": method,
                    "arguments": arguments,
                    "destination": destination,
                }
            case _:
                return None
        answers = self.node.mailbox.reply_exchange.name
        match body:
            case {
                "reply_to": {"exchange": str(exchange), "routing_key": str(key)},
                "ticket": str(ticket),
            } if exchange == answers:
                reply_to = {"exchange": exchange, "routing_key": key}
                return asked | {"reply_to": reply_to, "ticket": ticket}
        return None if body.get("reply_to") else asked

    def _refuse(self, name: str) -> dict[str, str]:
        self.c.tell(self._name, StrangerReason.COMMAND, name)
        return {"error": _REFUSED.format(", ".join(sorted(QUESTIONS)))}

    def _drop(self, _message: Any, error: Exception) -> None:
        self.c.tell(self._name, StrangerReason.COMMAND, str(error))

    @property
    def _name(self) -> str:
        return str(self.node.mailbox.exchange.name)


class Tasks(celery_tasks.Tasks):  # type: ignore[misc]  # as above
    """Celery's step that takes messages; its own needs the one that greets others."""

    requires = (Events,)


class Control(celery_control.Control):  # type: ignore[misc]  # as above
    """The step of Celery's consumer that listens, with our ``Pidbox``."""

    requires = (Tasks,)

    def __init__(self, c: Any, **options: Any) -> None:
        """Prepare; listen to nothing yet."""
        super().__init__(c, **options)
        self.box = _Pidbox(c)
        self.start, self.stop = self.box.start, self.box.stop
        self.shutdown = self.box.shutdown
