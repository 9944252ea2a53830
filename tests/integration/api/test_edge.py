"""
Tests for the edge of the server, with the raw sockets of clients that misbehave.

Nothing sleeps: deadlines are set to be short where they must pass, and long where they
must not, and a test waits for what the server does.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse

from serving.edge import BACKLOG, Edge, EdgeSettings
from serving.server import EdgeServer

#: Passes within every test, and never by chance.
SHORT = timedelta(milliseconds=100)

#: Never passes within a test.
LONG = timedelta(minutes=5)

PATIENT = EdgeSettings(
    head_within=LONG,
    body_within=LONG,
    answer_within=LONG,
    linger=LONG,
    body_bytes=100_000,
)

#: More than the buffers of both hosts take.
LARGE = 20 << 20

#: What a client waits for at most, in seconds: then the test has failed.
PATIENCE_S = 60


def get(target: bytes) -> bytes:
    """Return a request for *target*."""
    return b"GET " + target + b" HTTP/1.1\r\nHost: a\r\n\r\n"


GET = get(b"/")


class Application:
    """Reads the body, and answers with its length; what else it does is in the path."""

    def __init__(self) -> None:
        self.entered = Event()
        #: 90,000 bytes of a body
        self.received = Event()
        self.may_answer = Event()
        self.lost = Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request."""
        request = Request(scope, receive, send)
        self.entered.set()
        if scope["path"] == "/unread":
            await PlainTextResponse("unread")(scope, receive, send)
            return
        if scope["path"] == "/large":
            await PlainTextResponse(b"x" * (LARGE))(scope, receive, send)
            return
        if scope["path"] == "/stream":
            await StreamingResponse(self._go_on())(scope, receive, send)
            return
        if scope["path"] == "/wait":
            while (await receive())["type"] != "http.disconnect":
                pass
            self.lost.set()
            return
        length = 0
        async for part in request.stream():
            length += len(part)
            if length >= 90_000:
                self.received.set()
        await PlainTextResponse(str(length))(scope, receive, send)

    async def _go_on(self) -> Any:
        while not self.may_answer.is_set():
            yield "x" * 10_000
            await asyncio.sleep(0)  # gives way, as all that waits for something does


class Server:
    """A server in a thread of its own."""

    def __init__(self, edge: Edge, app: Application) -> None:
        self.edge = edge
        self.app = app
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        config = uvicorn.Config(
            app,
            http=edge.make_protocol_class(),
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_keep_alive=PATIENCE_S,
            h11_max_incomplete_event_size=16 << 10,
            timeout_graceful_shutdown=PATIENCE_S,
        )
        self.server = EdgeServer(config, before_shutdown=app.may_answer.set)
        self.thread = Thread(
            target=self.server.run, kwargs={"sockets": [self.listener]}
        )

    def connect(self, source: str = "") -> closing[socket.socket]:
        """Return the socket of a new client, at another address of this host."""
        to, at = self.listener.getsockname(), (source, 0) if source else None
        return closing(socket.create_connection(to, PATIENCE_S, at))

    def ask(self, text: bytes) -> str:
        """Send a text on a connection of its own, and return all that comes back."""
        with self.connect() as client:
            client.sendall(text)
            return read_all(client)

    def serves(self, source: str = "") -> bool:
        """Tell whether a new client is answered as it wants."""
        with self.connect(source) as client:
            client.sendall(GET)
            return read_answer(client).startswith("HTTP/1.1 200 OK")

    @contextmanager
    def waiting(self) -> Iterator[socket.socket]:
        """Give a client that is being served."""
        with self.connect() as client:
            client.sendall(get(b"/wait"))
            self.app.entered.wait(PATIENCE_S)
            yield client

    def stop(self) -> None:
        """Let the server end."""
        self.server.should_exit = True
        self.thread.join(PATIENCE_S)


@contextmanager
def run(settings: EdgeSettings) -> Iterator[Server]:
    """Run a server."""
    server = Server(Edge(settings), Application())
    server.thread.start()
    try:
        yield server
    finally:
        server.stop()
        assert not server.thread.is_alive()


