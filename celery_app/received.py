"""
What came from the broker, of whomever: read as far as it must be, and within bounds.

Nothing here decompresses, unpickles or decodes as the message asks for. A message that
cannot be read is still a message, with an error: whoever consumes the queue is told
(``on_decode_error``), and no event loop ends of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

from celery.app.task import Context
from kombu.exceptions import DecodeError
from kombu.message import Message as KombuMessage

from celery_app.routing import INSTALLATION_HEADER

#: Bytes of what is read. A message of ours has some hundred; an answer to a question of
#: remote control names all tasks of a worker.
LARGEST = 1 << 20

_JSON = "application/json"
_ENCODINGS = (None, "utf-8")

#: How Celery writes a header that nobody has set.
_UNSET = (None, [None, None])


class UnreadableError(DecodeError):
    """What is wrong with a message, in words of ours: the text names its problem."""


class ReceivedMessage(KombuMessage):
    """
    A message that is read when somebody asks for what is in it.

    Args:
        body: As it was sent.
        headers: Of the message, whatever they are.
        fault: Why it cannot be read, if that is known.
        fields: Others, for kombu.
    """

    def __init__(
        self,
        body: bytes,
        *,
        headers: Any,
        fault: UnreadableError | None = None,
        **fields: Any,
    ) -> None:
        """Read nothing yet."""
        # Not through kombu, which would decompress what the headers call compressed:
        # 16 MB may become 16 GB.
        super().__init__(body, **fields)  # type: ignore[no-untyped-call]  # kombu has no hints
        if headers is not None and not isinstance(headers, dict):
            fault = fault or UnreadableError("its headers are no object")
        elif headers:
            self.headers = headers
        if fault is not None:
            self.errors = [(type(fault), fault, None)]  # type: ignore[list-item]  # as kombu raises it

    def _decode(self) -> Any:
        """Return the body, for kombu and Celery."""
        if self.content_type != _JSON:
            raise UnreadableError("its content type is not application/json")
        if self.content_encoding not in _ENCODINGS:
            raise UnreadableError("its content encoding is not utf-8")
        return read_json(self.body, "its body")


def read_json(text: Any, what: str) -> Any:
    """
    Return the value of *text*.

    Args:
        text: Bytes in UTF-8, or a text.
        what: Names it in the error.

    Raises:
        UnreadableError: It is too large, or no JSON.
    """
    if len(text) > LARGEST:
        raise UnreadableError(f"{what} has more than {LARGEST:,} bytes")
    try:
        return json.loads(text if isinstance(text, str) else str(text, "utf-8"))
    except (ValueError, RecursionError):
        raise UnreadableError(f"{what} is not JSON") from None


def read_task(message: Any) -> str:
    """
    Return the name of the task that *message* asks for, of whatever project.

    Raises:
        UnreadableError: It names none.
    """
    named = message.headers
    if "task" not in named:  # the first protocol of Celery has all in the body
        named = message.payload
    name = named.get("task") if isinstance(named, dict) else None
    if not isinstance(name, str):
        raise UnreadableError("it names no task")
    return name


def read_installation(message: Any) -> str | None:
    """
    Return the id of the installation that sent *message*; None: it says none.

    Raises:
        UnreadableError: What it says is no id.
    """
    found = message.headers.get(INSTALLATION_HEADER)
    if found is not None and not isinstance(found, str):
        raise UnreadableError("its installation is no text")
    return found


def make_anew(message: Any, name: str, make: Callable[..., Any]) -> None:
    """
    Leave of *message*, which asks for a task of ours, what we mean by it.

    That is the id of the operation, and what triggered it, for people who read logs.
    All else that Celery would obey is made anew: limits, times, callbacks, groups. So
    whoever writes to our queues can have an operation tried that is in the table, which
    decides, and nothing else. Texts in other headers stay; tracing has some.

    Args:
        message: Is changed.
        name: Of the task.
        make: Celery's ``as_task_v2``.

    Raises:
        UnreadableError: It is not in the form in which Celery sends our tasks.
    """
    headers = message.headers
    try:
        operation_id = str(UUID(headers["id"]))
    except (KeyError, ValueError, TypeError, AttributeError):
        raise UnreadableError("its id is not the id of an operation") from None
    if any(headers.get(key) not in _UNSET for key in ("eta", "expires", "timelimit")):
        msg = "it has times or limits, which an operation has in the table"
        raise UnreadableError(msg)
    match message.payload:
        case [list(), {**given}, None | {}]:
            triggered_by = given.get("triggerrer")
        case _:
            raise UnreadableError("its body has not the three parts of a Celery task")
    made = make(
        operation_id,
        name,
        kwargs={"triggerrer": triggered_by if isinstance(triggered_by, str) else ""},
        ignore_result=True,
    )
    kept = {
        key: value
        for key, value in headers.items()
        if isinstance(key, str) and isinstance(value, str) and not hasattr(Context, key)
    }
    message.headers = kept | made.headers
    message.properties = {
        key: value
        for key, value in message.properties.items()
        if key != "application_headers"
    }
    message.body = json.dumps(made.body).encode()
    message._decoded_cache = None  # noqa: SLF001 - else Celery asks what was read before
    message.content_type, message.content_encoding = _JSON, "utf-8"
