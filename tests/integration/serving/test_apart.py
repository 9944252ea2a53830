"""Requests with large bodies are answered by processes of their own."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
from collections.abc import Callable, Iterator
from contextvars import copy_context
from http import HTTPStatus
from pathlib import Path

import httpx2
import psutil
import pytest
import sqlalchemy as sa
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

import tracing
from cli.web_app import make_app
from models.role import Role
from serving.access.manage_keys import create_key
from serving.apart import LARGEST_HERE, Apart
from serving.refusals import HttpError
from serving.server import WebServer
from settings import find_collector
from tests.database import write_by
from tests.integration.api.conftest import make_settings
from tests.scheduling import add_app
from tests.servers import find_children

Answering = Callable[[str, bytes], Response]


async def tell_process(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the process and what was asked; or end as the path says."""
    if scope["path"] == "/killed":
        os.kill(os.getpid(), signal.SIGKILL)
    message = await receive()
    start = {"type": "http.response.start", "status": 200}
    start["headers"] = [(b"a", b"b"), *scope["headers"]]
    text = f"{os.getpid()} {scope['path']} {len(message['body'])}".encode()
    await send(start)
    await send({"type": "http.response.body", "body": text})
    if scope["path"] == "/defect":
        raise ZeroDivisionError


def make_teller():
    """Return the application; what is pickled is this function."""
    return tell_process


def ask(apart: Apart, path: str, body: bytes):
    """Return what is answered to a request with *body*."""
    scope = {
        "type": "http",
        "asgi": {},
        "http_version": "1.1",
        "scheme": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [],
        "client": None,
        "server": None,
        "state": {"request_id": "one"},
        "app": object(),
    }
    return apart.answer(Request(scope), "tenant", body)


@pytest.fixture(scope="module")
def answer() -> Iterator[Answering]:
    """Give what answers a request: in processes that tell who they are."""
    apart = Apart(make_teller)
    with asyncio.Runner() as runner:
        yield lambda path, body: runner.run(
            ask(apart, path, body), context=copy_context()
        )
    apart.close()


def test_each_has_a_process_of_its_own(answer: Answering):
    """None of them is that of the server, and the answer is the one it would give."""
    first, second = (answer("/x", b"y" * length) for length in (1, 300_000))

    one, *told = bytes(first.body).split()
    other, *told_then = bytes(second.body).split()
    assert 3 == len({int(one), int(other), os.getpid()})
    assert ([b"/x", b"1"], [b"/x", b"300000"]) == (told, told_then)
    assert {"a": "b"} == dict(first.headers)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it has malloc_trim")
def test_what_was_kept_of_large_bodies_is_given_back():
    """It lay free between what is in use, so malloc had kept it."""
    blocks = [b"x" * 65_536 for _ in range(2_000)]
    used = blocks[::100]
    before = psutil.Process().memory_info().rss
    del blocks

    Apart(make_teller).close()

    assert before - psutil.Process().memory_info().rss > 100 * 2**20
    assert used


def test_it_goes_on_with_the_span_of_the_request(
    answer: Answering, monkeypatch: pytest.MonkeyPatch
):
    """What is done there is a part of it."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    tracing.configure(find_collector("TRACES"))
    with tracing.begin("request") as span:
        answered = answer("/x", b"y")
    tracing.stop()

    assert span.place is not None
    assert span.place.write() == answered.headers[tracing.HEADER]


def test_one_that_ends_is_told_and_the_next_are_answered(answer: Answering):
    """It may have run out of time or memory: whoever sent the body hears of it."""
    with pytest.raises(HttpError) as caught:
        answer("/killed", b"y")

    assert HTTPStatus.SERVICE_UNAVAILABLE == caught.value.status
    assert "the process that read this body has ended" in str(caught.value)
    assert bytes(answer("/x", b"y").body).endswith(b" /x 1")


def test_what_is_said_of_a_defect_is_the_answer(answer: Answering):
    """The application raises it again once that is said."""
    assert bytes(answer("/defect", b"y").body).endswith(b" /defect 1")


@pytest.fixture
def put(engine: sa.Engine, tmp_path: Path) -> Iterator[Callable[..., httpx2.Response]]:
    """Give a function that sends users to a real server."""
    add_app(engine, "shop")
    key = write_by(engine, create_key, app="shop", role=Role.EDITOR).text
    settings = make_settings(tmp_path, engine)
    settings = settings.model_copy(update={"web_address": "127.0.0.1:0"})
    server = WebServer(settings, make_app)
    server.start()
    yield lambda users: httpx2.put(
        f"{server.url}/api/v1/apps/shop/users",
        json={"users": users},
        headers={"Authorization": f"Bearer {key}", "If-Match": "*"},
        timeout=60,
    )
    server.end()


def count_forking() -> int:
    """Return how many processes there are that fork for the server."""
    return len(find_children("serving.apart"))


def test_large_bodies_are_answered_as_small_ones(put: Callable[..., httpx2.Response]):
    """
    A short body of many entries is one, too: what is read of it takes their time. Each
    header is there once, and the limits are those of the server.
    """
    users, others = [{"id": "ada"}, {"id": "b" * LARGEST_HERE}], count_forking()

    small, none = put(users[:1]), count_forking() - others
    many, one = put([[]] * 3_000), count_forking() - others
    large = put(users)

    assert [(200, 0), (422, 1)] == [(small.status_code, none), (many.status_code, one)]
    assert 422 == large.status_code
    assert "/users/1/id" == large.json()["errors"][0]["pointer"]
    assert large.json()["request_id"] == large.headers["x-request-id"]
    names = [name for name, _ in large.headers.multi_items()]
    assert sorted({*names}) == sorted(names)
    assert "ratelimit" in names
