"""
The edge of the server: how long a client may take, and how much of the server.

What uvicorn bounds by a setting is set in ``serving/server.py``. It has no deadline for
a request that arrives byte by byte, no bound for a body, and none for the connections
of one address, so here are a protocol that counts connections and closes those that
ask nothing, and an ASGI application around each request, with its own deadlines
(docs/adr/0031-the-edge.md). What is refused here never reaches the application.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar
from urllib.parse import unquote_to_bytes
from uuid import uuid4

import h11
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from serving.refusals import make_problem

#: Open files that the process needs beside its connections: databases, log, itself.
_OTHER_FILES = 100

#: Connections that are accepted before the first of them is looked at, at most.
BACKLOG = 256

_LEFT: Message = {"type": "http.disconnect"}
_BUSY = "Too many {} are being served. Try again in a second."


@dataclass(frozen=True, slots=True)
class EdgeSettings:
    """
    The bounds of the edge.

    Args:
        head_within: From a connection's beginning to the end of a request's head.
        body_within: From the end of the head to the end of the body.
        answer_within: For the client to read a part of an answer; of the last part, and
            then to send the head of a further request.
        linger: For a client that was refused to read why, while it may still send.
        body_bytes: Of one body.
        all_body_bytes: Of the bodies of all requests that are not answered yet.
        connections: At a time.
        connections_per_address: At a time, unless the address is one of *proxies*.
        proxies: Addresses that speak for many clients.
    """

    head_within: timedelta = timedelta(seconds=10)
    body_within: timedelta = timedelta(seconds=30)
    answer_within: timedelta = timedelta(seconds=30)
    linger: timedelta = timedelta(seconds=2)
    body_bytes: int = 16 << 20
    all_body_bytes: int = 256 << 20
    connections: int = 2000
    connections_per_address: int = 1000
    proxies: frozenset[str] = frozenset()


@dataclass(slots=True)
class Edge:
    """
    What the connections of one server share; used in its event loop only.

    Args:
        settings: The bounds.
        waiting: Connections that wait for a request's head, the longest waiting first.
        uploading: Connections that wait for a request's body, likewise.
    """

    settings: EdgeSettings = field(default_factory=EdgeSettings)
    connections: int = 0
    by_address: Counter[str] = field(default_factory=Counter)
    body_bytes: int = 0
    waiting: dict[EdgeProtocol, None] = field(default_factory=dict)
    uploading: dict[EdgeProtocol, None] = field(default_factory=dict)

    def make_protocol_class(self) -> type[EdgeProtocol]:
        """Return the class that uvicorn makes connections of."""
        return type("Protocol", (EdgeProtocol,), {"edge": self})

    def count(self, address: str, change: int) -> None:
        """Count a connection of *address* that began (1) or ended (-1)."""
        self.connections += change
        self.by_address[address] += change
        if not self.by_address[address]:
            del self.by_address[address]

    def make_room(self, address: str) -> bool:
        """
        Cut a connection that asks the least, if that of *address* is one too many.

        Returns:
            False if all others are being served, so that none can give way.
        """
        settings = self.settings
        most = settings.connections_per_address
        if address not in settings.proxies and self.by_address[address] > most:
            return self._evict(address)
        return self.connections <= settings.connections or self._evict(None)

    def _evict(self, address: str | None) -> bool:
        for each in (*self.waiting, *self.uploading):
            if address is None or each.address == address:
                each.cut()
                return True
        return False


class EdgeProtocol(H11Protocol):
    """A connection that gives way, or ends, while it asks nothing."""

    edge: ClassVar[Edge]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take what uvicorn hands over."""
        super().__init__(*args, **kwargs)
        self.app = partial(self._serve, self.app)
        self.address = ""
        self.is_over = False
        #: Whether a request is refused, for there were too many when it connected.
        self.is_too_many = False
        self._requests = 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; whoever asks nothing may give way to it."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.edge.count(self.address, 1)
        self.is_too_many = not self.edge.make_room(self.address)
        self._await_head(self.edge.settings.head_within)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self.cut()
        self.edge.count(self.address, -1)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP; end an answer that is under way."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
            self._end()
            linger = self.edge.settings.linger.total_seconds()
            self._deadline = self.loop.call_later(linger, self.cut)
        else:
            self.cut()

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing of it: any stranger could fill the log."""

    def cut(self) -> None:
        """End the connection at once, whatever was under way."""
        self._end()
        self.transport.abort()

    def _end(self) -> None:
        self.is_over = True
        self.await_nothing()

    def await_nothing(self) -> None:
        """Have all of a request, or none."""
        self.edge.waiting.pop(self, None)
        self.edge.uploading.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()

    def _await_head(self, within: timedelta) -> None:
        self.edge.waiting[self] = None
        self._deadline = self.loop.call_later(within.total_seconds(), self.cut)

    async def _serve(
        self, app: ASGIApp, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self.await_nothing()
        self._requests += 1
        exchange = _Exchange(self, receive, send)
        try:
            # The task ends either way, and uvicorn would log the traceback of either.
            with suppress(ClientDisconnect, asyncio.CancelledError):
                await exchange.serve(app, scope)
            if self.is_over:
                await asyncio.sleep(0)  # uvicorn hears of the end before of this
        finally:
            self.edge.body_bytes -= exchange.body_bytes
            self._requests -= 1
            if not (self._requests or self.is_over):
                self.await_nothing()
                self._await_head(self.edge.settings.answer_within)


class _Exchange:
    """A request and its answer."""

    def __init__(self, connection: EdgeProtocol, receive: Receive, send: Send) -> None:
        self._connection = connection
        self._edge = connection.edge
        self._receive = receive
        self._send = send
        self._body_until = 0.0
        self._is_answered = self._is_refused = self._has_body = False
        self.body_bytes = 0

    async def serve(self, app: ASGIApp, scope: Scope) -> None:
        """Refuse what can be refused by its head; let *app* answer the rest."""
        settings = self._edge.settings
        headers = dict(scope["headers"])
        # h11 has seen to it that it is a number, of at most 20 digits
        length = int(headers.get(b"content-length", 0))
        if length or b"transfer-encoding" in headers:
            self._edge.uploading[self._connection] = None
        within = settings.body_within.total_seconds()
        self._body_until = self._connection.loop.time() + within
        if not _is_text(scope["raw_path"] + b"?" + scope["query_string"]):
            told = (
                "The address of the request is not UTF-8. Encode it as UTF-8, then each"
                " byte as %XX."
            )
            await self._refuse(HTTPStatus.BAD_REQUEST, told)
        elif {b"content-length", b"transfer-encoding"} <= headers.keys():
            # h11 obeys one of them; a proxy may have obeyed the other (RFC 9112, 6.1)
            told = "The request says twice how long its body is. Say it once."
            await self._refuse(HTTPStatus.BAD_REQUEST, told)
        elif self._connection.is_too_many:
            told = _BUSY.format("connections")
            await self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, told)
        elif length > settings.body_bytes:
            await self._refuse_size()
        else:
            await app(scope, self._read, self._write)

    async def _read(self) -> Message:
        """Return what came of the body, within its deadline; then, when they leave."""
        if self._is_refused:
            return _LEFT
        if self._has_body:
            return await self._receive()
        settings = self._edge.settings
        try:
            async with asyncio.timeout_at(self._body_until):
                message = await self._receive()
        except TimeoutError:
            within = settings.body_within.total_seconds()
            told = f"The body of the request did not arrive within {within:g} seconds."
            return await self._refuse(HTTPStatus.REQUEST_TIMEOUT, told)
        size = len(message.get("body", b""))
        self.body_bytes += size
        self._edge.body_bytes += size
        if self.body_bytes > settings.body_bytes:
            return await self._refuse_size()
        if self._edge.body_bytes > settings.all_body_bytes:
            told = _BUSY.format("large requests")
            return await self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, told)
        if not message.get("more_body"):
            self._has_body = True
            self._edge.uploading.pop(self._connection, None)
        return message

    async def _write(self, message: Message) -> None:
        """Send a part of the answer; cut a client that does not read the one before."""
        if self._is_refused or self._connection.is_over:
            return
        self._is_answered = True
        try:
            async with asyncio.timeout(
                self._edge.settings.answer_within.total_seconds()
            ):
                await self._send(message)
        except TimeoutError:
            self._connection.cut()

    async def _refuse_size(self) -> Message:
        most = self._edge.settings.body_bytes
        told = f"The body has more than {most:,} bytes. Send it in several requests."
        return await self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, told)

    async def _refuse(self, status: HTTPStatus, detail: str) -> Message:
        """Answer with a problem; for the application, the client has left."""
        self._is_refused = True
        if self._is_answered:
            self._connection.cut()
            return _LEFT
        answer = _make_refusal(status, detail)
        start = {"status": answer.status_code, "headers": answer.raw_headers}
        await self._send({"type": "http.response.start", **start})
        part = {"body": answer.body, "more_body": True}
        await self._send({"type": "http.response.body", **part})
        # If we closed while the client sends, its host would throw the answer away.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._edge.settings.linger.total_seconds()):
                while (await self._receive()).get("more_body"):
                    pass
        await self._send({"type": "http.response.body"})
        return _LEFT


def _is_text(target: bytes) -> bool:
    """Return whether an address is text; else others would be taken for the same."""
    try:
        unquote_to_bytes(target).decode()
    except UnicodeDecodeError:
        return False
    return True


def _make_refusal(status: HTTPStatus, detail: str) -> Response:
    """Return a problem (RFC 9457), which ends the connection."""
    request_id = str(uuid4())
    headers = {"x-request-id": request_id, "connection": "close"}
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["retry-after"] = "1"
    return make_problem(status, detail, request_id, headers=headers)


def fit_connections(wanted: int) -> int:
    """
    Return how many connections this process can have, at most *wanted*.

    Raises the soft limit of open files as far as the hard one allows; beyond it,
    accepting fails for everybody.
    """
    needed = wanted + BACKLOG + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, soft - BACKLOG - _OTHER_FILES))
