"""
Real processes for tests: no root, free ports, nothing left behind.

Everything listens on 127.0.0.1 only, keeps its data in a folder of its own, and is
stopped by the process id that was started here. tests/chaos/servers.py has databases
and brokers.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseServer
from typing import IO, Any, TextIO, TypeVar

import psutil

from tests.warm import die_with_parent, start_warm

_T = TypeVar("_T")

ROOT = Path(__file__).parent.parent

#: How long a test waits for what must happen. It costs nothing where it does; a machine
#: that eight others use as well is several times as slow, and sometimes stands still.
PATIENCE_S = 120

#: Below those that Linux gives to whoever connects; and what was given here.
_PORTS, _given = range(12_000, 32_000), set[int]()

#: More than any run of the tests has: each takes every so-many-th port.
_WORKERS = 16


class ServerError(Exception):
    """A server or process of a test did not start, or ended before its time."""


def wait_until(
    predicate: Callable[[], _T],
    *,
    timeout_s: float = PATIENCE_S,
    every_s: float = 0.02,
    what: str = "the condition",
) -> _T:
    """
    Call *predicate* until it returns something true, and return that.

    Args:
        predicate: Called every *every_s* seconds, or more rarely if it takes longer.
        timeout_s: How long at most; less than `PATIENCE_S` only where that is the fact.
        every_s: Pause between two calls.
        what: For the message, as in "waited 10 s for *what*".

    Raises:
        AssertionError: If the time is over.
    """
    asked_at = time.monotonic()
    give_up_at = asked_at + timeout_s
    while not (found := predicate()):
        now = time.monotonic()
        if now > give_up_at:
            msg = f"waited {timeout_s:g} s for {what}; last answer: {found!r}"
            raise AssertionError(msg)
        # What takes long to ask leaves as much, up to a second, to what it waits for.
        time.sleep(max(every_s, min(1, now - asked_at)))
        asked_at = time.monotonic()
    return found


@contextlib.contextmanager
def run_silent_server() -> Iterator[str]:
    """Give host and port of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def find_free_port() -> int:
    """
    Return a port of 127.0.0.1 on which nothing listens at this moment.

    It is none that the kernel gives to whoever connects, and none that another worker
    of pytest-xdist, or an earlier call, was given: what is to listen there may be slow.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    ports = _PORTS[int(worker) % _WORKERS :: _WORKERS]
    while True:
        port = random.choice(ports)
        if port in _given:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _given.add(port)
            return port


def is_listening(port: int) -> bool:
    """Tell whether something accepts connections on *port* of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def run_to_end(
    command: Sequence[str | Path],
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    given: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """
    Return how *command* ended, and what it printed.

    Args:
        environ: All of its variables. None: those of the tests.
        given: What it reads.
    """
    return subprocess.run(
        command,
        cwd=cwd,
        env=environ,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PATIENCE_S,
    )


@contextlib.contextmanager
def run_process(
    command: Sequence[str | Path],
    *,
    log: Path | Terminal,
    environ: Mapping[str, str] | None = None,
    user: str | None = None,
    cwd: Path = ROOT,
    stop_signal: signal.Signals = signal.SIGTERM,
    stop_timeout_s: float = 20,
) -> Iterator[subprocess.Popen[bytes]]:
    """
    Run *command* for the length of the block, then stop it and its children.

    Args:
        command: Program and arguments.
        log: File to which both outputs are appended, or a terminal.
        environ: Added to the environment of the tests.
        user: Run as this user; None means the current one.
        cwd: Working directory; the repository by default.
        stop_signal: What asks the process to stop.
        stop_timeout_s: How long it may take before it is killed.
    """
    with contextlib.ExitStack() as stack:
        output: IO[Any] = (
            log.stream
            if isinstance(log, Terminal)
            else stack.enter_context(log.open("ab"))
        )
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environ or {})},
            cwd=cwd,
            # A group of its own, so that it can be ended with all its children,
            # and so that Ctrl-C reaches the tests first.
            start_new_session=True,
            user=user,
            group=None if user is None else pwd.getpwnam(user).pw_gid,
            extra_groups=None if user is None else [],
            # It runs between fork and exec, after the change of user, which would
            # undo it. The one call it makes takes no lock.
            preexec_fn=lambda: die_with_parent(stop_signal),  # noqa: PLW1509
        )
    try:
        yield process
    finally:
        _stop(process, stop_signal, stop_timeout_s)


