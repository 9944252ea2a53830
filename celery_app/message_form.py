"""
Messages for Redis, filled into a form that Celery and kombu made.

They build each message anew, which took almost half of the leader's time when thousands
were due. But the messages of a lane differ only in the id of the operation, in what
triggered it, and in kombu's delivery tag. So Celery and kombu make one message of each
lane, which is recorded instead of sent, and we fill in copies of it.

Nothing here says what a message looks like. A second one is made both ways; if they
differ in a byte, Celery and kombu make all of them, as for other brokers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from celery import signals

import tracing
from models.operation_state import Queue
from operations.sending.order import Message

#: Who listens to them, such as tracing, wants to see or to change each message.
_SIGNALS = (signals.before_task_publish, signals.after_task_publish, signals.task_sent)

#: Messages in a command: some 100 kB. Redis answers each command, so over a slow line
#: there are answers within the timeout.
_AT_ONCE = 100

#: Triggers an operation that is never sent; all that needs care in JSON or a format.
PROBE = "%s %(id)s {id} \\ \" ' é € \U0001f552 \x00 \x1f \x7f \u2028 \ud800 </a>"


@dataclass(frozen=True, slots=True)
class _Form:
    """
    The message of one lane, with places.

    Args:
        key: Where kombu would push it, without its prefix for all keys.
        text: A format with places for ``id``, ``tag`` and ``body``; and ``trace``, if
            the sending is traced.
        body: A format with a place for what triggered the operation, as JSON.
        encode: Returns a body as it stands in the text.
    """

    key: str
    text: str
    body: str
    encode: Callable[[str], str]

    def fill(self, message: Message, tag: str, trace: str) -> str:
        body = self.encode(self.body % json.dumps(message.triggered_by))
        places = {"id": str(message.id), "tag": tag, "body": body, "trace": trace}
        return self.text % places


@dataclass(slots=True)
class MessageForms:
    """
    Sends messages to Redis in forms, each of which is made when it is first needed.

    Args:
        channel: kombu's, to Redis; nobody else publishes on it.
        publish: Lets Celery and kombu publish on *channel*.
    """

    channel: Any
    publish: Callable[[Sequence[Message]], None]
    _forms: dict[tuple[Queue, int, bool], _Form | None] = field(default_factory=dict)

    def push(self, messages: Sequence[Message]) -> bool:
        """
        Send *messages* in one pipeline, those of each lane in their order.

        Returns:
            False if Celery and kombu have to make them; then none was sent.

        Raises:
            Exception: Those of redis-py; any of them may have arrived.
        """
        if is_listened_to():
            return False
        texts: defaultdict[str, list[str]] = defaultdict(list)
        # Different for each, and spelled as kombu's, which takes another UUID for each.
        tag = str(uuid4())[:-8]
        trace = _write_trace()
        for number, message in enumerate(messages):
            form = self._find(message.queue, message.lane, is_traced=bool(trace))
            if form is None:
                return False
            texts[form.key].append(form.fill(message, f"{tag}{number:08x}", trace))
        push_texts(self.channel, texts)
        return True

    def _find(self, queue: Queue, lane: int, *, is_traced: bool) -> _Form | None:
        kind = queue, lane, is_traced
        try:
            return self._forms[kind]
        except KeyError:
            form = self._forms[kind] = self._make_checked(queue, lane)
            return form

    def _make_checked(self, queue: Queue, lane: int) -> _Form | None:
        """Return a form, or None if it is not good for any message."""
        probe, tag = Message(uuid4(), queue, PROBE, attempt=1, lane=lane), str(uuid4())
        try:
            form = self._make(queue, lane)
            filled = form.key, form.fill(probe, tag, _write_trace())
            return form if filled == self._record(probe, tag) else None
        except (AttributeError, TypeError, ValueError):
            # They do it otherwise: another command, bytes, a body without its place.
            return None

    def _make(self, queue: Queue, lane: int) -> _Form:
        blank = Message(uuid4(), queue, uuid4().hex, attempt=0, lane=lane)
        tag, place = str(uuid4()), uuid4().hex
        bodies: list[tuple[str, str | None]] = []

        def take_body(body: str, encoding: str | None = None) -> tuple[str, str | None]:
            bodies.append((body, encoding))
            return place, encoding

        with _replaced(self.channel, encode_body=take_body):
            key, text = self._record(blank, tag)
        [(body, encoding)] = bodies
        places = {str(blank.id): "id", tag: "tag", place: "body"}
        if trace := _write_trace():
            places[trace] = "trace"
        return _Form(
            key,
            cut(text, places),
            body.replace("%", "%%").replace(json.dumps(blank.triggered_by), "%s"),
            lambda body: str(self.channel.encode_body(body, encoding)[0]),
        )

    def _record(self, message: Message, tag: str) -> tuple[str, str]:
        """Return the key and the value that kombu would push for *message*."""
        return record(self.channel, lambda: self.publish([message]), tag)


def _write_trace() -> str:
    """Return the header that names the batch; empty: it is not traced."""
    batch = tracing.find_current()
    return "" if batch is None else batch.write()


def is_listened_to() -> bool:
    """Tell whether somebody wants to see each message that Celery publishes."""
    return any(signal.receivers for signal in _SIGNALS)


def push_texts(channel: Any, texts: Mapping[str, Sequence[str]]) -> None:
    """Push messages, by the key of their queue, in one pipeline."""
    with (
        channel.conn_or_acquire() as client,
        client.pipeline(transaction=False) as pipeline,
    ):
        for key, values in texts.items():
            for start in range(0, len(values), _AT_ONCE):
                pipeline.lpush(key, *values[start : start + _AT_ONCE])
        # Raised by redis-py, it would begin with the command and a message.
        for answer in pipeline.execute(raise_on_error=False):
            if isinstance(answer, Exception):
                raise answer


def record(channel: Any, publish: Callable[[], object], tag: str) -> tuple[str, str]:
    """Return the key and the value that kombu would push when *publish* is called."""
    recorder = _Recorder()
    with _replaced(
        channel,
        conn_or_acquire=lambda: nullcontext(recorder),
        _next_delivery_tag=lambda: tag,
    ):
        publish()
    [pushed] = recorder.pushed
    return pushed


class _Recorder:
    """Stands in for the client of Redis."""

    def __init__(self) -> None:
        self.pushed: list[tuple[str, str]] = []

    def lpush(self, key: str, value: str) -> None:
        self.pushed.append((key, value))


@contextmanager
def _replaced(channel: Any, **methods: Callable[..., Any]) -> Iterator[None]:
    """Let *channel* have other *methods* for a while."""
    vars(channel).update(methods)
    try:
        yield
    finally:
        for name in methods:
            del vars(channel)[name]


def cut(text: str, places: Mapping[str, str]) -> str:
    """Return *text* as a format; *places* has their names, by what stands there."""
    text = text.replace("%", "%%")
    for marker, name in places.items():
        text = text.replace(marker, f"%({name})s")
    return text
