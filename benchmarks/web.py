"""
A real ``minutehand web``, and clients that ask it as programs do.

What is measured is measured at a client on the same host, on one connection that is
kept: that is what the server takes, and some 0.1 ms for the loopback and the client.
"""

from __future__ import annotations

import http.client
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.servers import Servers
from models.database.engine import Author, make_engine, writing
from serving.access.manage_keys import create_key
from serving.access.roles import Role
from tests.servers import find_free_port, run_process, wait_for_port

#: A request that takes longer is counted as one that failed.
TIMEOUT_S = 30.0

#: Whoever asks more often than one key may has several.
KEYS = 16


@dataclass(frozen=True, slots=True)
class Web:
    """
    A web process that runs.

    Args:
        keys: Texts of API keys that may do everything.
    """

    port: int
    keys: tuple[str, ...]


@contextmanager
def run_web(servers: Servers) -> Iterator[Web]:
    """Run ``minutehand web`` on *servers* for the length of the block."""
    port = find_free_port()
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "MINUTEHAND_DATABASE_URL": servers.postgres,
            "MINUTEHAND_BROKER_URL": servers.redis,
            "MINUTEHAND_HOME": folder,
            "MINUTEHAND_QUEUE_PREFIX": "none",
            "MINUTEHAND_WEB_ADDRESS": f"127.0.0.1:{port}",
        }
        command = ["nice", "-n", "10", sys.executable, "-m", "cli.main", "web"]
        log = Path(folder) / "web.log"
        with run_process(command, log=log, environ=environment) as process:
            wait_for_port(port, process, log=log)
            yield Web(port, make_keys(servers))


def make_keys(servers: Servers, count: int = KEYS) -> tuple[str, ...]:
    """Return new keys that may do everything in every small app."""
    engine = make_engine(servers.postgres)
    with writing(engine, author=Author("benchmark")) as connection:
        made = [
            create_key(connection, app=None, role=Role.ADMIN).as_json()["key"]
            for _ in range(count)
        ]
    engine.dispose()
    return tuple(made)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; *took_s* is from the first byte sent to the last received."""

    status: int
    body: bytes
    took_s: float


class Client:
    """
    One connection that is kept, with each request under the next of *keys*.

    Args:
        url: ``http://host:port``.
        keys: None at all: it asks without.
        headers: Of each request.
    """

    def __init__(
        self,
        url: str,
        keys: Sequence[str] = (),
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        place = urlsplit(url)
        assert place.hostname is not None  # see url
        self._connection = http.client.HTTPConnection(
            place.hostname, place.port, timeout=TIMEOUT_S
        )
        self._keys = cycle(keys or [None])
        self._headers = dict(headers or {})

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """
        Send one request.

        Raises:
            OSError, http.client.HTTPException: There was no answer.
        """
        sent = {**self._headers, **(headers or {})}
        if key := next(self._keys):
            sent["Authorization"] = f"Bearer {key}"
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        begin = time.perf_counter()
        try:
            self._connection.request(method, path, body, sent)
            response = self._connection.getresponse()
            answered = response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        return Answer(response.status, answered, time.perf_counter() - begin)

    def close(self) -> None:
        """Leave."""
        self._connection.close()
