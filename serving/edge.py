"""
The edge of the server: what may reach the application, for how long and how much of it.

uvicorn's HTTP/1.1 protocol has no deadline for a request that arrives byte by byte, no
bound for a body, and none for the connections of one address. Here each connection has
a deadline for whatever it waits for, and the server has a bound for whatever it keeps:

- a request's head, and its body, must arrive in time, or are answered with 408;
- an answer must be read at a certain pace, or the connection is cut;
- where there are too many connections, of one address or of all, those that have asked
  nothing for the longest time give way to new ones;
- bodies are bounded one by one (413) and all together (503).

What is refused here never reaches the application.
"""

from __future__ import annotations

import asyncio
import json
import resource
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes
from uuid import uuid4

import h11
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

#: Open files that the process needs beside its connections: databases, log, itself.
_OTHER_FILES = 100

#: Connections that are accepted before the first of them is looked at, at most.
BACKLOG = 256

_Application = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class EdgeSettings:
    """
    The bounds of the edge.

    Args:
        head_within: From a connection's beginning, or the first byte of a further
            request, to the end of the request's head.
        body_within: From the end of the head to the end of the body.
        answer_within: For the client to read the next 48 KiB of an answer, or the rest.
        idle_within: Between two requests of a connection.
        linger: For a client that was refused to read why, while it may still send.
        head_bytes: Of a request's head, and of what comes between parts of a body.
        body_bytes: Of one body.
        all_body_bytes: Of the bodies of all requests that are not answered yet.
        connections: At a time.
        connections_per_address: At a time, unless the address is one of *proxies*.
        proxies: Addresses that speak for many clients.
    """

    head_within: timedelta = timedelta(seconds=10)
    body_within: timedelta = timedelta(seconds=30)
    answer_within: timedelta = timedelta(seconds=30)
    idle_within: timedelta = timedelta(seconds=15)
    linger: timedelta = timedelta(seconds=2)
    head_bytes: int = 16 << 10
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
        edge = self

        class Protocol(EdgeProtocol):
            """A connection of this server."""

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(edge, *args, **kwargs)

        return Protocol

    def admit(self, address: str) -> bool:
        """
        Make room for a connection of *address*, which is counted already.

        Returns:
            False if all others are being served, so that none can give way.
        """
        settings = self.settings
        is_shared = address in settings.proxies
        if (
            not is_shared
            and self.by_address[address] > settings.connections_per_address
            and not self._evict(address)
        ):
            return False
        return self.connections <= settings.connections or self._evict(None)

    def _evict(self, address: str | None) -> bool:
        """Cut the connection (of *address*, if given) that has asked the least."""
        for group in (self.waiting, self.uploading):
            for each in group:
                if address is None or each.address == address:
                    each.cut()
                    return True
        return False


