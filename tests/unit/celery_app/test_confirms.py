"""Confirms and returns of RabbitMQ, spoken by a channel in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from celery_app.broker_link import Confirms
from models.errors import BrokerUnreachableError


@dataclass
class FakeChannel:
    """A channel whose answers are written down first, and given one by one."""

    events: dict[str, set[Callable[..., None]]] = field(
        default_factory=lambda: defaultdict(set)
    )
    answers: list[tuple[Any, ...]] = field(default_factory=list)
    confirms: bool = False

    def confirm_select(self) -> None:
        """Note that it was asked for."""
        self.confirms = True

    def drain(self, _timeout_s: float) -> None:
        """Give the next answer; silence ends as a socket's does."""
        if not self.answers:
            raise TimeoutError
        event, *arguments = self.answers.pop(0)
        for handler in self.events[event]:
            handler(*arguments)


def make_return(task_id: str) -> tuple[Any, ...]:
    """Return the answer for a message without a queue."""
    message = SimpleNamespace(properties={"correlation_id": task_id})
    return ("basic_return", Exception(), "", "quick", message)


@pytest.fixture
def channel() -> FakeChannel:
    """Give a channel on which nothing was said."""
    return FakeChannel()


def publish(channel: FakeChannel, count: int) -> Confirms:
    """Return confirms that expect *count* messages."""
    confirms = Confirms(channel)
    for _ in range(count):
        confirms.expect()
    return confirms


def test_channel_is_asked_to_confirm(channel: FakeChannel):
    """Without that, RabbitMQ says nothing."""
    publish(channel, 0)

    assert channel.confirms


def test_each_message_is_waited_for(channel: FakeChannel):
    """In whatever order they are confirmed, one by one or many at once."""
    confirms = publish(channel, 4)
    channel.answers = [("basic_ack", 4, False), ("basic_ack", 3, True)]

    assert set() == confirms.wait(channel.drain, timeout_s=1)
    assert channel.answers == []


def test_silence_is_an_error(channel: FakeChannel):
    """What is not confirmed is not sent."""
    confirms = publish(channel, 2)
    channel.answers = [("basic_ack", 1, False)]

    with pytest.raises(TimeoutError):
        confirms.wait(channel.drain, timeout_s=1)


def test_time_is_for_all_messages_together(channel: FakeChannel):
    """A broker that answers for one a second must not hold up the loop."""
    confirms = publish(channel, 2)
    channel.answers = [("basic_ack", 1, False)]

    with pytest.raises(BrokerUnreachableError, match="2 messages not confirmed"):
        confirms.wait(channel.drain, timeout_s=0)


def test_refusal_is_an_error(channel: FakeChannel):
    """RabbitMQ refuses what it could not keep."""
    confirms = publish(channel, 3)
    channel.answers = [("basic_nack", 2, True), ("basic_ack", 3, False)]

    with pytest.raises(BrokerUnreachableError, match="refused 2 messages"):
        confirms.wait(channel.drain, timeout_s=1)


def test_messages_without_a_queue_are_named_once(channel: FakeChannel):
    """They are confirmed all the same, and those of the next batch are others."""
    confirms = publish(channel, 2)
    channel.answers = [
        make_return("first"),
        ("basic_ack", 1, False),
        ("basic_ack", 2, False),
    ]

    assert {"first"} == confirms.wait(channel.drain, timeout_s=1)
    confirms.expect()
    channel.answers = [("basic_ack", 3, False)]
    assert set() == confirms.wait(channel.drain, timeout_s=1)
