"""
Tasks of the users' own for Redis, filled into a form that Celery and kombu made.

As message_form.py does for our own messages, and for its reasons: they make one message
of each kind, which is recorded instead of sent, and what differs is put into copies of
it. A second one is made both ways; if they differ, Celery and kombu make all of them,
as for other brokers.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from celery.utils.saferepr import saferepr

from celery_app.message_form import PROBE, is_listened_to, push_texts, record
from celery_app.redis_transport import RedisChannel
from operations.foreign_tasks import ForeignTask

#: What tells the kinds apart: all but what is filled in.
_Kind = tuple[object, ...]

#: Letters of the arguments in a header, as Celery has it.
_LONGEST_REPR = 1024

Publish = Callable[[ForeignTask, str | None], None]


@dataclass(frozen=True, slots=True)
class _Form:
    """
    A message of one kind.

    Args:
        key: Where kombu would push it, without its prefix for all keys.
        message: As kombu would write it, but for what is filled in.
        embed: The end of the body.
        blank: Whose id, name and token are replaced.
    """

    key: str
    message: dict[str, Any]
    embed: str
    blank: ForeignTask

    def fill(self, task: ForeignTask, tag: str) -> str:
        args, kwargs = list(task.args), dict(task.kwargs)
        embed = self.embed
        if task.token is not None:
            embed = embed.replace(str(self.blank.token), task.token)
        body = f"[{json.dumps(args)}, {json.dumps(kwargs)}, {embed}]"
        stand_for = {self.blank.id: task.id, self.blank.name: task.name}
        headers = {
            name: stand_for.get(value, value) if isinstance(value, str) else value
            for name, value in self.message["headers"].items()
        }
        headers["argsrepr"] = saferepr(args or (), _LONGEST_REPR)
        headers["kwargsrepr"] = saferepr(kwargs, _LONGEST_REPR)
        if task.expires_at is not None:
            headers["expires"] = task.expires_at.isoformat()
        headers.update(task.headers)
        properties = {
            **self.message["properties"],
            "correlation_id": task.id,
            "delivery_tag": tag,
        }
        return json.dumps(
            {
                **self.message,
                "body": b64encode(body.encode()).decode(),
                "headers": headers,
                "properties": properties,
            }
        )


class TaskForms:
    """
    Sends tasks over one connection, in forms where that is possible.

    Args:
        channel: kombu's; nobody else publishes on it.
        publish: Lets Celery and kombu publish a task on *channel*.
    """

    def __init__(self, channel: Any, publish: Publish) -> None:
        """Make no form yet."""
        self._channel = channel
        self._publish = publish
        self._forms: dict[_Kind, _Form | None] = {}

    def push(self, tasks: Sequence[ForeignTask], answers: str | None) -> None:
        """
        Send *tasks*, those of each queue in their order.

        Args:
            tasks: Each with its queue.
            answers: The queue for the answers. None: nobody waits for one.

        Raises:
            Exception: Those of the transport; any of them may have arrived.
        """
        may_fill = isinstance(self._channel, RedisChannel) and not is_listened_to()
        texts: defaultdict[str, list[str]] = defaultdict(list)
        # Different for each, and spelled as kombu's, which takes another UUID for each.
        tag = str(uuid4())[:-8]
        for number, task in enumerate(tasks):
            form = self._find(task, answers) if may_fill else None
            if form is None:
                self._publish(task, answers)
            else:
                texts[form.key].append(form.fill(task, f"{tag}{number:08x}"))
        if texts:
            push_texts(self._channel, texts)

    def _find(self, task: ForeignTask, answers: str | None) -> _Form | None:
        kind = (
            *(task.queue, task.exchange, task.routing_key, task.priority, answers),
            *(task.expires_at is None, task.token is None, task.with_value),
        )
        if kind not in self._forms:
            self._forms[kind] = self._make_checked(task, answers)
        return self._forms[kind]

    def _make_checked(self, task: ForeignTask, answers: str | None) -> _Form | None:
        """Return a form of the kind of *task*, or None if it is not good for any."""
        tag = str(uuid4())
        probe = replace(
            task,
            name=f"probe {PROBE}",
            id=str(uuid4()),
            args=[PROBE, {"a": [1, None, 2.5]}],
            kwargs={PROBE: PROBE},
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
        blank = replace(
            task,
            name=uuid4().hex,
            id=str(uuid4()),
            args=(),
            kwargs={},
            headers={},
            token=task.token and uuid4().hex,
        )
        key, text = self._record(blank, answers, str(uuid4()))
        message = json.loads(text)
        [_args, _kwargs, embed] = json.loads(b64decode(message["body"]))
        return _Form(key, message, json.dumps(embed), blank)

    def _record(
        self, task: ForeignTask, answers: str | None, tag: str
    ) -> tuple[str, str]:
        return record(self._channel, lambda: self._publish(task, answers), tag)


def _open(text: str) -> dict[str, Any]:
    """Return a message with its body as kombu would read it."""
    message: dict[str, Any] = json.loads(text)
    return {**message, "body": json.loads(b64decode(message["body"]))}
