"""Messages in forms are those that Celery and kombu make one by one, to the byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID, uuid4, uuid5

import pytest
import redis
from celery import Celery, signals
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kombu.utils.json import loads

from celery_app.app import make_app
from celery_app.operation_sender import CelerySender
from celery_app.routing import INSTALLATION_HEADER, find_broker_names
from models.errors import BrokerUnreachableError
from models.operation_state import LANES, WORKER_QUEUES, Queue
from operations.sending.order import Message
from tests.scheduling import make_settings

DUE_AT = datetime(2026, 3, 29, 7, tzinfo=UTC)

#: What may stand in a name, and goes through JSON, base64, a format, and Redis.
NAMES = [
    "",
    "Weekly update",
    "\"double\" and 'single' \\ back",
    "100 % of %s and %(id)s, %%, {0}, {tag}",
    "Übergrößenträger, œuvre, Ελληνικά, 日本語",
    "\U0001f552 \U0001f469\u200d\U0001f4bb",
    "\x01 \x1f \x7f \x80 tab\t line\n return\r",
    "\u2028\u2029\ufeff\ufffe\ud800",
    "</script>&amp;\r\n$5\r\nhello",
    "a" * 10_000,
    "ü" * 3_333,
]

SIGNALS = {
    "before": signals.before_task_publish,
    "after": signals.after_task_publish,
    "sent": signals.task_sent,
}


def ignore(**_named: Any) -> None:
    """Receive a signal."""


@contextmanager
def listening(signal: Any, receiver: Callable[..., None] = ignore) -> Iterator[None]:
    signal.connect(receiver, weak=False)
    try:
        yield
    finally:
        signal.disconnect(receiver)


class Sent:
    """
    A sender, and what is in Redis after it has sent something.

    Args:
        url: Of Redis.

        configure: Changes the configuration of Celery.
    """

    def __init__(
        self, url: str, configure: Callable[[Any], None] = lambda _: None
    ) -> None:
        """Connect nothing yet."""
        options = make_settings(BROKER_URL=url)
        app: Celery = make_app(options)
        configure(app.conf)
        self.reads = count(1)
        self.sender = CelerySender(
            app,
            timeout=timedelta(seconds=5),
            read_installation=lambda: f"100 % ours, read {next(self.reads)}",
        )
        self.client = redis.Redis.from_url(url, decode_responses=True)

    def close(self) -> None:
        """Close both connections."""
        self.sender.close()
        self.client.close()

    def send(self, *messages: Message) -> dict[str, list[str]]:
        """Send, and take what arrived off Redis, by key, in the order of sending."""
        self.sender.send(messages)
        found = {}
        for key in self.client.scan_iter():
            if self.client.type(key) == "list":
                texts = self.client.lrange(key, 0, -1)
                found[str(key)] = [str(text) for text in reversed(texts)]
                self.client.delete(key)
        return found

    def send_both(
        self, *messages: Message
    ) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Return what arrives without and with forms; tags of equal messages equal."""
        with listening(signals.before_task_publish):
            whole = self.send(*messages)
        return even(whole), even(self.send(*messages))

    def uses_forms(self) -> bool:
        """Return whether it does; of those, the tags differ in a number alone."""
        texts = self.send(*(make(str(number)) for number in range(3)))
        return 1 == len(
            {get_tag(text)[:-8] for each in texts.values() for text in each}
        )


def make(name: str, queue: Queue = Queue.QUICK, lane: int = 0) -> Message:
    """Return the message of an operation that is nowhere."""
    return Message(uuid5(UUID(int=0), f"{name!r}{queue}"), queue, name, 0, DUE_AT, lane)


def get_tag(text: str) -> str:
    return str(loads(text)["properties"]["delivery_tag"])


