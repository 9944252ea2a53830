"""What no worker could read, as commands tell it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from celery_app.aside import Aside, UnreadableMessage, open_aside
from settings import read_settings
from tests.integration.cli.calling import Call, Configure

#: What somebody sent.
ENTRY = UnreadableMessage(
    at=datetime(2026, 11, 23, 7, tzinfo=UTC),
    queue="minutehand.quick",
    problem="it is not JSON",
    size=5,
    text="{\x1b[2J",
)


@pytest.fixture
def aside(redis_url: str, configure: Configure) -> Iterator[Aside]:
    """Give the list at a Redis that commands use, too."""
    configure(BROKER_URL=redis_url)
    with open_aside(read_settings()) as opened:
        yield opened


def test_command_shows_and_empties(call: Call, aside: Aside):
    """Whatever the message holds, the terminal does not obey it."""
    assert "Nothing lies aside." in call("queues", "aside").err
    aside.put(ENTRY, timeout_s=30)

    assert "\x1b" not in call("queues", "aside").out
    [told] = call("queues", "aside", "--json").data
    expected = {"queue": "minutehand.quick", "problem": "it is not JSON", "size": 5}
    assert expected.items() <= told.items()
    assert "Deleted 1." in call("queues", "aside", "--empty").out
    assert {"deleted": 0} == call("queues", "aside", "--empty", "--json").data