@contextlib.contextmanager
def run_warm(
    command: Sequence[str],
    *,
    log: Path,
    environ: Mapping[str, str],
    cwd: Path = ROOT,
    stop_timeout_s: float = 20,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a scheduler or a worker as `run_process` does, without its time to load."""
    if sys.platform != "linux":  # elsewhere libraries may not outlive a fork
        with run_process(
            command, log=log, environ=environ, cwd=cwd, stop_timeout_s=stop_timeout_s
        ) as process:
            yield process
        return
    process = start_warm(command, log=log, environ={**os.environ, **environ}, cwd=cwd)
    try:
        yield process
    finally:
        _stop(process, signal.SIGTERM, stop_timeout_s)


def _stop(
    process: subprocess.Popen[bytes], stop_signal: signal.Signals, timeout_s: float
) -> None:
    """Ask, wait, and in the end kill the whole group that was started here."""
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)  # a test may have frozen it
        process.send_signal(stop_signal)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout_s)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE_S)


def wait_for_port(
    port: int,
    process: subprocess.Popen[bytes],
    *,
    log: Path,
    is_ready: Callable[[int], bool] = is_listening,
) -> None:
    """
    Wait until *process* listens on *port*, or is ready in another sense.

    Raises:
        ServerError: If it ended instead; the message has the end of its log.
    """

    def is_up() -> bool:
        if process.poll() is not None:
            tail = log.read_text(errors="replace")[-2000:]
            msg = f"{process.args!r} ended with {process.returncode}:\n{tail}"
            raise ServerError(msg)
        return is_ready(port)

    wait_until(is_up, what=f"a server on port {port}")


@contextlib.contextmanager
def run_in_thread(server: BaseServer) -> Iterator[str]:
    """
    Let *server* answer for the length of the block, and give its host and port.

    What it logs of a request goes nowhere.
    """
    handler: Any = server.RequestHandlerClass
    address: Any = server.server_address
    handler.log_message = lambda *_arguments: None
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"{address[0]}:{address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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


@contextlib.contextmanager
def run_web_server() -> Iterator[WebServer]:
    """Run one on 127.0.0.1."""
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


@dataclass(frozen=True, slots=True)
class Terminal:
    """
    A terminal that somebody looks at.

    Args:
        stream: What a program writes to.
        _reader: Where all that is written to it comes out.
        _seen: What has come out so far.
    """

    stream: TextIO
    _reader: int
    _seen: bytearray

    @property
    def shown(self) -> str:
        """All that was written to it."""
        self.stream.flush()
        while select.select([self._reader], [], [], 0)[0]:
            self._seen.extend(os.read(self._reader, 1 << 16))
        return self._seen.decode().replace("\r\n", "\n")


@contextlib.contextmanager
def open_terminal() -> Iterator[Terminal]:
    """Open a terminal of 80 columns."""
    reader, writer = os.openpty()
    with open(writer, "w") as stream:  # noqa: PTH123 - a descriptor
        yield Terminal(stream, reader, bytearray())
    os.close(reader)


@contextlib.contextmanager
def make_folder(prefix: str) -> Iterator[Path]:
    """Make a folder that a server under another user can reach, and remove it."""
    # pytest's own folders are closed to other users.
    folder = Path(tempfile.mkdtemp(prefix=f"minutehand-{prefix}-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find_children(word: str) -> list[psutil.Process]:
    """Return the children of this process that live, and have *word* in a command."""
    found = []
    for child in psutil.Process().children():
        # one of another test may end just now
        with contextlib.suppress(psutil.NoSuchProcess):
            if word in " ".join(child.cmdline()):
                found.append(child)
    return found
