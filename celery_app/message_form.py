"""
Messages for Redis, filled into a form that Celery and kombu made.

They build each message anew, which took almost half of the leader's time when thousands
were due. But the messages of a lane differ only in the id of the operation, in what
triggered it, and in kombu's delivery tag. So Celery and kombu make one message of each
lane, which is recorded instead of sent, and we fill in copies of it. The same goes for
tasks of the users' own.

Nothing here says what a message looks like. A second one is made both ways; if they
differ in a byte, Celery and kombu make all of them, as for other brokers.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import orjson
from celery import signals
from celery.utils.saferepr import saferepr
from redis.exceptions import ResponseError

import tracing
from celery_app.redis_transport import RedisChannel
from models.operation_state import Queue
from operations.foreign_tasks import ForeignTask
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
        for error in push_texts(self.channel, texts).values():
            raise error
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


def push_texts(
    channel: Any, texts: Mapping[str, Sequence[str]]
) -> dict[str, Exception]:
    """
    Push messages, by the key of their queue, in one pipeline.

    Returns:
        What Redis says of the messages that it refuses; it may take a part of a key's.
    """
    pushed: list[Sequence[str]] = []
    with (
        channel.conn_or_acquire() as client,
        client.pipeline(transaction=False) as pipeline,
    ):
        for key, values in texts.items():
            for start in range(0, len(values), _AT_ONCE):
                pushed.append(values[start : start + _AT_ONCE])
                pipeline.lpush(key, *pushed[-1])
        # Raised by redis-py, it would begin with the command and a message.
        answers = zip(pushed, pipeline.execute(raise_on_error=False), strict=True)
    refused: dict[str, Exception] = {}
    for part, answer in answers:
        if isinstance(answer, Exception):
            refused |= dict.fromkeys(part, answer)
    return refused


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


#: What tells the kinds apart: all but what is filled in.
_Kind = tuple[object, ...]

#: Letters of the arguments in a header, as Celery has it.
_LONGEST_REPR = 1024

#: What stands between quotes, or in place of a whole value; and more headers.
_PLACES = ("name", "args", "kwargs", "expires", "more")

#: Of lists and objects in each other, of which Celery shows no more.
_LEVELS = 3

_NOT_PLAIN = re.compile(r'[\\"]')

#: What ``json.dumps`` does with a text, at a part of its time.
_write = json.encoder.encode_basestring_ascii

Publish = Callable[[ForeignTask, str | None], None]


@dataclass(frozen=True, slots=True)
class _TaskForm:
    """
    A message of one kind, with places.

    Args:
        key: Where kombu would push it, without its prefix for all keys.
        text: As kombu would write it: a format with a place for whatever is filled in.
        embed: The end of the body: a format with a place for the token.
    """

    key: str
    text: str
    embed: str

    def fill(self, task: ForeignTask, tag: str) -> str:
        embed = self.embed % {"token": task.token}
        body = f"{task.given[:-1]}, {embed}]"
        more = _write_all(dict(task.headers))[1:-1]
        return self.text % {
            "id": task.id,
            "name": _write(task.name),
            "args": _write(show_arguments(list(task.args)) if task.args else "()"),
            "kwargs": _write(show_arguments(dict(task.kwargs))),
            "expires": "null"
            if (at := task.expires_at) is None
            else _write(at.isoformat()),
            "more": more and f", {more}",
            "body": b64encode(body.encode()).decode(),
            "tag": tag,
        }


@dataclass(slots=True)
class TaskForms:
    """
    Sends tasks over one connection, in forms where that is possible.

    Args:
        channel: kombu's; nobody else publishes on it.
        publish: Lets Celery and kombu publish a task on *channel*.
    """

    channel: Any
    publish: Publish
    _forms: dict[_Kind, _TaskForm | None] = field(default_factory=dict)

    def push(
        self, tasks: Sequence[ForeignTask], answers: str | None
    ) -> dict[str, Exception]:
        """
        Send *tasks*, those of each queue in their order.

        Args:
            tasks: Each with its queue.
            answers: The queue for the answers. None: nobody waits for one.

        Returns:
            What Redis says of the tasks that it refuses, by their ids.

        Raises:
            Exception: Those of the transport; any of them may have arrived.
        """
        may_fill = isinstance(self.channel, RedisChannel) and not is_listened_to()
        texts: defaultdict[str, list[str]] = defaultdict(list)
        ids: dict[str, str] = {}
        refused: dict[str, Exception] = {}
        # Different for each, and spelled as kombu's, which takes another UUID for each.
        tag = str(uuid4())[:-8]
        for number, task in enumerate(tasks):
            form = self._find(task, answers) if may_fill else None
            if form is None:
                try:
                    self.publish(task, answers)
                except ResponseError as error:
                    refused[task.id] = error
            else:
                text = form.fill(task, f"{tag}{number:08x}")
                texts[form.key].append(text)
                ids[text] = task.id
        if texts:
            said = push_texts(self.channel, texts)
            refused |= {ids[text]: error for text, error in said.items()}
        return refused

    def _find(self, task: ForeignTask, answers: str | None) -> _TaskForm | None:
        kind = (
            *(task.queue, task.exchange, task.routing_key, task.priority, answers),
            *(task.expires_at is None, task.token is None, task.with_value),
            task.limits_s,
        )
        if kind not in self._forms:
            self._forms[kind] = self._make_checked(task, answers)
        return self._forms[kind]

    def _make_checked(self, task: ForeignTask, answers: str | None) -> _TaskForm | None:
        """Return a form of the kind of *task*, or None if it is not good for any."""
        tag = str(uuid4())
        probe = task._replace(
            name=f"probe {PROBE}",
            id=str(uuid4()),
            args=[PROBE, {"a": [1, None, 2.5]}],
            kwargs={PROBE: PROBE},
            written=None,
            headers={"probe": PROBE},
            expires_at=task.expires_at and datetime.now(UTC),
            token=task.token and uuid4().hex,
        )
        try:
            form = self._make(task, answers)
            key, text = self._record(probe, answers, tag)
            filled = form.fill(probe, tag)
            is_good = key == form.key and _open(text) == _open(filled)
        except (AttributeError, TypeError, ValueError, LookupError):
            return None  # they do it otherwise: another command, or another body
        return form if is_good else None

    def _make(self, task: ForeignTask, answers: str | None) -> _TaskForm:
        places = {name: uuid4().hex for name in _PLACES}
        token, task_id, tag = uuid4().hex, str(uuid4()), str(uuid4())
        blank = task._replace(
            name=places["name"],
            id=task_id,
            args=(),
            kwargs={},
            written=None,
            headers={},
            token=task.token and token,
        )
        key, text = self._record(blank, answers, tag)
        message = json.loads(text)
        [_args, _kwargs, embed] = json.loads(b64decode(message["body"]))
        message["body"] = tag_of_body = uuid4().hex
        message["headers"] |= {
            "argsrepr": places["args"],
            "kwargsrepr": places["kwargs"],
            "expires": places["expires"],
            places["more"]: None,
        }
        markers = {json.dumps(places[name]): name for name in _PLACES[:-1]}
        markers |= {f', "{places["more"]}": null': "more", tag_of_body: "body"}
        return _TaskForm(
            key,
            cut(json.dumps(message), markers | {task_id: "id", tag: "tag"}),
            cut(json.dumps(embed), {token: "token"}),
        )

    def _record(
        self, task: ForeignTask, answers: str | None, tag: str
    ) -> tuple[str, str]:
        return record(self.channel, lambda: self.publish(task, answers), tag)


def _write_all(values: object) -> str:
    """Do what ``json.dumps`` does, but for its escapes, at a tenth of its time."""
    try:
        return orjson.dumps(values).decode()
    except TypeError:  # such as half a character
        return json.dumps(values)


def show_arguments(values: object) -> str:
    """
    Return *values* as Celery shows them in a header, which takes it a quarter of a ms.

    Args:
        values: As in JSON. Of what is short, flat and without quotes or escapes inside,
            Python's own form is the same.
    """
    text = repr(values)
    depth = text.count("[") + text.count("{") + text.count("(")
    if len(text) < _LONGEST_REPR and depth <= _LEVELS and not _NOT_PLAIN.search(text):
        return text
    shown: str = saferepr(values, _LONGEST_REPR)
    return shown


def _open(text: str) -> dict[str, Any]:
    """Return a message with its body as kombu would read it."""
    message: dict[str, Any] = json.loads(text)
    return {**message, "body": json.loads(b64decode(message["body"]))}
