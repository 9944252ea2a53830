"""
Requests with large bodies, each answered by a process of its own.

What is read of a body takes many times its memory, and lets nobody else have a turn of
the interpreter. So another process, which knows all that the server knows, forks for
each of them: the neighbours of whoever sent it share the processors with it, no more,
and its memory is free when it ends.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from http import HTTPStatus
from threading import Lock
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message

import tracing
from models.door.json_text import count_marks
from serving.limits import Turns
from serving.refusals import HttpError
from settings import find_collector

#: Bytes of a body that the server reads itself, and its lists, objects and commas: some
#: milliseconds, for a few bytes may be as many entries.
LARGEST_HERE, MOST_HERE = 128 * 1024, 2_000

#: How many such requests are answered at the same time, for different small apps.
AT_ONCE = 2

#: Seconds that such a request may take, of which a process is ended.
_WITHIN_S = 60

#: Seconds after the last such request until the process that forks ends.
_IDLE_S = 60

#: Those who sent little go first.
_NICE = 5

#: Of the process that forks; its arguments are the socket, and where modules are.
_PROGRAM = """
import sys
_, control, *sys.path = sys.argv
from serving.apart import serve
serve(int(control))
"""

#: What of a request is no object of the server's own.
_HANDED_OVER = (
    *("type", "asgi", "http_version", "method", "scheme", "path", "raw_path"),
    *("query_string", "root_path", "headers", "client", "server"),
)


def is_large(body: bytes) -> bool:
    """Tell whether to read *body* would hold up those who ask the server meanwhile."""
    return len(body) > LARGEST_HERE or count_marks(body.decode("latin-1")) > MOST_HERE


class Apart:
    """
    Answers requests with large bodies; used in the event loop of the server alone.

    Args:
        make_app: Returns the application that answers; it can be pickled.
    """

    def __init__(self, make_app: Callable[[], ASGIApp]) -> None:
        """Start nothing yet."""
        self._make_app = make_app
        self._turns = Turns("another request with a large body", AT_ONCE)
        self._threads = CapacityLimiter(AT_ONCE)
        self._forking: _Forking | None = None
        self._starting = Lock()
        self._ending: asyncio.TimerHandle | None = None

    async def answer(self, request: Request, tenant: str, body: bytes) -> Response:
        """
        Return what the application answers to a request.

        Raises:
            HttpError: The turn of *tenant* did not come, or there is no answer: 503.
        """
        scope = {key: request.scope[key] for key in _HANDED_OVER}
        scope["state"] = {"request_id": request.state.request_id}
        if (span := tracing.find_current()) is not None:
            ours = (tracing.HEADER.encode(), span.write().encode())
            scope["headers"] = [ours, *scope["headers"]]  # the first counts
        async with self._turns.take(tenant):
            if self._ending is not None:
                self._ending.cancel()
            try:
                head, *parts = await to_thread.run_sync(
                    self._ask, (scope, body), limiter=self._threads
                )
            except (EOFError, OSError):
                msg = (
                    "the process that read this body has ended, which happens to all"
                    f" that take longer than {_WITHIN_S} s. See what it has done, and"
                    " send the rest in several requests."
                )
                raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, msg) from None
            finally:
                loop = asyncio.get_running_loop()
                self._ending = loop.call_later(_IDLE_S, self.close)
        content = b"".join(part.get("body", b"") for part in parts)
        response = Response(content, head["status"])
        response.raw_headers = list(head["headers"])
        return response

    def close(self) -> None:
        """
        End the process that forks; those that are forked already go on.

        What malloc keeps of bodies goes back to the system, as far as it is glibc's.
        """
        if self._forking is not None:
            self._forking.end()
            self._forking = None
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)

    def _ask(self, asked: tuple[dict[str, object], bytes]) -> list[Message]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            # Only against a process that hangs: the others end in time.
            ours.settimeout(2 * _WITHIN_S)
            with self._starting:
                if self._forking is None or not self._forking.is_alive:
                    self._forking = _Forking(self._make_app)
                self._forking.hand_over(theirs)
            theirs.close()  # now its end is that of the process
            with ours.makefile("rwb") as stream:
                pickle.dump(asked, stream)
                stream.flush()
                told: list[Message] = pickle.load(stream)  # noqa: S301 - of our own
        return told


class _Forking:
    """The process that forks for each request."""

    def __init__(self, make_app: Callable[[], ASGIApp]) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                # -P: modules come from where ours come from, not the working folder.
                [sys.executable, "-P", "-c", _PROGRAM, str(theirs.fileno()), *sys.path],
                stdin=subprocess.PIPE,
                # What it prints is no data for whoever reads ours.
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # Ctrl+C is for the server, which ends it.
                start_new_session=True,
            )
        assert self._process.stdin is not None  # a pipe, see above
        with self._process.stdin as stream:
            pickle.dump(make_app, stream)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def hand_over(self, connection: socket.socket) -> None:
        socket.send_fds(self._control, [b"\0"], [connection.fileno()])

    def end(self) -> None:
        self._control.close()
        self._process.kill()
        self._process.wait()


def serve(control: int) -> None:
    """
    Fork for each request, until the server ends.

    Args:
        control: File descriptor of the socket that requests come from, each as a socket
            of its own.
    """
    app = pickle.load(sys.stdin.buffer)()  # noqa: S301 - of the server
    tracing.configure(find_collector("TRACES"))
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries them
    with socket.socket(fileno=control) as requests:
        while True:
            _, found, _, _ = socket.recv_fds(requests, 1, 1)
            if not found:
                return
            with socket.socket(fileno=found[0]) as connection:
                if os.fork() == 0:
                    requests.close()
                    _answer(app, connection)
                    tracing.stop()
                    os._exit(0)


def _answer(app: ASGIApp, connection: socket.socket) -> None:
    """Answer the one request of this process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.alarm(_WITHIN_S)
    os.nice(_NICE)
    gc.disable()  # it ends before there is much
    told: list[Message] = []
    with connection.makefile("rwb") as stream:
        scope, body = pickle.load(stream)  # noqa: S301 - of the server
        try:
            asyncio.run(_run(app, scope, body, told))
        finally:
            # Also what is said of a defect, which is raised once that is told.
            pickle.dump(told, stream)


async def _run(
    app: ASGIApp, scope: MutableMapping[str, Any], body: bytes, told: list[Message]
) -> None:
    bodies = [body]

    async def receive() -> Message:
        if not bodies:
            await asyncio.Event().wait()  # nobody tells that the client has left
        return {"type": "http.request", "body": bodies.pop(), "more_body": False}

    async def send(message: Message) -> None:
        told.append(message)

    await app(scope, receive, send)