def even(texts: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return *texts* with the same delivery tag everywhere."""
    return {
        key: [text.replace(get_tag(text), str(UUID(int=0))) for text in each]
        for key, each in texts.items()
    }


@pytest.fixture
def sent(redis_url: str) -> Iterator[Sent]:
    """Give a sender whose Redis is empty."""
    made = Sent(redis_url)
    yield made
    made.close()


def test_messages_in_forms_are_those_of_celery(sent: Sent):
    """In every lane, under its key, in the order of sending, whatever is in names."""
    messages = [
        make(name, queue, lane)
        for name in NAMES
        for queue in WORKER_QUEUES
        for lane in range(LANES[queue])
    ]

    whole, filled = sent.send_both(*messages)

    assert sent.uses_forms()
    names = {
        each
        for queue in WORKER_QUEUES
        for each in find_broker_names(queue, "minutehand")
    }
    assert names == set(filled)
    assert whole == filled
    for key, texts in whole.items():
        assert list(map(loads, texts)) == list(map(loads, filled[key]))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.text(st.characters(codec=None)), min_size=1, max_size=50))
def test_any_name_is_filled_in_as_celery_writes_it(sent: Sent, names: list[str]):
    """Of any characters, even of halves of pairs, which no database would keep."""
    whole, filled = sent.send_both(*(make(name) for name in names))

    assert whole == filled


def test_every_message_says_which_installation_it_is_of(sent: Sent):
    """It is read once, however many are sent."""
    batches = [sent.send(make("one"), make("two")) for _ in range(2)]

    headers = [
        loads(text)["headers"] for each in batches for text in each["minutehand.quick"]
    ]
    assert ["100 % ours, read 1"] * 4 == [h[INSTALLATION_HEADER] for h in headers]


def test_tags_differ_and_are_spelled_as_those_of_kombu(sent: Sent):
    """Within one batch and between two."""
    batches = [sent.send(*map(make, NAMES)) for _ in range(2)]

    tags = [get_tag(text) for each in batches for text in each["minutehand.quick"]]
    assert 2 * len(NAMES) == len(set(tags))
    assert tags == [str(UUID(tag)) for tag in tags]
    assert {4} == {UUID(tag).version for tag in tags}


def test_large_batch_arrives_once_and_in_its_order(sent: Sent):
    """Though it takes several commands for each lane."""
    messages = [
        make(str(number), queue)
        for number in range(250)
        for queue in (Queue.QUICK, Queue.HEAVY)
    ]

    found = sent.send(*messages)

    for queue in (Queue.QUICK, Queue.HEAVY):
        texts = found[f"minutehand.{queue.value}"]
        ids = [loads(text)["headers"]["id"] for text in texts]
        assert [str(each.id) for each in messages if each.queue is queue] == ids


@pytest.mark.parametrize("name", SIGNALS)
def test_who_listens_is_told_of_each_message(sent: Sent, name: str):
    """Tracing sees all, and nothing else; forms are used again when it has left."""
    assert sent.uses_forms()
    told: list[str] = []

    def listen(sender: str, **_named: Any) -> None:
        told.append(sender)

    with listening(SIGNALS[name], listen):
        sent.send(make("one"), make("two", Queue.HEAVY))

    assert ["execute_scheduled_action_quick", "execute_scheduled_action"] == told
    assert sent.uses_forms()


def test_headers_that_a_listener_adds_arrive(sent: Sent):
    """On each message, such as the context of a trace."""

    def mark(headers: dict[str, str], **_named: Any) -> None:
        headers["traceparent"] = str(uuid4())

    with listening(signals.before_task_publish, mark):
        found = sent.send(make("one"), make("two"))

    marks = {
        loads(text)["headers"]["traceparent"] for text in found["minutehand.quick"]
    }
    assert 2 == len(marks)


def compress(conf: Any) -> None:
    conf.task_compression = "zlib"


def serialize_as_yaml(conf: Any) -> None:
    conf.task_serializer = "yaml"


def serialize_as_pickle(conf: Any) -> None:
    conf.task_serializer = "pickle"


def leave_body_bare(conf: Any) -> None:
    """Write what is in messages as text, in which quotes need escapes."""
    conf.broker_transport_options["body_encoding"] = "utf-8"


@pytest.mark.parametrize(
    "configure", [compress, serialize_as_yaml, serialize_as_pickle, leave_body_bare]
)
def test_what_does_not_fit_in_forms_is_left_to_celery(
    redis_url: str, configure: Callable[[Any], None]
):
    """The messages are as configured."""
    sent = Sent(redis_url, configure)

    whole, filled = sent.send_both(*map(make, NAMES))

    assert not sent.uses_forms()
    assert whole == filled
    sent.close()


def share_database(conf: Any) -> None:
    """Begin all keys with the same word, and look at priorities."""
    conf.broker_transport_options["global_keyprefix"] = "all."
    del conf.broker_transport_options["priority_steps"]


def test_keys_are_those_of_kombu(redis_url: str):
    """With its prefix for all keys, once."""
    sent = Sent(redis_url, share_database)

    whole, filled = sent.send_both(*(make("one", queue) for queue in WORKER_QUEUES))

    assert sent.uses_forms()
    assert whole == filled
    assert {f"all.minutehand.{queue.value}" for queue in WORKER_QUEUES} == set(filled)
    sent.close()


def test_refusal_of_redis_is_an_unreachable_broker(sent: Sent):
    """It says what Redis said, of no message; and the next batch is sent."""
    assert sent.uses_forms()
    sent.client.set("minutehand.quick", "not a list")

    with pytest.raises(BrokerUnreachableError, match="failed: WRONGTYPE") as caught:
        sent.sender.send([make("one", Queue.HEAVY), make("two")])

    assert "LPUSH" not in str(caught.value)
    sent.client.delete("minutehand.quick")
    # What was not refused has arrived.
    assert {"minutehand.quick": 1, "minutehand.heavy": 1} == {
        key: len(texts) for key, texts in sent.send(make("two")).items()
    }