@pytest.fixture(autouse=True)
def _no_complaints(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail if anything was logged as an error, or with a traceback."""
    yield
    bad = [
        each.getMessage()
        for when in ("setup", "call")
        for each in caplog.get_records(when)
        if each.exc_info or each.levelno >= logging.ERROR
    ]
    assert bad == []


def read_all(client: socket.socket) -> str:
    """Read until the server ends the connection."""
    parts = []
    try:
        while part := client.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts).decode("latin-1")


def read_answer(client: socket.socket) -> str:
    """Read one answer of a connection that goes on."""
    text = bytearray()
    while b"\r\n\r\n" not in text:
        text += _read(client)
    head, _, body = text.partition(b"\r\n\r\n")
    (length,) = (
        int(line.split(b":")[1])
        for line in head.lower().splitlines()
        if line.startswith(b"content-length")
    )
    while len(body) < length:
        body += _read(client)
    return f"{head.decode()}\r\n\r\n{body.decode()}"


def _read(client: socket.socket) -> bytes:
    part = client.recv(1 << 20)
    assert part, "the connection ended"
    return part


def read_problem(answer: str) -> dict[str, Any]:
    """Return the problem of an answer."""
    head, _, body = answer.partition("\r\n\r\n")
    assert "content-type: application/problem+json" in head.lower()
    problem: dict[str, Any] = json.loads(body)
    # the phrase after it is that of the Python that runs uvicorn
    assert head.startswith(f"HTTP/1.1 {problem['status']} ")
    return problem


def post(length: int, body: bytes = b"", path: str = "/") -> bytes:
    """Return a request that announces so much, with that much of it."""
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"
    return head.encode() + body


# --- what is slow


@pytest.mark.parametrize("text", [b"", b"GET / HTTP/1.1\r\nHost: a\r\n"])
def test_head_that_never_ends_is_cut(text: bytes):
    """Nobody who is still saying what they want is owed an answer."""
    with run(replace(PATIENT, head_within=SHORT)) as server:
        assert server.ask(text) == ""


def test_bytes_now_and_then_win_no_time():
    """The deadline is counted from the beginning, however much arrives since."""
    with run(replace(PATIENT, head_within=SHORT)) as server, server.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\n")
        wait_until_closed(client, b"a: b\r\n")


def test_body_that_never_ends_is_answered():
    """The application learns that its client is gone, and the client why."""
    with run(replace(PATIENT, body_within=SHORT, linger=SHORT)) as server:
        problem = read_problem(server.ask(post(1000, b"abc")))

    assert problem["status"] == 408
    assert problem["detail"].startswith("The body of the request did not arrive")


def test_body_that_nobody_reads_must_end_too():
    """A request that was answered before its body came does not keep the connection."""
    with run(replace(PATIENT, answer_within=SHORT)) as server:
        answer = server.ask(post(1000, b"abc", "/unread"))

    assert answer.endswith("unread")


@pytest.mark.parametrize("text", [b"", b"G"])
def test_further_request_has_a_deadline_too(text: bytes):
    """A connection is kept for a further request, but not for long."""
    with run(replace(PATIENT, answer_within=SHORT)) as server:
        assert server.ask(GET + text).endswith("\r\n\r\n0")


@pytest.mark.parametrize("text", [GET, b"no HTTP\r\n\r\n"])
def test_answer_that_nobody_reads_is_cut(text: bytes):
    """A client that reads nothing of a large answer does not keep it in memory."""
    settings = replace(PATIENT, answer_within=SHORT, linger=SHORT)
    with run(settings) as server, server.connect() as client:
        client.sendall(get(b"/large") + text)
        wait_until_closed(client)
        received = len(read_all(client))

    assert received < LARGE


def test_stream_that_nobody_reads_is_cut():
    """Nor does one that gets more and more."""
    settings = replace(PATIENT, answer_within=SHORT)
    with run(settings) as server, server.connect() as client:
        client.sendall(get(b"/stream"))
        wait_until_closed(client)


def wait_until_closed(client: socket.socket, text: bytes = b"\n") -> None:
    """Send *text* again and again, without reading, until the server has cut it."""
    client.settimeout(PATIENCE_S)
    with suppress(BrokenPipeError, ConnectionResetError):
        while True:
            # a byte too many is an error as soon as the other side is gone
            client.send(text)


# --- what is large, or wrong


_EXPECTED = post(100_001).replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
_CHUNK = b"%x\r\n%s\r\n" % (60_000, b"x" * 60_000)
_CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
#: To a proxy that obeys the length, the second request is a part of this one.
_TWICE = post(5).replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n")
_SMUGGLED = _TWICE + b"0\r\n\r\n" + GET
_TOO_LONG = "The body has more than 100,000 bytes. Send it in several requests."


@pytest.mark.parametrize(
    ("text", "status", "told"),
    [
        (_EXPECTED, 413, _TOO_LONG),
        (_CHUNKED + _CHUNK + _CHUNK, 413, _TOO_LONG),
        (_SMUGGLED, 400, "twice how long"),
        (get(b"/?name=%ff"), 400, "is not UTF-8"),
        (get(b"/?name=%ED%A0%80"), 400, "is not UTF-8"),
        (get(b"/%c3%28"), 400, "is not UTF-8"),
    ],
    ids=["announced", "chunks", "twice", "no-UTF-8", "surrogate", "in-path"],
)
def test_body_and_address_that_cannot_be_meant_are_refused(
    text: bytes, status: int, told: str
):
    """A client that waits for 100 Continue sends nothing in vain."""
    with run(replace(PATIENT, linger=SHORT)) as server:
        problem = read_problem(server.ask(text))

    assert problem["status"] == status
    assert told in problem["detail"]


def test_body_of_the_very_length_is_served():
    """The bound is inclusive."""
    with run(PATIENT) as server, server.connect() as client:
        client.sendall(post(100_000, b"x" * 100_000))

        assert read_answer(client).endswith("100000")


def test_bodies_are_bounded_together():
    """Many large ones at once do not fill the memory."""
    settings = replace(PATIENT, all_body_bytes=150_000, linger=SHORT)
    with run(settings) as server, server.connect() as first:
        first.sendall(post(100_000, b"x" * 90_000))
        server.app.received.wait(PATIENCE_S)
        problem = read_problem(server.ask(post(100_000, b"x" * 100_000)))
        first.sendall(b"x" * 10_000)
        answer = read_answer(first)

    assert problem["status"] == 503
    assert answer.endswith("100000")
    assert server.edge.body_bytes == 0


def test_long_head_is_refused():
    """It is not kept until it ends."""
    with run(replace(PATIENT, linger=SHORT)) as server:
        answer = server.ask(b"GET /" + b"a" * 20_000)

    assert answer.startswith("HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "text",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # TLS
        b"GET / HTTP/1.1\r\n\r\n",  # no Host
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    ],
)
def test_what_is_not_http_is_refused(text: bytes):
    """By uvicorn, in a line of text; nothing is logged as an error."""
    with run(PATIENT) as server:
        answer = server.ask(text)

    assert answer.startswith("HTTP/1.1 400 ")


def test_bad_chunk_after_the_answer_ends_the_connection():
    """An answer has been sent already, so there is nothing to say."""
    head = b"POST /unread HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    with run(PATIENT) as server, server.connect() as client:
        client.sendall(head)
        read_answer(client)
        client.sendall(b"xyz\r\n")
        rest = read_all(client)

    assert rest == ""


@pytest.mark.parametrize("upgrade", [b"websocket", b"h2c"])
def test_other_protocols_are_not_heeded(
    upgrade: bytes, caplog: pytest.LogCaptureFixture
):
    """
    The request is answered as if it had not asked for another, and leaves no line in
    the log, which strangers could fill.
    """
    text = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n"
    with run(PATIENT) as server, server.connect() as client:
        client.sendall(text % upgrade)

        assert read_answer(client).startswith("HTTP/1.1 200 OK")
    assert [] == caplog.records


# --- clients that leave


def test_client_that_leaves_is_told_to_the_application():
    """It need not work on."""
    with run(PATIENT) as server:
        with server.waiting():
            pass

        assert server.app.lost.wait(PATIENCE_S)


def test_client_that_leaves_in_the_middle_of_its_body_leaves_no_trace():
    """Nobody is interested in a traceback of that."""
    with run(PATIENT) as server:
        with server.connect() as client:
            client.sendall(post(1000, b"abc"))
            server.app.entered.wait(PATIENCE_S)
        assert server.serves()

    assert server.edge.connections == 0
    assert server.edge.body_bytes == 0
    assert not server.edge.by_address


# --- too many


@pytest.mark.parametrize(
    ("count", "text"), [(50, b"GET /"), (5, post(1000, b"abc"))], ids=["head", "body"]
)
def test_those_who_ask_nothing_give_way(count: int, text: bytes):
    """However many slow clients there are, a new one is served."""
    with run(replace(PATIENT, connections=3)) as server, ExitStack() as slow:
        for _ in range(count):
            slow.enter_context(server.connect()).sendall(text)

        assert server.serves()


def test_those_being_served_do_not_give_way():
    """If all are, a further one is refused and told to come again."""
    settings = replace(PATIENT, connections=1, linger=SHORT)
    with run(settings) as server, server.waiting():
        answer = server.ask(GET)
        again = server.ask(GET)

    assert read_problem(answer)["status"] == 503
    assert "\r\nretry-after: 1\r\n" in answer
    assert read_problem(again)["status"] == 503


def test_one_address_has_a_share_only():
    """What one address keeps busy leaves room for the others."""
    settings = replace(PATIENT, connections=10, connections_per_address=1, linger=SHORT)
    with run(settings) as server, server.waiting():
        assert read_problem(server.ask(GET))["status"] == 503
        assert server.serves("127.0.0.2")


def test_proxy_has_no_share():
    """All clients come from its address."""
    settings = replace(
        PATIENT, connections_per_address=1, proxies=frozenset({"127.0.0.1"})
    )
    with run(settings) as server, server.waiting():
        assert server.serves()
