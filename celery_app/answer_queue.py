"""
The queue on somebody's broker where the answers to our tasks wait until we take them.

Whatever is in it, little of it is held at a time: what one message may take of a
worker's memory is not for the sender of that message to say. Redis would hand over
whole messages of up to 512 MB, so a script there looks at their size first. RabbitMQ
has a bound of its own (``max_message_size``).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from celery_app.broker_link import declare_absent
from celery_app.task_answers import LARGEST_BODY, AnswerMessage, read_answer
from operations.foreign_tasks import Keep, TaskAnswer
from telemetry import Event

log = structlog.get_logger()

#: Bytes of messages that are held at a time, of several.
_MOST_BYTES = 8_000_000

#: Bytes of a message on Redis, which is base64 and has headers: of a larger one, only
#: the end is read, where its headers are.
_LARGEST_MESSAGE = 2 * LARGEST_BODY
_END = 64_000

#: Bytes at the end of a message by which, and by its size, it is known again: the last
#: thing that kombu writes is a tag that no other message has.
_MARK = 1_000

#: Milliseconds after which RabbitMQ removes the queue if nobody reads or declares it:
#: 40 days, longer than the longest wait. So it does not outlive its installation.
_EXPIRES_MS = 40 * 86_400_000

#: AMQP's code for a queue of another connection.
_LOCKED = "405"

#: Returns the size and the text of the messages that are next, the oldest first.
_LOOK = """
local found, left = {}, tonumber(ARGV[2])
for i = 1, tonumber(ARGV[1]) do
  local text = redis.call('LINDEX', KEYS[1], -i)
  if not text then break end
  local size = #text
  left = left - size
  if left < 0 and i > 1 then break end
  if size > tonumber(ARGV[3]) then text = string.sub(text, -tonumber(ARGV[4])) end
  found[i] = {size, text}
end
return found
"""

#: Removes messages that are still next, or puts them behind all others. Another reader
#: may have removed some of them.
_DROP = """
for i = 2, #ARGV, 3 do
  local text = redis.call('LINDEX', KEYS[1], -1)
  if not text then break end
  if #text == tonumber(ARGV[i])
      and string.sub(text, -tonumber(ARGV[1])) == ARGV[i + 1] then
    if ARGV[i + 2] == '1' then redis.call('LPUSH', KEYS[1], text) end
    redis.call('LTRIM', KEYS[1], 0, -2)
  end
