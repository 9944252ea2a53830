"""
Tasks of the users' own for Redis, filled into a form that Celery and kombu made.

As message_form.py does for our own messages, and for its reasons: they make one message
of each kind, which is recorded instead of sent, and what differs is put into copies of
it. A second one is made both ways; if they differ, Celery and kombu make all of them,
as for other brokers.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import orjson
from celery.utils.saferepr import saferepr

from celery_app.message_form import PROBE, cut, is_listened_to, push_texts, record
from celery_app.redis_transport import RedisChannel
from operations.foreign_tasks import ForeignTask

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
class _Form:
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
    _forms: dict[_Kind, _Form | None] = field(default_factory=dict)

    def push(self, tasks: Sequence[ForeignTask], answers: str | None) -> None:
        """
        Send *tasks*, those of each queue in their order.

        Args:
            tasks: Each with its queue.
            answers: The queue for the answers. None: nobody waits for one.

        Raises:
            Exception: Those of the transport; any of them may have arrived.
        """
        may_fill = isinstance(self.channel, RedisChannel) and not is_listened_to()
        texts: defaultdict[str, list[str]] = defaultdict(list)
        # Different for each, and spelled as kombu's, which takes another UUID for each.
        tag = str(uuid4())[:-8]
        for number, task in enumerate(tasks):
            form = self._find(task, answers) if may_fill else None
            if form is None:
                self.publish(task, answers)
            else:
                texts[form.key].append(form.fill(task, f"{tag}{number:08x}"))
        if texts:
            push_texts(self.channel, texts)

    def _find(self, task: ForeignTask, answers: str | None) -> _Form | None:
        kind = (
            *(task.queue, task.exchange, task.routing_key, task.priority, answers),
            *(task.expires_at is None, task.token is None, task.with_value),
            task.limits_s,
        )
        if kind not in self._forms:
            self._forms[kind] = self._make_checked(task, answers)
        return self._forms[kind]

    def _make_checked(self, task: ForeignTask, answers: str | None) -> _Form | None:
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

    def _make(self, task: ForeignTask, answers: str | None) -> _Form:
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
        return _Form(
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
