"""
Whether ten thousand slow clients keep others from being answered.

Run it as ``python -m benchmarks.api_clients``. Each slow client connects to a real
``minutehand web``, begins a request, and then sends a byte every few seconds, for as
long as it is let. Meanwhile one client asks on a connection that it keeps, and another
connects anew for each request. It is done with the connections that are allowed by
default, and with enough of them that all slow clients could stay.
"""

from __future__ import annotations

import asyncio
import http.client
import resource
import sys
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field

from benchmarks.command import describe_load, make_parser, run_command
from benchmarks.servers import Servers, empty, run_servers
from benchmarks.web import Client, Web, run_web
from migrations.schema import migrate
from models.database.engine import make_engine

#: What a slow client has sent at once; the end of it never comes.
_BEGINNING = b"GET /api/v1/operations HTTP/1.1\r\nHost: localhost\r\nX-Slow: "

_BYTE_EVERY_S = 3.0

#: Connections that are being made at a time.
_AT_ONCE = 200

#: Each address of 127/8 is this host, and one address may not take all connections.
_ADDRESSES = 100

#: Files that the process of the clients needs beside its connections.
_OTHER_FILES = 200

#: Asked for by the clients that are not slow.
_PATH = "/api/v1/operations"

_PAUSE_S = 0.01


@dataclass
class Crowd:
    """
    Slow clients, in a thread of their own.

    Args:
        wanted: Connections at a time.

    Attributes:
        open: Connections at this moment.

        cut: Connections that the server has ended.

        refused: Connections that could not be made.
    """

    port: int
    wanted: int
    open: int = 0
    cut: int = 0
    refused: int = 0

    def start(self) -> None:
        """Begin to connect; whoever is cut off comes again."""
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._come())
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        """Leave."""
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _run(self) -> None:
        with closing(self._loop), suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)

    async def _come(self) -> None:
        turn = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as clients:
            for number in range(self.wanted):
                clients.create_task(self._be_slow(number, turn))

    async def _be_slow(self, number: int, turn: asyncio.Semaphore) -> None:
        address = f"127.0.{1 + number % _ADDRESSES}.1"
        while True:
            try:
                async with turn, asyncio.timeout(10):
                    reader, writer = await asyncio.open_connection(
                        "127.0.0.1", self.port, local_addr=(address, 0)
                    )
            except (OSError, TimeoutError):
                self.refused += 1
                await asyncio.sleep(1)
                continue
            self.open += 1
            try:
                await self._dribble(reader, writer)
            finally:
                self.open -= 1
                writer.close()
            self.cut += 1
            await asyncio.sleep(1)

    @staticmethod
    async def _dribble(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Send a byte now and then until the server has enough of it."""
        with suppress(OSError):
            writer.write(_BEGINNING)
            while not writer.is_closing():
                with suppress(TimeoutError):
                    # Whatever it says, it says no more.
                    await asyncio.wait_for(reader.read(), _BYTE_EVERY_S)
                    return
                writer.write(b"a")


@dataclass
class Seen:
    """What the clients that are not slow saw: milliseconds, and no answers."""

    kept_ms: list[float] = field(default_factory=list)
    new_ms: list[float] = field(default_factory=list)
    unanswered: int = 0


def ask(web: Web, seconds: float) -> Seen:
    """Ask for *seconds*, on one connection and on new ones in turns."""
    seen = Seen()
    url = f"http://127.0.0.1:{web.port}"
    kept = Client(url, web.keys)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        new = Client(url, web.keys)
        for client, took_ms in ((kept, seen.kept_ms), (new, seen.new_ms)):
            begin = time.perf_counter()
            try:
                status = client.ask(_PATH).status
            except (OSError, http.client.HTTPException):
                status = 0
            if status == 200:
                took_ms.append((time.perf_counter() - begin) * 1000)
            else:
                seen.unanswered += 1
        new.close()
        time.sleep(_PAUSE_S)
    kept.close()
    return seen


def print_seen(what: str, seen: Seen) -> None:
    """Print one line for each kind of client."""
    for kind, unsorted in (("kept", seen.kept_ms), ("new", seen.new_ms)):
        took = sorted(unsorted) or [0.0]
        p50, p95, most = took[len(took) // 2], took[len(took) * 95 // 100], took[-1]
        print(
            f"{what:<34}{kind:<6}{len(took):>7,}{p50:>9.1f}{p95:>9.1f}{most:>9.0f}"
            f"{seen.unanswered:>12}",
            flush=True,
        )


def measure(
    servers: Servers, slow: int, seconds: float, connections: int | None
) -> None:
    """Print what others see without and with *slow* clients."""
    servers = empty(servers, "clients")
    engine = make_engine(servers.postgres)
    migrate(engine)
    engine.dispose()
    allowed = "as by default" if connections is None else f"{connections:,}"
    print(f"\nconnections allowed: {allowed}")
    print(
        f"{'beside':<34}{'':<6}{'asked':>7}{'p50 ms':>9}{'p95 ms':>9}{'most':>9}"
        f"{'unanswered':>12}"
    )
    with run_web(servers, connections=connections) as web:
        ask(web, 1)  # caches
        print_seen("no slow client", ask(web, seconds))
        crowd = Crowd(web.port, slow)
        before_mb, before_s = web.measure()
        crowd.start()
        try:
            print_seen(f"{slow:,} that are arriving", ask(web, seconds))
            print_seen(f"{slow:,} of which {crowd.open:,} are let", ask(web, seconds))
            memory_mb, cpu_s = web.measure()
        finally:
            crowd.end()
        print_seen("none again", ask(web, seconds))
        print(
            f"cut {crowd.cut:,} times, refused {crowd.refused:,}; the web process: "
            f"{before_mb:.0f} MB before, {memory_mb:.0f} MB beside them, "
            f"{(cpu_s - before_s) / (2 * seconds):.0%} of a core"
        )


def main() -> int:
    """Print what was seen; return the exit code."""
    parser = make_parser("api_clients", __doc__)
    parser.add_argument("--slow", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    slow = options.slow
    if hard != resource.RLIM_INFINITY:
        slow = min(slow, hard - _OTHER_FILES)
    print(
        f"{slow:,} slow clients, of {hard:,} files that a process may open; "
        f"{describe_load()}"
    )
    with run_servers() as servers:
        for connections in (None, slow + 1000):
            measure(servers, slow, options.seconds, connections)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
