"""A web server whose answers a test decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.servers import run_in_thread


@dataclass
class WebServer:
    """
    A web server whose next answers a test decides.

    Args:
        url: Its address.
        status: Of its answers.
        body: Of its answers.
        headers: Of its answers.
        honours_conditions: Whether what is as it was is answered with 304.
        date: What it says that it is. None: the truth.

        announces: Whether it says how long an answer is.
        requests: The headers of what it was asked, and *bodies* what was in it.
    """

    url: str
    status: int = 200
    body: bytes = b"a\n1\n"
    headers: dict[str, str] = field(default_factory=dict)
    honours_conditions: bool = True
    date: str | None = None
    announces: bool = True
    requests: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def find_status(self, asked: dict[str, str]) -> int:
        """Return the status of the answer to a request with these headers."""
        tag, time = asked.get("if-none-match"), asked.get("if-modified-since")
        is_same = (tag and tag == self.headers.get("ETag")) or (
            time and time == self.headers.get("Last-Modified")
        )
        if is_same and self.honours_conditions:
            return 304
        return self.status


@pytest.fixture
def web() -> Iterator[WebServer]:
    state = WebServer("")

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = {name.lower(): value for name, value in self.headers.items()}
            state.requests.append(asked)
            state.bodies.append(self.rfile.read(int(asked.get("content-length", 0))))
            status = state.find_status(asked)
            body = state.body if status == state.status else b""
            self.send_response(status)
            for name, value in state.headers.items():
                self.send_header(name, value)
            if state.announces:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the name http.server calls

        def date_time_string(self, timestamp: float | None = None) -> str:
            return state.date or super().date_time_string(timestamp)

    with run_in_thread(ThreadingHTTPServer(("127.0.0.1", 0), Answer)) as place:
        state.url = f"http://{place}"
        yield state