end
"""


def declare_answers(connection: Any, queue: str) -> None:
    """
    Make the queue of answers on RabbitMQ, durable, unless it exists.

    One that exists is left as it is: its owner may have made it otherwise.
    """
    # On Redis, a queue is there when something is in it.
    if connection.transport.driver_type == "amqp":
        declare_absent(connection, queue, {"x-expires": _EXPIRES_MS})


#: What the messages say, and what is to be told which of them to leave.
_Found = tuple[list[TaskAnswer | None], Callable[[Sequence[bool]], object]]


class AnswerQueue(ABC):
    """
    The queue of answers on one broker, over one connection.

    Args:
        connection: Of kombu, open.
        name: Of the queue.
    """

    def __init__(self, connection: Any, name: str) -> None:
        """Make the queue unless it exists."""
        declare_answers(connection, name)
        self._channel = connection.default_channel
        self._name = name

    def take(self, keep: Keep, *, limit: int) -> int:
        """
        Give *keep* what is next; it is taken off after *keep* has returned.

        So none is lost if this process dies; two that read at once may both be given
        the same.

        Args:
            keep: Is given the answers.
            limit: How many messages at most; there are fewer if they are large.

        Returns:
            How many messages these were, answers or not. 0: all that was there has been
            given; what was left then comes again.
        """
        answers, take_off = self._look(limit)
        if not answers:
            return 0
        kept = [answer for answer in answers if answer is not None]
        if strangers := len(answers) - len(kept):
            log.warning(
                Event.MESSAGE_DROPPED,
                queue=self._name,
                error="not an answer",
                count=strangers,
            )
        left = set(keep(kept) or ()) if kept else set()
        take_off([each is not None and each.token in left for each in answers])
        return len(answers)

    @abstractmethod
    def _look(self, limit: int) -> _Found:
        """
        Return what is next, and what takes it off.

        It is told of each whether it is left: then it comes again after the others.
        """


def open_answers(connection: Any, name: str) -> AnswerQueue | None:
    """
    Return the queue *name*, on whatever broker *connection* leads to.

    Returns:
        None: another reader is at it, and holds what nobody else can see. So it is on
        RabbitMQ, until the connection of that reader ends.
    """
    if connection.transport.driver_type != "amqp":
        return _RedisQueue(connection, name)
    return _RabbitQueue(connection, name) if _reserve(connection, name) else None


def _reserve(connection: Any, queue: str) -> bool:
    """Let nobody else read *queue* while *connection* is open; False: somebody does."""
    channel = connection.channel()
    try:
        channel.queue_declare(
            f"{queue}.reader", exclusive=True, arguments={"x-queue-type": "classic"}
        )
    except connection.channel_errors as error:
        if str(getattr(error, "reply_code", "")) != _LOCKED:
            raise
        return False
    finally:
        channel.close()
    return True


class _RabbitQueue(AnswerQueue):
    """
    What is left is not acknowledged, so that it comes again if we die.

    To give it back would count against it: after 20 times, a quorum queue of version 4
    drops it.
    """

    def __init__(self, connection: Any, name: str) -> None:
        super().__init__(connection, name)
        #: By their tags: what was left in this round, and in the last one.
        self._left: dict[int, TaskAnswer | None] = {}
        self._again: dict[int, TaskAnswer | None] = {}

    def _look(self, limit: int) -> _Found:
        again = [*self._again.items()]
        found, self._again = dict(again[:limit]), dict(again[limit:])
        room = _MOST_BYTES
        while len(found) < limit and room > 0:
            got = self._channel.basic_get(self._name, no_ack=False)
            if got is None:
                break
            body = got.body if isinstance(got.body, bytes) else str(got.body).encode()
            room -= len(body)
            message = AnswerMessage(got.headers, got.content_type, body)
            found[got.delivery_tag] = read_answer(message)
        if not found:
            self._again, self._left = self._left, {}

        def take_off(left: Sequence[bool]) -> None:
            for tag, is_left in zip(found, left, strict=True):
                if is_left:
                    self._left[tag] = found[tag]
                else:
                    self._channel.basic_ack(tag)

        return list(found.values()), take_off


class _RedisQueue(AnswerQueue):
    """Redis itself has no acknowledgements: it is looked at before it is cut."""

    #: How much of what was there at the beginning of this round has not been met.
    _ahead: int | None = None

    @property
    def _key(self) -> str:
        # kombu writes the prefix before the keys of the commands that it uses itself
        return f"{self._channel.global_keyprefix}{self._name}"

    def _look(self, limit: int) -> _Found:
        client = self._channel.client
        ahead = client.llen(self._name) if self._ahead is None else self._ahead
        bounds = (min(limit, ahead), _MOST_BYTES, _LARGEST_MESSAGE, _END)
        found = client.eval(_LOOK, 1, self._key, *bounds)
        self._ahead = ahead - len(found) if found else None

        def take_off(left: Sequence[bool]) -> None:
            marks: list[Any] = []
            for (size, text), is_left in zip(found, left, strict=True):
                marks += size, text[-_MARK:], int(is_left)
            client.eval(_DROP, 1, self._key, _MARK, *marks)

        return [read_answer(_read_text(*each)) for each in found], take_off


def _read_text(size: int, text: bytes) -> AnswerMessage:
    """Return the message that kombu wrote to Redis, or the end of which is *text*."""
    is_cut = size > len(text)
    if is_cut:
        # The body comes first, and has no quotes: the headers are behind the first.
        text = b'{"body": "' + text
    try:
        raw = json.loads(text)
        body = b"" if is_cut else b64decode(raw["body"])
        return AnswerMessage(raw["headers"], raw["content-type"], body, is_cut)
    except (ValueError, KeyError, TypeError, RecursionError):
        return AnswerMessage(None, None, b"")
