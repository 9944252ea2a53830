"""What no worker could read lies at a real Redis; tests/neighbours has RabbitMQ."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from celery_app import aside as aside_module
from celery_app.app import make_app
from celery_app.aside import Aside, UnreadableMessage, open_aside
from celery_app.consumer import Consumer
from models.errors import BrokerUnreachableError
from settings import Settings
from tests.scheduling import make_settings
from tests.servers import find_free_port

AT = datetime(2026, 11, 23, 7, tzinfo=UTC)


def read(broker_url: str) -> Settings:
    """Return the settings of whoever uses the broker."""
    return make_settings(BROKER_URL=broker_url)


def make_entry(
    text: bytes = b"{", problem: str = "it is not JSON"
) -> UnreadableMessage:
    """Return what is kept of *text*."""
    message: Any = SimpleNamespace(text=text)
    return UnreadableMessage.make(
        message, queue="minutehand.quick", problem=problem, at=AT
    )


@pytest.fixture
def aside(redis_url: str) -> Iterator[Aside]:
    """Give the list, which is empty."""
    with open_aside(read(redis_url)) as opened:
        yield opened


def test_entries_come_back_as_they_were_until_they_are_deleted(aside: Aside):
    """The oldest first; who looks takes none away."""
    first, second = make_entry(b"\xff\0\x1b["), make_entry(problem="\ud800 é")
    for each in (first, second):
        aside.put(each, timeout_s=30)

    assert [first, second] == aside.look() == aside.look()
    assert (2, 2, 0) == (aside.count(), aside.empty(), aside.count())


def test_only_the_newest_are_kept(aside: Aside, monkeypatch: pytest.MonkeyPatch):
    """Whoever sends many fills no memory."""
    monkeypatch.setattr(aside_module, "MOST", 3)
    for number in range(5):
        aside.put(make_entry(problem=str(number)), timeout_s=30)

    assert ["2", "3", "4"] == [each.problem for each in aside.look()]


def test_only_the_beginning_is_kept(aside: Aside):
    """A hundred megabytes are told by their size."""
    aside.put(make_entry(b"x" * 100_000_000), timeout_s=30)

    [found] = aside.look()
    assert found.size == 100_000_000
    assert len(found.text) == 4_000


def test_what_somebody_wrote_there_is_left_out(aside: Aside, redis_url: str):
    """It is no entry, and is deleted with the others."""
    with redis.Redis.from_url(redis_url) as client:
        client.lpush("minutehand.aside", "[]", "{", '{"at": 7}', b"\xff")

    assert [] == aside.look()
    assert aside.empty() == 4


def test_broker_that_is_away_is_named():
    """As every command of ours does."""
    away = read(f"redis://127.0.0.1:{find_free_port()}/0")

    with pytest.raises(BrokerUnreachableError, match="call to the broker failed"):
        open_aside(away).__enter__()


def test_worker_waits_for_a_broker_that_went_away_meanwhile():
    """It took what it cannot read, and tries again to put it aside; it does not end."""
    app = make_app(read(f"redis://127.0.0.1:{find_free_port()}/0"))
    later: list[Any] = []
    worker: Any = object.__new__(Consumer)
    vars(worker).update(
        app=app,
        connection_errors=app.connection_for_write().connection_errors,
        channel_errors=(),
        timer=SimpleNamespace(call_after=lambda *call: later.append(call)),
        call_soon=print,
        _beside=None,
        _aside=None,
    )
    message: Any = SimpleNamespace(channel=SimpleNamespace(connection="open"))

    def keep() -> None:
        worker._keep(message, make_entry())

    worker._let_go(message, keep)

    [(_seconds, _soon, (again, *arguments))] = later
    assert (again, arguments) == (worker._let_go, [message, keep])