class EdgeProtocol(H11Protocol):
    """A connection with deadlines and bounds; see the module."""

    def __init__(self, edge: Edge, *args: Any, **kwargs: Any) -> None:
        """Take what uvicorn hands over, after *edge*."""
        super().__init__(*args, **kwargs)
        self.edge = edge
        self.address = ""
        self.app = _end_quietly(self.app)
        self.conn = _Watched(self, edge.settings.head_bytes)
        self.timeout_keep_alive = edge.settings.idle_within.total_seconds()  # type: ignore[assignment]  # it is handed to call_later alone
        self._is_counted = False
        self._is_refusing = False
        #: Of the body of this request.
        self._body_bytes = 0
        #: What the client must do next, and by when.
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None
        self._refusal: tuple[HTTPStatus, str] | None = None

    # --- as asyncio calls it

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, unless there are too many connections already."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._is_counted = True
        self.edge.connections += 1
        self.edge.by_address[self.address] += 1
        if self.edge.admit(self.address):
            self._await_head()
        else:
            self._refuse(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "Too many connections are being served. Try again in a second.",
            )

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._await_nothing()
        self._free_body()
        if self._writing is not None:
            self._writing.cancel()
        if self._is_counted:
            self._is_counted = False
            self.edge.connections -= 1
            self.edge.by_address[self.address] -= 1
            if not self.edge.by_address[self.address]:
                del self.edge.by_address[self.address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read, or throw away what follows a request that was refused."""
        if self._is_refusing or self.transport.is_closing():
            return
        super().data_received(data)
        is_idle = self.conn.their_state is h11.IDLE
        if is_idle and self._reading is None and not self._is_refusing:
            # the first bytes of a further request, or the end of a body that nobody
            # had waited for
            self._await_head()

    def pause_writing(self) -> None:
        """Give the client a while to read what it was sent."""
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        """Go on sending."""
        self._await_no_reader()
        super().resume_writing()

    # --- as uvicorn calls it

    def send_400_response(self, msg: str) -> None:
        """Refuse a request; why was noted if it was refused by us."""
        status, detail = self._refusal or (HTTPStatus.BAD_REQUEST, msg)
        self._refuse(status, detail)

    def on_response_complete(self) -> None:
        """Wait for the next request, and for this answer to be read."""
        self._free_body()
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self._await_reader()
        else:
            self._await_no_reader()
        if not self.transport.is_closing() and self.conn.their_state is h11.IDLE:
            # uvicorn's timer counts, for as long as nothing comes
            self.edge.waiting[self] = None

    def timeout_keep_alive_handler(self) -> None:
        """End a connection that asked nothing more."""
        self._close()

    def shutdown(self) -> None:
        """End now, or after the answer that is under way."""
        if self.cycle is None or self.cycle.response_complete:
            self._close()
        else:
            self.cycle.keep_alive = False

    def _should_upgrade(self) -> bool:
        """Serve HTTP/1.1 alone; a request to change to anything else is not heeded."""
        return False

    # --- as the parser calls it

    def see(self, event: object) -> None:
        """
        Look at a part of a request before uvicorn does.

        Raises:
            h11.RemoteProtocolError: The request is refused.
        """
        settings = self.edge.settings
        if isinstance(event, h11.Request):
            self._await_nothing()
            self._free_body()
            if not self.transport.get_write_buffer_size():
                self._await_no_reader()
            self._check_target(event.target)
            length = dict(event.headers).get(b"content-length", b"0")
            # h11 has seen to it that it is a number, of at most 20 digits
            if int(length) > settings.body_bytes:
                self._refuse_body()
            self._await("uploading", settings.body_within)
        elif isinstance(event, h11.Data):
            self._body_bytes += len(event.data)
            self.edge.body_bytes += len(event.data)
            if self._body_bytes > settings.body_bytes:
                self._refuse_body()
            if self.edge.body_bytes > settings.all_body_bytes:
                self._deny(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    "Too many large requests are being served. Try again in a second.",
                )
        elif isinstance(event, h11.EndOfMessage):
            self._await_nothing()

    def cut(self) -> None:
        """End the connection at once, whatever was under way."""
        self._await_nothing()
        self._give_up_cycle()
        self.transport.abort()

    # --- deadlines

    def _await_head(self) -> None:
        self._await("waiting", self.edge.settings.head_within)

    def _await(self, group: str, within: timedelta) -> None:
        """Wait for a part of a request, in a group of connections that may give way."""
        self._await_nothing()
        getattr(self.edge, group)[self] = None
        self._reading = self.loop.call_later(
            within.total_seconds(), self._came_too_late
        )

    def _await_nothing(self) -> None:
        self.edge.waiting.pop(self, None)
        self.edge.uploading.pop(self, None)
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _await_reader(self) -> None:
        if self._writing is None:
            within = self.edge.settings.answer_within.total_seconds()
            self._writing = self.loop.call_later(within, self._was_not_read)

    def _await_no_reader(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    def _was_not_read(self) -> None:
        self._writing = None
        if self.transport.get_write_buffer_size():
            self.cut()

    def _came_too_late(self) -> None:
        # Someone who connected and said nothing expects no answer.
        has_begun = (
            self.conn.their_state is not h11.IDLE or self.conn.trailing_data[0] != b""
        )
        if not has_begun:
            self._close()
            return
        is_head = self.conn.their_state is h11.IDLE
        part = "head" if is_head else "body"
        settings = self.edge.settings
        within = settings.head_within if is_head else settings.body_within
        self._refuse(
            HTTPStatus.REQUEST_TIMEOUT,
            f"The {part} of the request did not arrive within "
            f"{within.total_seconds():g} seconds.",
        )

    # --- refusing

    def _check_target(self, target: bytes) -> None:
        """Refuse an address that no text of ours can equal, nor a database keep."""
        try:
            text = unquote_to_bytes(target).decode()
        except UnicodeDecodeError:
            self._deny(
                HTTPStatus.BAD_REQUEST,
                "The address of the request is not UTF-8. Encode it as UTF-8, then "
                "each byte as %XX.",
            )
        if "\0" in text:
            self._deny(
                HTTPStatus.BAD_REQUEST,
                "The address of the request has a NUL character (%00). Leave it out.",
            )

    def _refuse_body(self) -> None:
        self._deny(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"The body has more than {self.edge.settings.body_bytes:,} bytes. Send it "
            "in several requests.",
        )

    def _deny(self, status: HTTPStatus, detail: str) -> None:
        """Refuse the request from within the parser; uvicorn asks for the answer."""
        self._refusal = (status, detail)
        raise h11.RemoteProtocolError(detail, error_status_hint=status)

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        """Answer with a problem if no answer has begun, and end the connection."""
        self._await_nothing()
        self._give_up_cycle()
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.abort()
            return
        self._is_refusing = True
        self.edge.waiting[self] = None
        self.transport.write(make_refusal(status, detail))
        # If we closed while the client sends, its host would throw the answer away.
        with suppress(OSError):  # it has left already
            self.transport.write_eof()
        self.flow.resume_reading()
        self._close_within(self.edge.settings.linger)

    def _give_up_cycle(self) -> None:
        """Tell the application, if it is at work, that its client is gone."""
        self._free_body()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.waiting_for_100_continue = False
            self.cycle.message_event.set()
            self.flow.resume_writing()

    def _close(self) -> None:
        """End the connection once the client has read what it was sent."""
        self._await_nothing()
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._await_reader()

    def _close_within(self, delay: timedelta) -> None:
        self._await_no_reader()
        self._writing = self.loop.call_later(
            delay.total_seconds(), self.transport.abort
        )

    def _free_body(self) -> None:
        self.edge.body_bytes -= self._body_bytes
        self._body_bytes = 0


class _Watched(h11.Connection):
    """h11's parser; shows each part of a request to the connection first."""

    def __init__(self, protocol: EdgeProtocol, head_bytes: int) -> None:
        super().__init__(h11.SERVER, head_bytes)
        self._protocol = protocol

    def next_event(self) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        event = super().next_event()
        self._protocol.see(event)
        return event


def _end_quietly(app: _Application) -> _Application:
    """Return *app* without the errors that only say that its client has left."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        # The task ends either way, and uvicorn would log the traceback of either.
        with suppress(ClientDisconnect, asyncio.CancelledError):
            await app(scope, receive, send)

    return serve


def make_refusal(status: HTTPStatus, detail: str) -> bytes:
    """Return a whole HTTP/1.1 answer with a problem (RFC 9457), which ends it all."""
    request_id = str(uuid4())
    body = json.dumps(
        {
            "type": "about:blank",
            "title": status.phrase,
            "status": status.value,
            "detail": detail,
            "request_id": request_id,
            "errors": [],
        }
    ).encode()
    retry = "Retry-After: 1\r\n" * (status is HTTPStatus.SERVICE_UNAVAILABLE)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Content-Type: application/problem+json\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"X-Request-Id: {request_id}\r\n"
        f"{retry}"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body


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
